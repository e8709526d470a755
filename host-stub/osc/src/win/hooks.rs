//! Layers that replace functions of new windows.
//!
//! A layer registers a hook with the context of its windows. When a window has been made and its table filled, the hooks
//! run in the order of their registration; each may replace entries of this window's table only. When the window ends,
//! the hooks' undo functions run in the reverse order. Every rank registers the same hooks in the same order.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::create::intent::Intent;
use super::error::{WinResult, refused};
use super::table::RmaTable;
use super::window::Window;

/// The functions of a layer at the beginning and end of windows. `P` is its parameter, the same at
/// every call.
pub struct WindowHook<P> {
    /// The layer's name, for errors.
    pub name: &'static str,
    /// Called when a window was made on this rank, but not yet on all ranks. The hook may read the
    /// window and replace entries of its table, and must not call the window's functions. An error
    /// makes the creation fail on every rank, with this reason.
    pub created: fn(&mut NewWindow<'_>, &P) -> Result<(), String>,
    /// Called when a window for which `created` succeeded ends, or when its creation fails because
    /// another hook failed, here or at another rank.
    pub ended: fn(&Window, &P),
}

/// A window that is being made.
pub struct NewWindow<'a> {
    window: &'a Window,
    kept: &'a mut Vec<Box<dyn Any + Send + Sync>>,
    /// The functions that the window will have, with the changes of earlier layers.
    pub table: &'a mut RmaTable,
}

impl NewWindow<'_> {
    /// The window, complete except for its table.
    pub fn window(&self) -> &Window {
        self.window
    }

    /// Keeps a value with the window as long as the window lives, such as the replaced functions:
    /// [`Window::kept`] finds the value by its type.
    pub fn keep<T: Any + Send + Sync>(&mut self, thing: T) {
        self.kept.push(Box::new(thing));
    }
}

trait Hook: Send + Sync {
    fn name(&self) -> &'static str;
    fn created(&self, new: &mut NewWindow<'_>) -> Result<(), String>;
    fn ended(&self, window: &Window);
}

struct Registered<P> {
    hook: WindowHook<P>,
    parameter: P,
}

impl<P: Send + Sync> Hook for Registered<P> {
    fn name(&self) -> &'static str {
        self.hook.name
    }

    fn created(&self, new: &mut NewWindow<'_>) -> Result<(), String> {
        (self.hook.created)(new, &self.parameter)
    }

    fn ended(&self, window: &Window) {
        (self.hook.ended)(window, &self.parameter);
    }
}

struct Entry {
    id: u64,
    hook: Arc<dyn Hook>,
    /// The number of hooks for which this hook counts in the comparison among the ranks.
    stands_for: usize,
}

/// The hooks of a context's windows, in the order of their registration.
#[derive(Default)]
pub struct WindowHooks {
    list: Mutex<Vec<Entry>>,
    registered: AtomicU64,
}

/// The number of a registration, by which it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookId(u64);

impl WindowHooks {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a hook for the windows made from now on. Every rank registers the same hooks in
    /// the same order, while no window is being made.
    pub fn add<P: Send + Sync + 'static>(&self, hook: WindowHook<P>, parameter: P) -> HookId {
        let id = self.registered.fetch_add(1, Ordering::Relaxed);
        let registered = Arc::new(Registered { hook, parameter });
        self.lock().push(Entry {
            id,
            hook: registered,
            stands_for: 1,
        });
        HookId(id)
    }

    /// Ends a registration. Windows made before keep the hook's changes, and call its `ended`.
    /// Ending a registration again does nothing.
    pub fn remove(&self, id: HookId) {
        self.lock().retain(|entry| entry.id != id.0);
    }

    /// Sets for how many hooks a hook counts; the default is 1. Creation fails if the total differs
    /// between ranks; a hook that counts for none may not be called.
    pub fn weigh(&self, id: HookId, stands_for: usize) {
        let mut hooks = self.lock();
        if let Some(entry) = hooks.iter_mut().find(|entry| entry.id == id.0) {
            entry.stands_for = stands_for;
        }
    }

    /// The number of hooks, each counted as set by [`weigh`](Self::weigh).
    pub(super) fn count(&self) -> usize {
        self.lock().iter().map(|entry| entry.stands_for).sum()
    }
}

/// The hooks that ran for one window, and the values that they keep with it.
#[derive(Default)]
pub(super) struct Layers {
    ran: Vec<Arc<dyn Hook>>,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl Layers {
    /// Runs the hooks of its context on a new window. On an error, the hooks that had run are
    /// undone.
    pub(super) fn run(window: &mut Window) -> Result<(), String> {
        let hooks = &window.link.context.hooks;
        let hooks: Vec<Arc<dyn Hook>> = hooks
            .lock()
            .iter()
            .map(|entry| Arc::clone(&entry.hook))
            .collect();
        let mut table = window.table;
        let mut layers = Layers::default();
        for hook in hooks {
            let mut new = NewWindow {
                window,
                kept: &mut layers.kept,
                table: &mut table,
            };
            if let Err(reason) = hook.created(&mut new) {
                let reason = format!("window hook {}: {reason}", hook.name());
                window.layers = layers;
                Layers::end(window);
                return Err(reason);
            }
            layers.ran.push(hook);
        }
        window.table = table;
        window.layers = layers;
        Ok(())
    }

    /// Calls the layers' `ended` for a window, the last layer first.
    pub(super) fn end(window: &mut Window) {
        while let Some(hook) = window.layers.ran.pop() {
            hook.ended(window);
        }
    }
}

/// Runs the layers' hooks, and checks that they succeeded on all ranks. Otherwise the hooks are
/// undone.
pub(super) fn hooked(window: &mut Window, intents: &[Intent]) -> WinResult<()> {
    let hooks = intents[window.link.rank].hooks;
    let other = intents.iter().position(|intent| intent.hooks != hooks);
    let ran = match other {
        None => Layers::run(window),
        Some(rank) => Err(format!(
            "{hooks} window hooks are registered here, and {} on rank {rank}",
            intents[rank].hooks
        )),
    };
    let mine = ran.as_ref().err().cloned().unwrap_or_default();
    let outcome = window.link.exchange(mine.as_bytes()).and_then(|all| {
        match all.iter().position(|reason| !reason.is_empty()) {
            None => Ok(()),
            Some(rank) => Err(refused(rank, String::from_utf8_lossy(&all[rank]))),
        }
    });
    if outcome.is_err() {
        Layers::end(window);
    }
    outcome
}

impl Window {
    /// The first value of this type that a layer kept with the window.
    #[inline]
    pub fn kept<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.layers
            .kept
            .iter()
            .find_map(|thing| thing.downcast_ref())
    }
}
