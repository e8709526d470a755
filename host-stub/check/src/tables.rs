//! Windows with each table of functions, and layers that replace functions of some.

mod hooks;
mod locks;
mod neighbours;
mod sharing;

use super::case::{Case, Context, Outcome, ensure, say, skip};
use super::pass::{Pass, windows};
use host_stub::win::{Assertion, Datatype, Info, Layout, TableChoice, Target, Window};
use neighbours::Neighbours;
use test_skips::Lacking;

/// The whole window suite over every table, and the tests of tables themselves.
pub(super) fn passes(ranks: usize) -> Vec<Pass> {
    let with = |table| Info::new().with_table(table);
    // Two pretended nodes, so that every rank has near and far ones.
    let half = (ranks as u32).div_ceil(2).max(1);
    let mixed = with(TableChoice::Auto).with_ranks_per_node(half);
    let mut own = vec![
        Case::new("tables/names", names),
        Case::new("tables/created_memory_is_copied", created),
    ];
    own.extend(hooks::cases());
    own.extend(sharing::cases());
    own.extend(locks::cases());
    vec![
        Pass::new(Info::new(), own),
        Pass::new(with(TableChoice::Auto), windows()).named("shm"),
        Pass::new(mixed, windows()).named("mixed"),
        Pass::new(with(TableChoice::Cma), windows()).named("cma"),
        Pass::new(with(TableChoice::Btl), windows()).named("btl"),
    ]
}

/// A word of another process, by the kernel's copy.
fn word_of(pid: u64, address: u64) -> Option<u64> {
    let mut word = 0u64;
    let local = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: 8,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: 8,
    };
    // SAFETY: one vector each; the local word lives, and the kernel checks the other.
    let copied = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    (copied == 8).then_some(word)
}

/// Memory that the window does not own, of ranks on one node, is reached by the kernel's copies
/// without being asked for, where the kernel permits them.
fn created(context: &Context<'_>) -> Outcome {
    let number = 0x5eed_0000 + context.rank as u64;
    let word = std::hint::black_box(&number);
    let card = [
        u64::from(std::process::id()),
        std::ptr::from_ref(word) as u64,
    ];
    let card: Vec<u8> = card.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let cards = context.job.allgather(&card)?;
    let node = |rank: usize| context.job.node(rank as u32);
    let near: Vec<usize> = (0..context.size)
        .filter(|rank| *rank != context.rank && node(*rank) == node(context.rank))
        .collect();
    let reads = near.iter().all(|rank| {
        let words = cards[*rank].as_chunks::<8>().0;
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        word_of(words[0], words[1]) == Some(0x5eed_0000 + *rank as u64)
    });
    context.meet()?;
    let mut memory = [0u64; 8];
    let base = memory.as_mut_ptr().cast();
    // SAFETY: the memory lives until after the window.
    let window = unsafe { Window::create_with(context.job, base, 64, 8, &Info::new()) }?;
    let name = window.table_name();
    let row = Layout::contiguous(Datatype::Uint64, 1);
    let mine = 1 + context.rank as u64;
    window.fence(Assertion::NOPRECEDE)?;
    let target = Target {
        rank: (context.rank + 1) % context.size,
        displacement: 7,
        layout: &row,
    };
    // SAFETY: the word lives until after the fence.
    unsafe { window.put((&raw const mine).cast(), &row, target) }?;
    window.fence(Assertion::NOSUCCEED)?;
    let mut found = [0; 8];
    window.read_local(56, &mut found)?;
    window.free()?;
    let last = (context.rank + context.size - 1) % context.size;
    ensure(u64::from_ne_bytes(found) == 1 + last as u64, || {
        format!("rank {last} put {found:?}")
    })?;
    if near.is_empty() || !reads {
        if near.is_empty() {
            return say(context, "this rank has no other of its node");
        }
        return skip(
            context,
            Lacking::ProcessCopies,
            "this rank cannot copy from others of its node",
        );
    }
    ensure(name == "cma", || {
        format!("a window of created memory has table {name}, and the kernel does copy")
    })
}

/// Windows get the tables that they ask for: else the passes would test other ones than they say. Over the ranks of each node,
/// and over the whole job where that has several nodes.
fn names(context: &Context<'_>) -> Outcome {
    let near = Neighbours::of(context)?;
    let half = (near.size as u32).div_ceil(2);
    let all = half == near.size as u32;
    let infos = [
        (Info::new(), "shm"),
        (Info::new().with_table(TableChoice::Shm), "shm"),
        (Info::new().with_table(TableChoice::Mixed), "mixed"),
        (
            Info::new().with_ranks_per_node(half),
            if all { "shm" } else { "mixed" },
        ),
        (Info::new().with_table(TableChoice::Btl), "btl"),
    ];
    let is = |window: Window, info: &Info, wanted: &str| {
        let found = window.table_name();
        window.free()?;
        ensure(found == wanted, || format!("{info:?} gave {found}"))
    };
    for (info, wanted) in infos {
        is(
            Window::allocate_with(&near.comm, 100, 1, &info)?,
            &info,
            wanted,
        )?;
    }
    if near.size < context.size {
        for (info, wanted) in [
            (Info::new(), "mixed"),
            (Info::new().with_table(TableChoice::Btl), "btl"),
        ] {
            is(
                Window::allocate_with(context.job, 100, 1, &info)?,
                &info,
                wanted,
            )?;
        }
    }
    Ok(())
}
