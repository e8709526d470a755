//! Layers: the windows that they change, their order, and the effect of a failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plugin_api::Datatype;

use super::super::case::{Case, Context, Failure, Outcome, ensure, same};
use super::neighbours::Neighbours;
use host_stub::win::{
    Assertion, Info, Layout, NewWindow, RmaTable, Transfer, WinError, WinResult, Window, WindowHook,
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("hooks/put_on_many_nodes_after_one_smp", two_windows),
        Case::new("hooks/replace_in_one_window_only", one_window_only),
        Case::new("hooks/order_and_parameters", order),
        Case::new("hooks/failure_on_one_rank", failure),
        Case::new("hooks/not_the_same_everywhere", unequal),
    ]
}

/// Puts this rank's number and a word to every rank of a window, fences, and checks the words of the others. `(own,
/// size)` are this rank and the number of ranks.
fn exchange(window: &Window, (own, size): (usize, usize), word: u8) -> Outcome {
    let row = Layout::contiguous(Datatype::Uint8, 2);
    let mine = [own as u8, word];
    window.fence(Assertion::NOPRECEDE)?;
    for rank in 0..size {
        let target = row.at(rank, 2 * own as u64);
        // SAFETY: the bytes live unchanged until after the fence.
        unsafe { window.put(mine.as_ptr(), &row, target) }?;
    }
    window.fence(Assertion::NOSUCCEED)?;
    let mut found = vec![0; 2 * size];
    window.read_local(0, &mut found)?;
    let wanted: Vec<u8> = (0..size).flat_map(|rank| [rank as u8, word]).collect();
    same("window", &found, &wanted)
}

/// Makes a window whose ranks are on separate nodes, then a window whose ranks share a node and
/// which gets other functions; then puts on the first. With one table for all windows, the puts
/// would use functions that work within a node only.
fn two_windows(context: &Context<'_>) -> Outcome {
    let len = 2 * context.size;
    let apart = Info::new().with_ranks_per_node(1);
    let many = Window::allocate_with(context.job, len, 1, &apart)?;
    let near = Neighbours::of(context)?;
    let smp = Window::allocate_with(&near.comm, len, 1, &Info::new())?;
    let (all, few) = ((context.rank, context.size), (near.rank, near.size));
    ensure(
        context.size == 1 || many.table_name() != smp.table_name(),
        || format!("both windows have the table {}", many.table_name()),
    )?;
    exchange(&many, all, 1)?;
    exchange(&smp, few, 2)?;
    exchange(&many, all, 3)?;
    smp.free()?;
    exchange(&many, all, 4)?;
    many.free()?;
    Ok(())
}

/// The counts that the counting layer keeps with its windows.
struct Counting {
    below: RmaTable,
    puts: Arc<AtomicU64>,
}

unsafe fn counting_put(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    let Some(counting) = window.kept::<Counting>() else {
        return Err(Box::new(WinError::BadArgument {
            call: "put",
            reason: "the layer that counts puts is not of this window".to_owned(),
        }));
    };
    counting.puts.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller guarantees the contract of the function below.
    unsafe { (counting.below.put)(window, transfer) }
}

/// Counts the puts of windows that are in one segment.
fn count_puts(new: &mut NewWindow<'_>, puts: &Arc<AtomicU64>) -> Result<(), String> {
    if new.window().table_name() == "shm" {
        let below = *new.table;
        let puts = Arc::clone(puts);
        new.keep(Counting { below, puts });
        new.table.put = counting_put;
    }
    Ok(())
}

fn one_window_only(context: &Context<'_>) -> Outcome {
    let len = 2 * context.size;
    let near = Neighbours::of(context)?;
    let before = Window::allocate_with(&near.comm, len, 1, &Info::new())?;
    let puts = Arc::new(AtomicU64::new(0));
    let hook = context.job.add_window_hook(
        WindowHook {
            name: "counting",
            created: count_puts,
            ended: |_, _| {},
        },
        Arc::clone(&puts),
    );
    let apart = Info::new().with_table(host_stub::win::TableChoice::Btl);
    let many = Window::allocate_with(context.job, len, 1, &apart);
    let smp = Window::allocate_with(&near.comm, len, 1, &Info::new());
    context.job.remove_window_hook(hook);
    let (many, smp) = (many?, smp?);
    let after = Window::allocate_with(&near.comm, len, 1, &Info::new())?;

    let mut wanted = 0;
    let (all, few) = ((context.rank, context.size), (near.rank, near.size));
    for (window, ranks, counted) in [
        (&many, all, 0),
        (&smp, few, 1),
        (&before, few, 0),
        (&after, few, 0),
        (&smp, few, 1),
    ] {
        exchange(window, ranks, 7)?;
        wanted += counted * near.size as u64;
        let found = puts.load(Ordering::Relaxed);
        ensure(found == wanted, || {
            format!("{found} puts counted, wanted {wanted}")
        })?;
    }
    for window in [before, many, smp, after] {
        window.free()?;
    }
    Ok(())
}

