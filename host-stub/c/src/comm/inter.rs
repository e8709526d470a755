//! Intercommunicators: two groups whose collectives go from one to the other.

use std::ffi::c_int;

use host::Comm;

use crate::base::codes::rank;
use crate::base::error::{Error, guarded};
use crate::comm::communicator::{comm, host_comm_t, make, number};

/// A communicator of two groups: the ranks of `local` and those of another communicator, whose ranks call alike. Its
/// collectives go from one group to the other, and `rank` and `size` are those of the own group. `local_leader`, a rank of
/// `local`, finds the other group: `peer`, a communicator with both leaders in it, and `remote_leader`, the rank of the
/// other leader there, mean something at the leader only. Leaders that make several at the same time over one `peer` tell
/// them apart by `tag`, which is below 2^24. No process is in both groups. Collective over both groups.
///
/// # Safety
/// `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_intercomm_create(
    local: *mut host_comm_t,
    local_leader: c_int,
    peer: *mut host_comm_t,
    remote_leader: c_int,
    tag: u32,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_intercomm_create";
    let create = || {
        let local = comm(call, local)?;
        // What only this rank gets wrong its group must hear: no rank is so large.
        let or_none = |rank: c_int| usize::try_from(rank).unwrap_or(usize::MAX);
        let leader = or_none(local_leader);
        let peer = match local.rank() == leader && !peer.is_null() {
            true => comm(call, peer).ok(),
            false => None,
        };
        let peer = peer.as_ref().map(|peer| (peer, or_none(remote_leader)));
        Ok(Some(local.intercommunicator(leader, peer, tag)?))
    };
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, create) })
}

/// A communicator of both groups of an intercommunicator. The ranks of the group that says `high` (not 0) come last; where
/// both say the same, those whose first process has the lower job rank come first. All ranks of a group say the same.
/// Collective over both groups.
///
/// # Safety
/// `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_intercomm_merge(
    inter: *mut host_comm_t,
    high: c_int,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_intercomm_merge";
    let merge = || Ok(Some(comm(call, inter)?.merge(high != 0)?));
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, merge) })
}

/// 1 for an intercommunicator, 0 for another communicator, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_test_inter(comm: *mut host_comm_t) -> c_int {
    number("host_comm_test_inter", comm, |comm| {
        usize::from(comm.is_inter())
    })
}

/// Ranks of the other group of an intercommunicator, 0 for another communicator, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_remote_size(comm: *mut host_comm_t) -> c_int {
    number("host_comm_remote_size", comm, Comm::remote_size)
}

/// The job rank of a rank of the other group of an intercommunicator, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_remote_job_rank(comm: *mut host_comm_t, of: c_int) -> c_int {
    let call = "host_comm_remote_job_rank";
    let mut found = 0;
    let outcome = guarded(|| {
        let of = rank(call, of)?;
        let remote = self::comm(call, comm)?.remote_group();
        let ranks = remote.as_ref().map_or(&[][..], |group| group.job_ranks());
        found = *ranks.get(of).ok_or_else(|| {
            let count = ranks.len();
            Error::argument(
                call,
                &format!("no rank {of} in another group of {count} ranks"),
            )
        })?;
        Ok(())
    });
    if outcome == 0 {
        found as c_int
    } else {
        outcome
    }
}
