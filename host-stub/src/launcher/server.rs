//! The launcher's socket: where ranks publish, look up, and wait for each other.
//!
//! One thread serves all connections without blocking. Whatever a connection sends that is not
//! the protocol costs it the connection, with the reason sent back, and nothing else.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use super::client::{Client, credentials};
use crate::bootstrap::protocol::{
    MAX_REPLY, MAX_REQUEST, ProtocolError, Reply, Request, body_length,
};

/// How long a connection may take to say which rank it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// How long a rank may live on after its connection ended without a word.
const FAREWELL: Duration = Duration::from_secs(1);

/// Connections that have not introduced themselves, at one time; more wait to be accepted.
const STRANGERS: usize = 64;

/// What one rank may publish in all, bytes.
const BOARD_LIMIT: usize = 64 << 20;

/// What may wait to be sent to one connection, bytes.
const BACKLOG: usize = MAX_REPLY + (1 << 20);

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
    /// A rank broke the protocol, and has been cut off.
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

/// The server's side of a job's socket.
pub struct Server {
    listener: UnixListener,
    clients: Vec<Client>,
    memberships: Vec<Membership>,
    board: HashMap<(u32, String), Vec<u8>>,
    published: Vec<usize>,
    /// What each rank gave to the exchange under way.
    exchange: Vec<Option<Vec<u8>>>,
    /// Ranks whose connection ended without a word, and when.
    lost: Vec<(u32, Instant)>,
    /// The first rank that ended and will take part in no exchange.
    gone: Option<u32>,
}

