//! Hooks that are called when windows begin and end, and may replace functions of one window.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use host::win::{HookId, NewWindow, Window, WindowHook};

use crate::base::error::{Error, guarded, last_text};
use crate::job::job;
use crate::win::entries::set;
use crate::win::layers::{Hook, Layers, inherited};
use crate::win::query::{kind, name};
use crate::win::table::{
    host_new_win_t, host_rma_table_t, host_win_ended_fn, host_win_hook_fn, whole,
};

struct Hooks {
    list: Vec<Hook>,
    made: c_int,
    /// The hook of the job that calls these hooks, and counts for their number.
    joined: Option<HookId>,
}

static HOOKS: Mutex<Hooks> = Mutex::new(Hooks {
    list: Vec::new(),
    made: 0,
    joined: None,
});

fn hooks() -> std::sync::MutexGuard<'static, Hooks> {
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called at the job's end, which removes all hooks.
pub(crate) fn forget_all() {
    let mut hooks = hooks();
    hooks.list.clear();
    hooks.joined = None;
}

/// Calls the layers' `ended`, the highest first.
fn end(ran: &[Hook], tables: &[host_rma_table_t]) {
    for (hook, table) in ran.iter().zip(tables).rev() {
        if let Some(ended) = hook.ended {
            // SAFETY: the program guarantees the function when it registers the hook.
            unsafe { ended(table.data, hook.param) };
        }
    }
}

fn created(new: &mut NewWindow<'_>, _: &()) -> Result<(), String> {
    let all = hooks().list.clone();
    let window = new.window();
    let seen = host_new_win_t {
        size: size_of::<host_new_win_t>(),
        rank: window.rank() as c_int,
        ranks: window.size() as c_int,
        kind: kind(window),
        reserved: 0,
        table_name: name(window).as_ptr(),
        base: window.base().cast(),
        bytes: window.len(),
    };
    let mut ran = Vec::with_capacity(all.len());
    let mut tables = Vec::with_capacity(all.len());
    for hook in all {
        let mut table = inherited();
        // SAFETY: the program guarantees the function when it registers the hook; both arguments
        // live until it returns.
        let code = unsafe { (hook.created)(&seen, &mut table, hook.param) };
        let text = match code {
            0 => whole(&table).err().map(|error| error.text),
            _ => Some(format!(
                "it returned {code}; its last error: {}",
                last_text()
            )),
        };
        if code == 0 {
            // The hook has succeeded, so its `ended` is called, even if its table is refused.
            ran.push(hook);
            tables.push(table);
        }
        if let Some(text) = text {
            end(&ran, &tables);
            return Err(format!("hook {}: {text}", hook.id));
        }
    }
    let below = *new.table;
    set(new.table, &tables);
    new.keep(Layers { below, tables, ran });
    Ok(())
}

fn ended(window: &Window, _: &()) {
    if let Some(layers) = window.kept::<Layers>() {
        end(&layers.ran, &layers.tables);
    }
}

/// Registers a hook for the windows made from now on, after the hooks already registered. Returns an
/// id or a negative code. `ended` may be NULL. Every rank registers the same hooks in the same order,
/// while no window is being made.
///
/// # Safety
/// Any thread may call the functions with `param`, and the entries that they set, as long as there are
/// windows that the hook saw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_hook_register(
    created: host_win_hook_fn,
    ended: host_win_ended_fn,
    param: *mut c_void,
) -> c_int {
    let mut id = 0;
    let outcome = guarded(|| {
        let call = "host_win_hook_register";
        let created = created.ok_or_else(|| Error::argument(call, "the hook is NULL"))?;
        let job = job(call)?;
        let mut hooks = hooks();
        let joined = *hooks.joined.get_or_insert_with(|| {
            let hook = WindowHook {
                name: "of the program",
                created: self::created,
                ended: self::ended,
            };
            job.add_window_hook(hook, ())
        });
        hooks.made += 1;
        id = hooks.made;
        hooks.list.push(Hook {
            id,
            created,
            ended,
            param,
        });
        job.weigh_window_hook(joined, hooks.list.len());
        Ok(())
    });
    if outcome == 0 { id } else { outcome }
}

/// Ends a registration. Windows that were made under the registration keep the hook's entries.
#[unsafe(no_mangle)]
pub extern "C" fn host_win_hook_remove(id: c_int) -> c_int {
    guarded(|| {
        let mut hooks = hooks();
        let before = hooks.list.len();
        hooks.list.retain(|hook| hook.id != id);
        if hooks.list.len() == before {
            let call = "host_win_hook_remove";
            return Err(Error::argument(call, &format!("no hook has the id {id}")));
        }
        if let Some(joined) = hooks.joined {
            job("host_win_hook_remove")?.weigh_window_hook(joined, hooks.list.len());
        }
        Ok(())
    })
}
