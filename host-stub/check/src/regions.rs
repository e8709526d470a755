//! Dynamic windows with thousands of regions.

use plugin_api::Datatype;

use super::case::{Context, Outcome, ensure, same};
use super::memory::{Memory, addresses};
use super::shape::Placed;
use host_stub::win::{Assertion, WinError, unboxed};

/// Thousands of regions with gaps between them. Some regions are detached and attached again:
/// operations reach the memory that is attached at that moment. If the transport accepts fewer
/// registrations, the test attaches as many as it accepts.
pub(super) fn many(context: &Context<'_>) -> Outcome {
    const REGIONS: usize = 3000;
    const STRIDE: usize = 32;
    const LEN: usize = 24;
    let window = context.dynamic()?;
    let memory = Memory::new(&vec![0; REGIONS * STRIDE]);
    let base = |index: usize| memory.base.wrapping_add(index * STRIDE);
    // SAFETY: the memory lives until the window was freed.
    let attach = |index: usize| unsafe { window.attach(base(index), LEN) };
    let count = attach_up_to(REGIONS, attach)?;
    let at = addresses(context, memory.address())?;
    let counts = addresses(context, count as u64)?;
    let (to, theirs) = (at[context.next()], counts[context.next()] as usize);
    let region = |index: usize| to + (index * STRIDE) as u64;
    let row = Placed::row(Datatype::Uint8, LEN);
    let mut sent = [0u8; LEN];
    let mut reach = |index: usize, round: u8| {
        sent.fill(round ^ index as u8);
        let target = row.at(context.next(), region(index));
        // SAFETY: the bytes stay unchanged until the flush.
        let put = unsafe { window.put(sent.as_ptr(), &row.layout, target) };
        put.and_then(|()| window.flush(context.next()))
    };
    let refused = |outcome: Result<(), Box<WinError>>, what: &str| {
        ensure(
            matches!(unboxed(&outcome), Err(WinError::NotAttached { .. })),
            || format!("{what} gave {outcome:?}"),
        )
    };
    // Every region that lies whole in `wanted` has the bytes put there in this round.
    let compare = |round: u8, wanted: &dyn Fn(usize) -> bool| -> Outcome {
        let bytes = memory.bytes();
        for index in (0..count).filter(|index| wanted(*index)) {
            let found = &bytes[index * STRIDE..][..LEN];
            same("region", found, &[round ^ index as u8; LEN])?;
        }
        Ok(())
    };
    let some = |index: usize| index.is_multiple_of(97);
    window.lock_all(Assertion::empty())?;
    for index in (0..theirs).filter(|index| some(*index)) {
        reach(index, 0x50)?;
    }
    context.meet()?;
    compare(0x50, &some)?;
    // A few regions are detached: the other ranks read only these changes.
    window.detach(base(0))?;
    window.detach(base(97))?;
    context.meet()?;
    refused(reach(0, 1), "a put to the first region")?;
    refused(reach(97, 1), "a put to the 98th region")?;
    reach(96, 0x51)?;
    reach(98, 0x51)?;
    context.meet()?;
    compare(0x51, &|index| index == 96 || index == 98)?;
    // Every second region is detached, and the first ones are attached again, in other slots than
    // before.
    for index in (0..count).filter(|index| index % 2 == 1 && *index != 97) {
        window.detach(base(index))?;
    }
    attach(97)?;
    attach(0)?;
    context.meet()?;
    reach(0, 0x52)?;
    reach(97, 0x52)?;
    refused(reach(99, 1), "a put to a region that is gone")?;
    for index in (2..theirs).filter(|index| index.is_multiple_of(100)) {
        reach(index, 0x52)?;
    }
    context.meet()?;
    compare(0x52, &|index| index == 97 || index.is_multiple_of(100))?;
    window.unlock_all()?;
    window.free()?;
    memory.release();
    Ok(())
}

/// Attaches regions until all are attached, or until the transport refuses one. Returns their
/// number.
fn attach_up_to(
    most: usize,
    attach: impl Fn(usize) -> Result<(), Box<WinError>>,
) -> Result<usize, Box<WinError>> {
    for count in 0..most {
        match attach(count) {
            Ok(()) => {}
            Err(error) if count < 128 => return Err(error),
            Err(_) => return Ok(count),
        }
    }
    Ok(most)
}