impl Server {
    /// Listens at `path` for a job of `size` ranks.
    pub fn listen(path: &Path, size: u32) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let size = size as usize;
        Ok(Server {
            listener,
            clients: Vec::new(),
            memberships: vec![Membership::Absent; size],
            board: HashMap::new(),
            published: vec![0; size],
            exchange: vec![None; size],
            lost: Vec::new(),
            gone: None,
        })
    }

    /// Whether a rank has joined.
    pub fn membership(&self, rank: u32) -> Membership {
        self.memberships
            .get(rank as usize)
            .copied()
            .unwrap_or(Membership::Absent)
    }

    /// Tells every rank that waits for the others in an exchange, or will, that one has ended.
    pub fn lose(&mut self, rank: u32) {
        self.gone.get_or_insert(rank);
    }

    /// The ranks that wait for the others in an exchange.
    pub fn waiting(&self) -> Vec<u32> {
        (0..)
            .zip(&self.exchange)
            .filter(|(_, part)| part.is_some())
            .map(|(rank, _)| rank)
            .collect()
    }

    /// Serves what has arrived; waits up to `limit` for something, or for `wake` to be readable.
    pub fn poll(&mut self, limit: Duration, wake: Option<RawFd>) -> io::Result<Vec<Event>> {
        let entry = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let mut entries: Vec<libc::pollfd> = self
            .clients
            .iter()
            .map(|client| {
                let writing = if client.output.is_empty() {
                    0
                } else {
                    libc::POLLOUT
                };
                entry(client.stream.as_raw_fd(), libc::POLLIN | writing)
            })
            .collect();
        // poll skips a negative descriptor.
        let listener = if self.has_room() {
            self.listener.as_raw_fd()
        } else {
            -1
        };
        entries.push(entry(listener, libc::POLLIN));
        entries.push(entry(wake.unwrap_or(-1), libc::POLLIN));
        // SAFETY: the array has the length given, and its descriptors are open.
        let ready = unsafe {
            libc::poll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                limit.as_millis() as libc::c_int,
            )
        };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                ErrorKind::Interrupted => Ok(Vec::new()),
                _ => Err(error),
            };
        }
        let mut events = Vec::new();
        let known = self.clients.len();
        for (index, ready) in entries.iter().take(known).enumerate() {
            if ready.revents & !libc::POLLOUT != 0 {
                self.read(index, &mut events);
            }
        }
        self.finish_exchange(&mut events);
        if entries[known].revents != 0 {
            self.accept(&mut events)?;
        }
        for client in &mut self.clients {
            client.write();
        }
        self.sweep(&mut events);
        Ok(events)
    }

    fn accept(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        while self.has_room() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    return match error.kind() {
                        ErrorKind::WouldBlock => Ok(()),
                        // The peer is gone before it was here, or descriptors ran out: in both
                        // cases the next round may do better.
                        _ => {
                            events.push(Event::Stray {
                                reason: format!("accept: {error}"),
                            });
                            Ok(())
                        }
                    };
                }
            };
            let (pid, uid) = match credentials(&stream) {
                Ok(credentials) => credentials,
                Err(error) => {
                    events.push(Event::Stray {
                        reason: format!("credentials: {error}"),
                    });
                    continue;
                }
            };
            // SAFETY: has no failure and no argument.
            let own = unsafe { libc::geteuid() };
            let reason = if uid != own {
                Some(format!("it is user {uid}'s, and this job user {own}'s"))
            } else {
                stream.set_nonblocking(true).err().map(|e| e.to_string())
            };
            match reason {
                Some(reason) => events.push(Event::Stray { reason }),
                None => self.clients.push(Client::new(stream, pid)),
            }
        }
        Ok(())
    }

    /// Whether another connection may be accepted.
    fn has_room(&self) -> bool {
        self.clients.iter().filter(|c| c.rank.is_none()).count() < STRANGERS
    }

    /// Takes what a client has sent, and serves every whole request in it.
    fn read(&mut self, index: usize, events: &mut Vec<Event>) {
        let mut chunk = [0_u8; 64 << 10];
        loop {
            let client = &mut self.clients[index];
            if client.closing {
                // Drained, so that the reason is not lost to a reset of the connection.
                match client.stream.read(&mut chunk) {
                    Ok(1..) => continue,
                    Ok(0) => client.output.clear(),
                    Err(_) => {}
                }
                return;
            }
            match client.stream.read(&mut chunk) {
                Ok(0) => {
                    client.closing = true;
                    client.output.clear();
                    let rest = client.input.len();
                    match client.rank {
                        // Most likely it is ending, and its process will say how.
                        Some(rank) => self.lost.push((rank, Instant::now())),
                        None if rest > 0 => self.report(
                            index,
                            format!("the connection ended {rest} bytes into a message"),
                            events,
                        ),
                        None => {}
                    }
                    return;
                }
                Ok(count) => {
                    client.input.extend_from_slice(&chunk[..count]);
                    if let Err(reason) = self.serve_all(index, events) {
                        let message = reason.clone();
                        self.reply(index, &Reply::Refused { message });
                        self.clients[index].closing = true;
                        self.report(index, reason, events);
                        return;
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => {}
                    _ => {
                        client.closing = true;
                        client.output.clear();
                        return;
                    }
                },
            }
        }
    }

    fn report(&self, index: usize, reason: String, events: &mut Vec<Event>) {
        events.push(match self.clients[index].rank {
            Some(rank) => Event::Broken { rank, reason },
            None => Event::Stray { reason },
        });
    }

    fn serve_all(&mut self, index: usize, events: &mut Vec<Event>) -> Result<(), String> {
        loop {
            let input = &mut self.clients[index].input;
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
                self.reply(index, &Reply::Farewell);
                self.clients[index].closing = true;
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
    fn finish_exchange(&mut self, events: &mut Vec<Event>) {
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
                self.reply(
                    index,
                    &Reply::Refused {
                        message: message.clone(),
                    },
                );
                self.clients[index].closing = true;
                self.report(index, message.clone(), events);
            }
            return;
        }
        let frame = Reply::Gathered { parts }.encode();
        for index in members {
            self.queue(index, &frame);
        }
    }

    fn reply(&mut self, index: usize, reply: &Reply) {
        self.queue(index, &reply.encode());
    }

    fn queue(&mut self, index: usize, frame: &[u8]) {
        let client = &mut self.clients[index];
        client.output.extend(frame);
        client.write();
        if client.output.len() > BACKLOG {
            // It asks and does not listen.
            client.output.clear();
            client.closing = true;
        }
    }

    /// Drops connections that are through.
    fn sweep(&mut self, events: &mut Vec<Event>) {
        self.clients.retain(|client| {
            if client.rank.is_none() && !client.closing && client.since.elapsed() > INTRODUCTION {
                events.push(Event::Stray {
                    reason: "it has not said who it is".to_owned(),
                });
                return false;
            }
            !(client.closing && client.output.is_empty())
        });
        self.lost.retain(|(rank, since)| {
            let late = since.elapsed() > FAREWELL;
            if late {
                events.push(Event::Broken {
                    rank: *rank,
                    reason: "closed its connection without leaving the job".to_owned(),
                });
            }
            !late
        });
    }
}
