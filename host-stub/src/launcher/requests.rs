//! What ranks ask of the server, and its answers.

use super::events::{Event, Membership};
use super::server::Server;
use crate::bootstrap::protocol::{
    MAX_REPLY, MAX_REQUEST, ProtocolError, Reply, Request, body_length,
};

/// What one rank may publish in all, bytes.
const BOARD_LIMIT: usize = 64 << 20;

impl Server {
    pub(super) fn serve_all(
        &mut self,
        index: usize,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        loop {
            let client = &mut self.clients[index];
            if client.closing {
                return Ok(());
            }
            let input = &mut client.input;
            let Some(length) = body_length(input, MAX_REQUEST).map_err(|e| e.to_string())? else {
                return Ok(());
            };
            let Some(body) = input.get(4..4 + length) else {
                return Ok(());
            };
            let request = Request::decode(body).map_err(|error| error.to_string())?;
            input.drain(..4 + length);
            self.serve(index, request, events)?;
        }
    }

    fn serve(
        &mut self,
        index: usize,
        request: Request,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let client = &self.clients[index];
        let Some(rank) = client.rank else {
            let Request::Hello { rank } = request else {
                return Err(ProtocolError::Unexpected {
                    wanted: "hello",
                    found: request.name(),
                }
                .to_string());
            };
            return self.welcome(index, rank, events);
        };
        let place = rank as usize;
        match request {
            Request::Hello { .. } => Err("a second hello on one connection".to_owned()),
            Request::Put { key, data } => {
                let size = key.len() + data.len();
                let old = self.board.insert((rank, key.clone()), data);
                let freed = old.map_or(0, |old| key.len() + old.len());
                self.published[place] = self.published[place] + size - freed;
                if self.published[place] > BOARD_LIMIT {
                    return Err(format!(
                        "published {} bytes, wanted at most {BOARD_LIMIT}",
                        self.published[place]
                    ));
                }
                Ok(())
            }
            Request::Get { rank: owner, key } => {
                if owner as usize >= self.memberships.len() {
                    return Err(format!(
                        "asked for an item of rank {owner}, wanted a rank below {}",
                        self.memberships.len()
                    ));
                }
                let data = self.board.get(&(owner, key)).cloned();
                self.reply(index, &Reply::Value { data });
                Ok(())
            }
            Request::Gather { data } => {
                if self.exchange[place].is_some() {
                    return Err("took part twice in one exchange".to_owned());
                }
                self.exchange[place] = Some(data);
                Ok(())
            }
            Request::Abort { code, message } => {
                events.push(Event::Aborted {
                    rank,
                    code,
                    message,
                });
                Ok(())
            }
            Request::Leave => {
                self.memberships[place] = Membership::Left;
                self.clients[index].closing = true;
                self.reply(index, &Reply::Farewell);
                Ok(())
            }
        }
    }

    fn welcome(&mut self, index: usize, rank: u32, events: &mut Vec<Event>) -> Result<(), String> {
        let size = self.memberships.len();
        let Some(membership) = self.memberships.get_mut(rank as usize) else {
            return Err(format!(
                "says it is rank {rank}, wanted a rank below {size}"
            ));
        };
        // A rank that has left may come back: a program may join a job more than once.
        if *membership == Membership::Joined {
            return Err(format!("says it is rank {rank}, which has joined already"));
        }
        *membership = Membership::Joined;
        self.clients[index].rank = Some(rank);
        events.push(Event::Joined {
            rank,
            pid: self.clients[index].pid,
        });
        self.reply(index, &Reply::Welcome { size: size as u32 });
        Ok(())
    }

    /// Answers an exchange in which every rank has taken part.
    pub(super) fn finish_exchange(&mut self, events: &mut Vec<Event>) {
        if let Some(rank) = self.gone {
            for index in 0..self.clients.len() {
                let waits = self.clients[index]
                    .rank
                    .is_some_and(|waiting| self.exchange[waiting as usize].take().is_some());
                if waits && !self.clients[index].closing {
                    self.reply(index, &Reply::Lost { rank });
                }
            }
            return;
        }
        if self.exchange.iter().any(Option::is_none) {
            return;
        }
        let parts: Vec<Vec<u8>> = self
            .exchange
            .iter_mut()
            .map(|part| part.take().unwrap_or_default())
            .collect();
        let total: usize = parts.iter().map(|part| part.len() + 4).sum();
        let members: Vec<usize> = (0..self.clients.len())
            .filter(|index| self.clients[*index].rank.is_some() && !self.clients[*index].closing)
            .collect();
        if total + 16 > MAX_REPLY {
            let message =
                format!("the ranks gave {total} bytes to one exchange, wanted at most {MAX_REPLY}");
            for index in members {
                self.refuse(index, message.clone(), events);
            }
            return;
        }
        let frame = Reply::Gathered { parts }.encode();
        for index in members {
            self.queue(index, &frame);
        }
    }
}
