//! The execution of a batch at its target.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::base::lock::Lock;
use crate::fabric::msg::inbox::Inbox;
use crate::fabric::msg::wire::{Entries, Header, Kind, MOST_WORDS};
use crate::mem::regions::Regions;
use crate::op::responder::{Responder, SEND};
use crate::peer::endpoint::Endpoint;

/// Where the sends of a peer go, and the peer, if this process has connected it.
type Sends<'a> = (&'a mut Inbox, Option<NonNull<Endpoint>>);

/// Checks all entries of a batch, which begin at word `first`, before the first one is executed.
pub(super) fn check(
    header: &Header,
    words: &[u64],
    first: usize,
    takes_sends: bool,
) -> Result<(), &'static str> {
    let mut entries = Entries::at(first);
    let (mut count, mut results) = (0, 0);
    while let Some(entry) = entries.next(words)? {
        if entry.command.what == SEND && !takes_sends {
            return Err("this process takes no sends (btl_ofi_mode is 0)");
        }
        count += 1;
        results += entry.form.results;
    }
    let answer = Header::WORDS + results + count;
    if count != header.entries as usize || results != header.results as usize {
        return Err("its entries are not those that its header announces");
    }
    if answer > MOST_WORDS {
        return Err("its answer would be too long");
    }
    Ok(())
}

/// Executes a [checked](check) batch of a peer and writes its answer. Puts its sends into the inbox.
pub(super) fn execute(
    (responder, mut sends): (&mut Responder, Option<Sends<'_>>),
    regions: &Lock<Regions>,
    (words, first): (&mut [u64], usize),
    answer: &mut Vec<u64>,
    mut header: Header,
) {
    let mut failures = Vec::new();
    answer.clear();
    answer.resize(Header::WORDS + header.results as usize, 0);
    let mut result = Header::WORDS;
    let mut entries = Entries::at(first);
    let mut number = 0u32;
    let regions = regions.lock();
    while let Ok(Some(entry)) = entries.next(words) {
        let (c, form) = (&entry.command, entry.form);
        if c.what == SEND {
            if let Some((inbox, peer)) = &mut sends {
                let bytes = &words[entry.operands..entry.operands + form.operands];
                inbox.push(*peer, c.address as u8, (bytes, c.count as usize));
            }
            number += 1;
            continue;
        }
        let place: *mut u8 = if form.results > 0 {
            let place = &mut answer[result..result + form.results];
            if form.operands > 0 {
                // The old values replace the operands.
                place.copy_from_slice(&words[entry.operands..entry.operands + form.operands]);
            }
            result += form.results;
            place.as_mut_ptr().cast()
        } else {
            words[entry.operands..entry.operands + form.operands]
                .as_mut_ptr()
                .cast()
        };
        let room = 8 * form.results.max(form.operands);
        let here = |size| (size <= room).then_some(place);
        // SAFETY: the place lies in the message or in its answer, both memory of this process, is aligned to words, and
        // `here` checks its size.
        let done = unsafe { responder.execute(&regions, c, here) };
        if let Err(Status(status)) = done {
            failures.push(u64::from(number) | u64::from(status as u32) << 32);
        }
        number += 1;
    }
    drop(regions);
    if !failures.is_empty() {
        header.entries = failures.len() as u32;
        answer.splice(Header::WORDS..Header::WORDS, failures);
    } else {
        header.entries = 0;
    }
    header.kind = Kind::Answer;
    header.write(answer);
}
