//! The launcher's end of the ranks' sockets: ranks tell each other things, and wait for each other here.
//!
//! One thread serves all sockets without blocking. A rank that violates the protocol loses its connection; the server first
//! sends it the reason.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::bootstrap::protocol::{MAX_REPLY, MAX_REQUEST, Reply, Request, body_length};

/// Time that a rank has to end after its connection closed without notice. The rank is probably ending, and its process
/// then reports the reason.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whether a rank has joined the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The rank has not joined yet.
    Absent,
    /// The rank has joined.
    Joined,
    /// The rank has left the job.
    Left,
}

/// A message of a rank that concerns the launcher.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank asked the launcher to end the job.
    Aborted {
        /// The rank.
        rank: u32,
        /// The exit code of the job.
        code: u8,
        /// The rank's reason.
        message: String,
    },
    /// A rank violated the protocol or lost its connection, and is disconnected.
    Broken {
        /// The rank.
        rank: u32,
        /// The violation.
        reason: String,
    },
}

/// The server's data about a rank.
struct Client {
    /// `None` once the connection has ended.
    stream: Option<UnixStream>,
    input: Vec<u8>,
    output: VecDeque<u8>,
    membership: Membership,
    /// The time at which the connection ended without notice, until the server reports the loss.
    lost: Option<Instant>,
    /// The rank's data of the current exchange.
    part: Option<Vec<u8>>,
}

/// The server of a job.
pub struct Server {
    clients: Vec<Client>,
    /// The first rank that ended or was disconnected; it takes part in no exchange.
    gone: Option<u32>,
}

impl Server {
    /// Makes a server for a job of `ranks` ranks, and the sockets that the rank processes inherit.
    pub fn new(ranks: u32) -> io::Result<(Server, Vec<UnixStream>)> {
        let (mut clients, mut sockets) = (Vec::new(), Vec::new());
        for _ in 0..ranks {
            let (here, there) = UnixStream::pair()?;
            here.set_nonblocking(true)?;
            sockets.push(there);
            clients.push(Client {
                stream: Some(here),
                input: Vec::new(),
                output: VecDeque::new(),
                membership: Membership::Absent,
                lost: None,
                part: None,
            });
        }
        let server = Server {
            clients,
            gone: None,
        };
        Ok((server, sockets))
    }

    /// Whether a rank has joined.
    pub fn membership(&self, rank: u32) -> Membership {
        let client = self.clients.get(rank as usize);
        client.map_or(Membership::Absent, |client| client.membership)
    }

    /// Records that a rank has ended or was disconnected. Every rank that waits in an exchange, or enters
    /// one later, gets this as an error.
    pub fn lose(&mut self, rank: u32) {
        self.gone.get_or_insert(rank);
    }

    /// The ranks that wait for the others in an exchange.
    pub fn waiting(&self) -> Vec<u32> {
        let clients = (0..).zip(&self.clients);
        let waiting = clients.filter(|(_, client)| client.part.is_some());
        waiting.map(|(rank, _)| rank).collect()
    }

    /// Serves requests that have arrived. Waits at most `limit` for a request, or until `wake` is
    /// readable.
    pub fn poll(&mut self, limit: Duration, wake: Option<RawFd>) -> io::Result<Vec<Event>> {
        // `poll` skips a negative descriptor.
        let entry = |fd: Option<RawFd>, events| libc::pollfd {
            fd: fd.unwrap_or(-1),
            events,
            revents: 0,
        };
        let of = |client: &Client| {
            let fd = client.stream.as_ref().map(AsRawFd::as_raw_fd);
            match client.output.is_empty() {
                true => entry(fd, libc::POLLIN),
                false => entry(fd, libc::POLLIN | libc::POLLOUT),
            }
        };
        let mut entries: Vec<libc::pollfd> = self.clients.iter().map(of).collect();
        entries.push(entry(wake, libc::POLLIN));
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
        for (rank, ready) in (0..).zip(&entries[..self.clients.len()]) {
            if ready.revents & !libc::POLLOUT != 0 {
                self.read(rank, &mut events);
            }
        }
        self.finish_exchange(&mut events);
        for (rank, client) in (0..).zip(&mut self.clients) {
            client.write();
            if client.lost.is_some_and(|since| since.elapsed() > FAREWELL) {
                client.lost = None;
                let reason = "closed its connection without leaving the job".to_owned();
                events.push(Event::Broken { rank, reason });
            }
        }
        Ok(events)
    }

