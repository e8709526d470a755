//! Hooks of layers that see communicators come and go.

use std::ffi::{c_int, c_void};

use host::Comm;
use host::comm::{HookError, Layer};

use crate::base::error::{Error, guarded, last_text};
use crate::comm::communicator::{handle, host_comm_t};
use crate::job::job;

/// Where a program puts its own layer unless it knows better. The higher the number, the nearer to
/// the program; the host's node-local collectives are layer 100. The lowest layer's create hook runs
/// last, so that calls come to its table first: below 100 for a layer that is to see every call.
pub const HOST_LAYER_PROGRAM: u32 = 1000;

const _: () = assert!(Layer::PROGRAM.0 == HOST_LAYER_PROGRAM);

/// What is called with a communicator that was made or is freed, and `param`: HOST_SUCCESS, or a
/// negative code.
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

/// Registers hooks of a layer, either or both: `create` is called with every communicator made from
/// here on, from the highest layer to the lowest, and `destroy` when one is freed, in the reverse
/// order; each with its own `param`. Every rank registers the same layers. A create hook that fails
/// makes the creation fail at all ranks, and the hooks that had succeeded are undone by the destroy
/// hooks registered with them, the last first. The one that failed cleans up for itself; the table that
/// the communicator had before it is put back. The handle that hooks see is the one that the creation
/// will give.
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
