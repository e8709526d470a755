//! Hooks of layers, called when communicators are made and freed.

use std::ffi::{c_int, c_void};

use host::Comm;
use host::comm::{HookError, Layer};

use crate::base::error::{Error, guarded, last_text};
use crate::comm::communicator::{handle, host_comm_t};
use crate::job::job;

/// The default number of a program's own layer. A higher number is nearer to the program; the host's
/// node-local collectives are layer 100. The lowest layer's create hook runs last, so that calls
/// come to its table first: a layer that is to see every call needs a number below 100.
pub const HOST_LAYER_PROGRAM: u32 = 1000;

const _: () = assert!(Layer::PROGRAM.0 == HOST_LAYER_PROGRAM);

/// A hook, called with a communicator that was made or is freed, and `param`. Returns HOST_SUCCESS
/// or a negative code.
pub type host_comm_hook_fn =
    Option<unsafe extern "C" fn(comm: *mut host_comm_t, param: *mut c_void) -> c_int>;

type Hook = unsafe extern "C" fn(*mut host_comm_t, *mut c_void) -> c_int;

struct Registered {
    create: Option<Hook>,
    destroy: Option<Hook>,
    param: *mut c_void,
}

// SAFETY: the program guarantees that any thread may call the function with the parameter.
unsafe impl Send for Registered {}
// SAFETY: as for Send.
unsafe impl Sync for Registered {}

fn run(comm: &Comm, hook: Option<Hook>, param: *mut c_void) -> Result<(), HookError> {
    // An absent hook is not registered.
    let Some(hook) = hook else { return Ok(()) };
    // SAFETY: the program guarantees the function when it registers the hook.
    let code = unsafe { hook(handle(comm), param) };
    if code == 0 {
        return Ok(());
    }
    Err(format!(
        "a hook of the program returned {code}; its last error: {}",
        last_text()
    )
    .into())
}

fn created(comm: &Comm, registered: &Registered) -> Result<(), HookError> {
    run(comm, registered.create, registered.param)
}

fn destroyed(comm: &Comm, registered: &Registered) -> Result<(), HookError> {
    run(comm, registered.destroy, registered.param)
}

/// Registers a create hook, a destroy hook or both for a layer. `create` is called with every
/// communicator made from now on, from the highest layer to the lowest, and `destroy` when a
/// communicator is freed, in the reverse order; each hook gets its own `param`. Every rank registers
/// the same layers. If a create hook fails, the creation fails at all ranks. The host then calls the
/// destroy hooks of the create hooks that succeeded, the last first. The failed hook cleans up for
/// itself, and the communicator's table before this hook is restored. Hooks get the handle that the
/// creation will return.
///
/// # Safety
/// Any thread may call the functions with `param` until the layer is unregistered and the
/// communicators that it saw are freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_hooks_register(
    layer: u32,
    create: host_comm_hook_fn,
    destroy: host_comm_hook_fn,
    param: *mut c_void,
) -> c_int {
    guarded(|| {
        let call = "host_comm_hooks_register";
        if create.is_none() && destroy.is_none() {
            return Err(Error::argument(call, "both hooks are NULL"));
        }
        let job = job(call)?;
        let layer = Layer(layer);
        let hooks = job.comm_hooks();
        let registered = Registered {
            create,
            destroy,
            param,
        };
        match (create, destroy) {
            (Some(_), Some(_)) => hooks.register(layer, created, destroyed, registered),
            (Some(_), None) => hooks.register_create(layer, created, registered),
            _ => hooks.register_destroy(layer, destroyed, registered),
        }
        Ok(())
    })
}

/// Forgets the hooks of a layer. The layer is still told of a communicator that it has seen, unless
/// the communicator is freed already.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_hooks_unregister(layer: u32) -> c_int {
    guarded(|| {
        let job = job("host_comm_hooks_unregister")?;
        job.comm_hooks().unregister(Layer(layer));
        Ok(())
    })
}
