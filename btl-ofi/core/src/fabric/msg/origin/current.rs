//! A peer's current batch, to which commands for the peer are added.

use std::hash::BuildHasher;
use std::ptr::NonNull;

use plugin_api::Status;

use super::{NOBODY, Origin};
use crate::fabric::msg::batch::Batch;
use crate::fabric::msg::line::Line;
use crate::fabric::msg::places::vacant;
use crate::fabric::msg::port::Port;
use crate::fabric::msg::wire::Form;
use crate::peer::endpoint::Endpoint;

/// The number that stands for no batch.
pub(super) const NONE: u32 = u32::MAX;

/// The last command's peer, the peer's line, and the line's current batch or [`NONE`].
pub(in crate::fabric::msg) struct Last {
    pub(in crate::fabric::msg) endpoint: Option<NonNull<Endpoint>>,
    pub(super) line: u32,
    pub(in crate::fabric::msg) batch: u32,
}

impl Last {
    pub(super) const NOBODY: Last = Last {
        endpoint: None,
        line: NOBODY,
        batch: NONE,
    };
}

impl Origin {
    /// [`Messages::batch`](crate::fabric::msg::Messages::batch).
    ///
    /// # Safety
    /// The conditions of [`Messages::batch`](crate::fabric::msg::Messages::batch).
    pub(in crate::fabric::msg) unsafe fn batch(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
        form: &Form,
    ) -> Result<(&mut Batch, bool), Status> {
        // While the first fragment of a large operation is outstanding, further fragments share longer
        // messages.
        let (number, full) = self.batch_for(port, endpoint, |batch, line| {
            batch.has_room(form) || batch.has_long_room(form) && line.is_due()
        })?;
        Ok((&mut self.batches[number as usize], full))
    }

    /// Returns a peer's current batch with room, and whether it is new because the last batch was full.
    #[cold]
    #[inline(never)]
    pub(super) fn batch_for(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
        has_room: impl Fn(&Batch, &Line) -> bool,
    ) -> Result<(u32, bool), Status> {
        let number = self.line_to(endpoint);
        let line = self.lines[number as usize].as_ref().ok_or(Status::ERROR)?;
        let (batch, full) = match line.current {
            Some(current) if has_room(&self.batches[current as usize], line) => (current, false),
            before => (self.next_batch(port, number)?, before.is_some()),
        };
        self.last = Last {
            endpoint: Some(endpoint),
            line: number,
            batch,
        };
        Ok((batch, full))
    }

    /// Returns the number of the line to a peer. Makes the line if there is none.
    pub(super) fn line_to(&mut self, endpoint: NonNull<Endpoint>) -> u32 {
        if self.last.endpoint == Some(endpoint) {
            return self.last.line;
        }
        match self.by_endpoint.get(&endpoint) {
            Some(number) => *number,
            None => {
                self.cookies += 1;
                let cookie =
                    self.random
                        .hash_one((std::process::id(), self.cookies, &self.own.address));
                // SAFETY: the callers guarantee a live endpoint.
                let peer = unsafe { endpoint.as_ref() };
                let address = peer.address;
                let key = self.addresses.key(address);
                let number = vacant(&mut self.lines, &mut self.free_lines);
                let line = Line::new((endpoint, address), (key, cookie));
                self.lines[number as usize] = Some(line);
                self.by_endpoint.insert(endpoint, number);
                number
            }
        }
    }
}
