//! Services that a door gives the engine: the door knows the processes of a program and how its calls wait.
//!
//! - [`Context`]: one process's use of a transport, shared by its windows.
//! - [`Group`]: the ranks of a window, and the exchanges by which they make it.
//! - [`Waiter`]: the waits of calls, and the progress that they make.
//! - [`Watch`], if the door watches calls: it checks the thread level, or measures the time of calls.
//! - [`Devices`], if the door knows memory of devices.

mod completion;
mod context;
mod devices;
mod group;
mod location;
mod pace;
mod waiter;
mod watch;

pub use completion::{Attached, Completion, Listener, Taken};
pub use context::{Context, Defaults};
pub use devices::{DeviceBuffer, Devices, Found, OpenedMemory, Run};
pub use group::{Group, Grouped, Members, NotMet};
pub use location::{
    HOST, Location, MAX_DEVICES, decode_location, encode_location, is_looked_for, look_from_now_on,
};
pub use pace::Pace;
pub use waiter::{Until, Waiter};
pub use watch::{Entered, Watch};

pub(crate) use waiter::alone;
