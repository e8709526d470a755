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

use super::client::{Client, ENDED, credentials};
pub use super::events::{Event, Membership};
use crate::bootstrap::protocol::{MAX_REPLY, Reply};

/// How long a connection may take to say which rank it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// How long a rank may live on after its connection ended without a word.
const FAREWELL: Duration = Duration::from_secs(1);

/// Connections that have not introduced themselves, at one time; more wait to be accepted.
const STRANGERS: usize = 64;

/// How long no connection is accepted after one could not be: descriptors may have run out.
const REST: Duration = Duration::from_millis(100);

/// What may wait to be sent to one connection, bytes.
const BACKLOG: usize = MAX_REPLY + (1 << 20);

/// The server's side of a job's socket.
pub struct Server {
    listener: UnixListener,
    /// When a connection could not be accepted last; none since one was.
    refused: Option<Instant>,
    pub(super) clients: Vec<Client>,
    pub(super) memberships: Vec<Membership>,
    pub(super) board: HashMap<(u32, String), Vec<u8>>,
    pub(super) published: Vec<usize>,
    /// What each rank gave to the exchange under way.
    pub(super) exchange: Vec<Option<Vec<u8>>>,
    /// Ranks that lost their connection without a word, when, and how.
    lost: Vec<(u32, Instant, &'static str)>,
    /// The first rank that ended or is cut off, and will take part in no exchange.
    pub(super) gone: Option<u32>,
}

impl Server {
    /// Listens at `path` for a job of `size` ranks.
    pub fn listen(path: &Path, size: u32) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let size = size as usize;
        Ok(Server {
            listener,
            refused: None,
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

    /// Tells every rank that waits for the others in an exchange, or will, that one has ended or is cut off.
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
        let rests = self.refused.is_some_and(|since| since.elapsed() < REST);
        let listener = if self.has_room() && !rests {
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
            self.accept(&mut events);
        }
        for client in &mut self.clients {
            client.write();
        }
        self.sweep(&mut events);
        Ok(events)
    }

    fn accept(&mut self, events: &mut Vec<Event>) {
        while self.has_room() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // The connection stays ready to be accepted. Told once.
                    if self.refused.replace(Instant::now()).is_none() {
                        let reason = format!("accept: {error}");
                        events.push(Event::Stray { reason });
                    }
                    return;
                }
            };
            self.refused = None;
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
                    client.cut_off(ENDED);
                    let rest = client.input.len();
                    if client.rank.is_none() && rest > 0 {
                        let reason = format!("the connection ended {rest} bytes into a message");
                        self.report(index, reason, events);
                    }
                    return;
                }
                Ok(count) => {
                    client.input.extend_from_slice(&chunk[..count]);
                    if let Err(reason) = self.serve_all(index, events) {
                        self.refuse(index, reason, events);
                        return;
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => {}
                    // It ended with answers unread.
                    _ => return client.cut_off(ENDED),
                },
            }
        }
    }

    /// Cuts a connection off, with a reason.
    pub(super) fn refuse(&mut self, index: usize, reason: String, events: &mut Vec<Event>) {
        self.clients[index].closing = true;
        let message = reason.clone();
        self.reply(index, &Reply::Refused { message });
        self.report(index, reason, events);
    }

    fn report(&self, index: usize, reason: String, events: &mut Vec<Event>) {
        events.push(match self.clients[index].rank {
            Some(rank) => Event::Broken { rank, reason },
            None => Event::Stray { reason },
        });
    }

    pub(super) fn reply(&mut self, index: usize, reply: &Reply) {
        self.queue(index, &reply.encode());
    }

    pub(super) fn queue(&mut self, index: usize, frame: &[u8]) {
        let client = &mut self.clients[index];
        client.output.extend(frame);
        client.write();
        if client.output.len() > BACKLOG {
            client.cut_off("does not read the answers to what it asks for");
        }
    }

    /// Drops connections that are through.
    fn sweep(&mut self, events: &mut Vec<Event>) {
        self.clients.retain_mut(|client| {
            if client.rank.is_none() && !client.closing && client.since.elapsed() > INTRODUCTION {
                events.push(Event::Stray {
                    reason: "it has not said who it is".to_owned(),
                });
                return false;
            }
            // Most likely it is ending, and its process will say how.
            if let (Some(rank), Some(reason)) = (client.rank, client.cut_off.take()) {
                self.lost.push((rank, Instant::now(), reason));
            }
            !(client.closing && client.output.is_empty())
        });
        self.lost.retain(|(rank, since, reason)| {
            let late = since.elapsed() > FAREWELL;
            if late {
                events.push(Event::Broken {
                    rank: *rank,
                    reason: (*reason).to_owned(),
                });
            }
            !late
        });
    }
}