/// The notes of the hooks, in order.
type Notes = Arc<Mutex<Vec<String>>>;

fn note(notes: &Notes, text: String) {
    notes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(text);
}

fn taken(notes: &Notes) -> String {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *notes).join(" ")
}

/// A hook's parameter: the list for its notes, its own word, and whether it fails here.
type Parameter = (Notes, &'static str, bool);

const NOTING: fn() -> WindowHook<Parameter> = || WindowHook {
    name: "noting",
    created: |_, (notes, word, fails)| {
        if *fails {
            note(notes, format!("!{word}"));
            return Err(format!("{word} does not like this window"));
        }
        note(notes, format!("+{word}"));
        Ok(())
    },
    ended: |_, (notes, word, _)| note(notes, format!("-{word}")),
};

fn order(context: &Context<'_>) -> Outcome {
    let notes = Notes::default();
    let ids = ["a", "b", "c"].map(|word| {
        let parameter = (Arc::clone(&notes), word, false);
        context.job.add_window_hook(NOTING(), parameter)
    });
    let first = Window::allocate_with(context.job, 8, 1, context.info);
    context.job.remove_window_hook(ids[1]);
    let second = Window::dynamic_with(context.job, context.info);
    for id in ids {
        context.job.remove_window_hook(id);
    }
    let made = taken(&notes);
    first?.free()?;
    let freed = taken(&notes);
    second?.free()?;
    let last = taken(&notes);
    ensure(
        (made.as_str(), freed.as_str(), last.as_str()) == ("+a +b +c +a +c", "-c -b -a", "-c -a"),
        || format!("made: {made}; freed: {freed}; then {last}"),
    )
}

/// The second of three hooks fails, on one rank: every rank gets the rank and the reason, and
/// undoes the completed hooks.
fn failure(context: &Context<'_>) -> Outcome {
    let guilty = context.size - 1;
    let notes = Notes::default();
    let ids = ["a", "b", "c"].map(|word| {
        let fails = word == "b" && context.rank == guilty;
        let parameter = (Arc::clone(&notes), word, fails);
        context.job.add_window_hook(NOTING(), parameter)
    });
    let infos = [
        Info::new(),
        Info::new().with_table(host_stub::win::TableChoice::Btl),
    ];
    let made = infos.map(|info| Window::allocate_with(context.job, 64, 1, &info));
    for id in ids {
        context.job.remove_window_hook(id);
    }
    for made in made {
        match made {
            Err(error) => match &*error {
                WinError::Creation { rank, reason }
                    if *rank == guilty && reason.contains("noting: b does not like") => {}
                _ => return Err(error.into()),
            },
            Ok(window) => {
                window.free()?;
                return Err(Failure::new("a window was made that a hook refused"));
            }
        }
    }
    let wanted = if context.rank == guilty {
        "+a !b -a +a !b -a"
    } else {
        "+a +b +c -c -b -a +a +b +c -c -b -a"
    };
    let found = taken(&notes);
    ensure(found == wanted, || format!("{found}, wanted {wanted}"))?;
    // Afterwards windows can be made again.
    let window = Window::allocate_with(context.job, 2 * context.size, 1, context.info)?;
    exchange(&window, (context.rank, context.size), 5)?;
    window.free()?;
    Ok(())
}

/// If not every rank has a hook, the creation fails and does not hang.
fn unequal(context: &Context<'_>) -> Outcome {
    if context.size == 1 {
        return Ok(());
    }
    let notes = Notes::default();
    let id = (context.rank == 0).then(|| {
        let parameter = (Arc::clone(&notes), "a", false);
        context.job.add_window_hook(NOTING(), parameter)
    });
    let made = Window::allocate_with(context.job, 64, 1, context.info);
    if let Some(id) = id {
        context.job.remove_window_hook(id);
    }
    match made {
        Err(error) => match &*error {
            WinError::Creation { reason, .. } if reason.contains("window hooks") => Ok(()),
            _ => Err(error.into()),
        },
        Ok(window) => {
            window.free()?;
            Err(Failure::new("a window was made with different hooks"))
        }
    }
}
