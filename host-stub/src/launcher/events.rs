//! What the launcher learns from the job's socket.

/// Whether a rank has joined the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Not yet.
    Absent,
    /// It has introduced itself.
    Joined,
    /// It has left in good order.
    Left,
}

/// What the launcher has to know of what happened on the socket.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank introduced itself.
    Joined {
        /// Which.
        rank: u32,
        /// Its process.
        pid: i32,
    },
    /// A rank asked for the end of the job.
    Aborted {
        /// Which.
        rank: u32,
        /// With this exit code.
        code: u8,
        /// Why.
        message: String,
    },
    /// A rank broke the protocol, or lost its connection, and is cut off.
    Broken {
        /// Which.
        rank: u32,
        /// How.
        reason: String,
    },
    /// Somebody who is no rank was turned away.
    Stray {
        /// Why.
        reason: String,
    },
}