    /// Reads from a rank's socket, and serves every complete request.
    fn read(&mut self, rank: u32, events: &mut Vec<Event>) {
        let mut chunk = [0_u8; 64 << 10];
        loop {
            let client = &mut self.clients[rank as usize];
            let Some(stream) = &mut client.stream else {
                return;
            };
            match stream.read(&mut chunk) {
                Ok(count @ 1..) => client.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // An error means that the rank ended with unread answers.
                Ok(0) | Err(_) => return client.end(),
            }
            if let Err(reason) = self.serve_all(rank, events) {
                return self.refuse(rank, reason, events);
            }
        }
    }

    fn serve_all(&mut self, rank: u32, events: &mut Vec<Event>) -> Result<(), String> {
        loop {
            let input = &mut self.clients[rank as usize].input;
            let Some(length) = body_length(input, MAX_REQUEST).map_err(|e| e.to_string())? else {
                return Ok(());
            };
            let Some(body) = input.get(4..4 + length) else {
                return Ok(());
            };
            let request = Request::decode(body).map_err(|error| error.to_string())?;
            input.drain(..4 + length);
            self.serve(rank, request, events)?;
        }
    }

    fn serve(
        &mut self,
        rank: u32,
        request: Request,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let size = self.clients.len() as u32;
        let client = &mut self.clients[rank as usize];
        let is_in = client.membership == Membership::Joined;
        match request {
            Request::Hello { rank: named } if named != rank => {
                return Err(format!("says it is rank {named}, and is rank {rank}"));
            }
            // A rank that has left may come back: a program may join a job more than once.
            Request::Hello { .. } if !is_in => {
                client.membership = Membership::Joined;
                client.send(&Reply::Welcome { size });
            }
            request if !is_in => return Err(format!("wanted hello, found {}", request.name())),
            Request::Hello { .. } => return Err("a second hello".to_owned()),
            Request::Gather { data } => {
                if client.part.replace(data).is_some() {
                    return Err("took part twice in one exchange".to_owned());
                }
            }
            Request::Abort { code, message } => events.push(Event::Aborted {
                rank,
                code,
                message,
            }),
            Request::Leave => {
                client.membership = Membership::Left;
                client.send(&Reply::Farewell);
            }
        }
        Ok(())
    }

    /// Answers an exchange if every rank has taken part, or if a rank has ended.
    fn finish_exchange(&mut self, events: &mut Vec<Event>) {
        let reply = match self.gone {
            Some(rank) => Reply::Lost { rank },
            None if self.clients.iter().any(|client| client.part.is_none()) => return,
            None => {
                let parts = self.clients.iter().filter_map(|client| client.part.clone());
                Reply::Gathered {
                    parts: parts.collect(),
                }
            }
        };
        let frame = reply.encode();
        let taking = self.waiting();
        for rank in taking {
            let client = &mut self.clients[rank as usize];
            client.part = None;
            if frame.len() > MAX_REPLY {
                let reason = format!("the ranks gave one exchange more than {MAX_REPLY} bytes");
                self.refuse(rank, reason, events);
            } else {
                client.output.extend(&frame);
                client.write();
            }
        }
    }

    /// Disconnects a rank, with a reason.
    fn refuse(&mut self, rank: u32, reason: String, events: &mut Vec<Event>) {
        let client = &mut self.clients[rank as usize];
        client.send(&Reply::Refused {
            message: reason.clone(),
        });
        client.stream = None;
        events.push(Event::Broken { rank, reason });
    }
}

impl Client {
    fn send(&mut self, reply: &Reply) {
        self.output.extend(reply.encode());
        self.write();
    }

    /// Sends as much as the socket accepts now.
    fn write(&mut self) {
        while !self.output.is_empty() {
            let Some(stream) = &mut self.stream else {
                return;
            };
            match stream.write(self.output.as_slices().0) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.end(),
            }
        }
    }

    /// Records that the rank has closed its end.
    fn end(&mut self) {
        self.stream = None;
        if self.membership == Membership::Joined {
            self.lost = Some(Instant::now());
        }
    }
}
