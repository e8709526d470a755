//! The execution of a batch at its target.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::base::lock::Lock;
use crate::fabric::msg::inbox::{Buffer, Inbox};
use crate::fabric::msg::wire::{Entries, Header, Kind};
use crate::mem::regions::Regions;
use crate::op::responder::{APPLY, COUNT, Command, NOTIFY, Responder, SEND};
use crate::peer::endpoint::Endpoint;

/// The inbox for a peer's sends; the peer, if this process has connected it; and the batch's receive buffer, if the batch
/// is still in its buffer.
type Sends<'a> = (&'a mut Inbox, Option<NonNull<Endpoint>>, Option<Buffer>);

/// Checks all entries of a batch, which begin at word `first`. Nothing is executed before all entries are checked. The
/// batch's answer may have `most_answered` words.
pub(super) fn check(
    header: &Header,
    (words, first): (&[u64], usize),
    takes_sends: bool,
    most_answered: usize,
) -> Result<(), &'static str> {
    let mut entries = Entries::at(first);
    let (mut count, mut results) = (0, 0);
    loop {
        while entries.next_put(words).is_some() {
            count += 1;
        }
        let Some(entry) = entries.next(words)? else {
            break;
        };
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
    if answer > most_answered {
        return Err("its answer would be too long");
    }
    Ok(())
}

/// Executes a [checked](check) batch of a peer, and writes its answer for the origin with this key. Puts its sends into the
/// inbox.
pub(super) fn execute(
    (responder, mut sends): (&mut Responder, Option<Sends<'_>>),
    regions: &Lock<Regions>,
    (words, first): (&mut [u64], usize),
    answer: &mut Vec<u64>,
    (mut header, key): (Header, u64),
) {
    let mut failures = Vec::new();
    answer.clear();
    answer.resize(Header::WORDS + header.results as usize, 0);
    let mut result = Header::WORDS;
    let mut entries = Entries::at(first);
    let mut number = 0u32;
    let regions = regions.lock();
    loop {
        put_all(
            responder,
            &regions,
            &mut entries,
            words,
            &mut number,
            &mut failures,
        );
        let Ok(Some(entry)) = entries.next(words) else {
            break;
        };
        let (c, form) = (&entry.command, entry.form);
        if c.what >= SEND {
            let operands = &mut words[entry.operands..entry.operands + form.operands];
            if c.what == APPLY {
                let place = &mut answer[result..result + form.results];
                // SAFETY: the place lies in the answer, memory of this process, and the command's form gave its size.
                let done =
                    unsafe { responder.apply(&regions, c, operands, place.as_mut_ptr().cast()) };
                match done {
                    Ok(()) => result += form.results,
                    Err(status) => {
                        failures.push(failure(number, status));
                        place.fill(0);
                    }
                }
            } else if c.what == NOTIFY {
                notify(responder, &regions, c, (operands, number), &mut failures);
            } else if let Some((inbox, peer, buffer)) = &mut sends {
                let buffer = buffer.map(|buffer| (buffer, entry.operands));
                let from = (*peer, c.address as u8);
                inbox.push(from, (operands, c.count as usize), buffer);
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
        if let Err(status) = done {
            failures.push(failure(number, status));
            if form.results > 0 {
                // A failed entry has no results.
                result -= form.results;
                answer[result..result + form.results].fill(0);
            }
        }
        number += 1;
    }
    drop(regions);
    answer.truncate(result);
    header.results = (result - Header::WORDS) as u32;
    if !failures.is_empty() {
        header.entries = failures.len() as u32;
        answer.splice(Header::WORDS..Header::WORDS, failures);
    } else {
        header.entries = 0;
    }
    header.kind = Kind::Answer;
    header.write(key, answer);
}

/// Executes the next puts to the region of the entry before them. Most commands in messages are such puts, and this
/// path looks their region up only once.
#[inline]
fn put_all(
    responder: &mut Responder,
    regions: &Regions,
    entries: &mut Entries,
    words: &[u64],
    number: &mut u32,
    failures: &mut Vec<u64>,
) {
    let (Some((key, cookie)), Some(mut put)) = (entries.region(), entries.next_put(words)) else {
        return;
    };
    let window = responder.window(regions, key, cookie);
    loop {
        let from = words[put.operands..].as_ptr().cast::<u8>();
        let done = match &window {
            // SAFETY: the operands lie in the message, which has all of their words. No command may name the message's
            // memory. The caller has locked the region table.
            Ok(window) => unsafe { window.put(from, put.address, put.size) },
            Err(status) => Err(*status),
        };
        if let Err(status) = done {
            failures.push(failure(*number, status));
        }
        *number += 1;
        match entries.next_put(words) {
            Some(next) => put = next,
            None => return,
        }
    }
}

/// The word that names an entry as failed.
fn failure(number: u32, Status(status): Status) -> u64 {
    u64::from(number) | u64::from(status as u32) << 32
}

/// Executes a notification, unless the entry before it failed. If that entry failed, the notification gets the same
/// status, because the origin counts the two as one operation.
#[inline(never)]
fn notify(
    responder: &mut Responder,
    regions: &Regions,
    c: &Command,
    (operand, number): (&mut [u64], u32),
    failures: &mut Vec<u64>,
) {
    if let Some(last) = failures.last_mut()
        && (*last as u32).wrapping_add(1) == number
    {
        *last += 1;
        return;
    }
    let count = Command { what: COUNT, ..*c };
    let here = |size| (size <= size_of_val(operand)).then_some(operand.as_mut_ptr().cast());
    // SAFETY: the operand is a word of the message, and `here` checks its size.
    if let Err(status) = unsafe { responder.execute(regions, &count, here) } {
        failures.push(failure(number, status));
    }
}

#[cfg(test)]
mod tests;
