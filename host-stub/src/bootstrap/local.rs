//! A rank's side of its socket to the launcher.

use std::io::{Error, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

pub use super::environment::{Environment, Inherited, JOB_ENV, RANK_ENV, SIZE_ENV, SOCKET_ENV};
use super::protocol::{MAX_REPLY, ProtocolError, Reply, Request, body_length, check_item};
use super::{Bootstrap, BootstrapError, Lost, Patience, Progress, turn};
use crate::base::Turns;

/// Maximum time for an answer of the launcher that needs no other rank.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A rank of a job that the local launcher started.
pub struct Local {
    rank: u32,
    size: u32,
    job: String,
    /// Whether an exchange is in progress. This is no lock: an exchange makes progress, which may run
    /// another task of the same thread, and this task may call here.
    exchanging: Turns<()>,
    /// Locked for a whole request with its reply. An exchange takes this lock only to check for its
    /// answer.
    connection: Mutex<Connection>,
    /// Locked while one message is sent; `None` after the rank left the job. This lock is taken after
    /// `connection`. An abort takes this lock alone, because an abort must be sent even while another
    /// thread waits in a fence.
    sender: Mutex<Option<UnixStream>>,
    lost: OnceLock<Lost>,
}

impl Local {
    /// Joins the job, and introduces this rank to the launcher.
    pub fn join(environment: &Environment) -> Result<Self, BootstrapError> {
        let io = |action| move |source| BootstrapError::Io { action, source };
        let stream = environment.socket.copy().map_err(io("connect"))?;
        stream
            .set_read_timeout(Some(ANSWER_LIMIT))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_LIMIT)))
            .map_err(io("set a timeout"))?;
        let sender = stream.try_clone().map_err(io("copy the socket"))?;
        let local = Local {
            rank: environment.rank,
            size: environment.size,
            job: environment.job.clone(),
            exchanging: Turns::new(()),
            connection: Mutex::new(Connection {
                stream: Some(stream),
                input: Vec::new(),
                exchanged: None,
                abandoned: None,
            }),
            sender: Mutex::new(Some(sender)),
            lost: OnceLock::new(),
        };
        local.send(&Request::Hello {
            rank: environment.rank,
        })?;
        let reply = local.lock().receive("a welcome")?;
        match reply {
            Reply::Welcome { size } if size == environment.size => Ok(local),
            Reply::Welcome { size } => Err(BootstrapError::Refused(format!(
                "the job has {size} ranks, but {SIZE_ENV} says {}",
                environment.size
            ))),
            other => Err(unexpected("welcome", &other)),
        }
    }

    fn send(&self, request: &Request) -> Result<(), BootstrapError> {
        let name = request.name();
        let frame = request.encode();
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = sender.as_ref().ok_or(BootstrapError::Left { what: name })?;
        stream
            .write_all(&frame)
            .map_err(|source| BootstrapError::Io {
                action: name,
                source,
            })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// If a rank is dropped without a farewell, the launcher learns this from the closed socket, even if the process lives
/// on and other processes inherited the socket.
impl Drop for Local {
    fn drop(&mut self) {
        let sender = self
            .sender
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = sender {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn unexpected(wanted: &'static str, found: &Reply) -> BootstrapError {
    BootstrapError::Protocol(ProtocolError::Unexpected {
        wanted,
        found: found.name(),
    })
}

impl Bootstrap for Local {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn allgather(
        &self,
        data: &[u8],
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<u8>>, BootstrapError> {
        check_item(data)?;
        let _turn = turn(&self.exchanging, &self.lost, progress)?;
        if let Some(reason) = self.lock().abandoned.clone() {
            return Err(BootstrapError::GaveUp { reason });
        }
        let mut patience = Patience::new(&self.lost);
        self.send(&Request::Gather {
            data: data.to_vec(),
        })?;
        loop {
            let answer = self.lock().poll_exchange("the other ranks")?;
            match answer {
                Some(parts) if parts.len() == self.size as usize => return Ok(parts),
                Some(parts) => {
                    return Err(BootstrapError::Refused(format!(
                        "an exchange among {} ranks gave {} parts",
                        self.size,
                        parts.len()
                    )));
                }
                None => {
                    if let Err(error) = patience.check() {
                        self.lock().abandoned = Some(error.to_string());
                        return Err(error);
                    }
                    progress();
                    // There may be more ranks than processors, so a waiting thread lets others run.
                    std::thread::yield_now();
                }
            }
        }
    }

    fn give_up_when(&self, lost: Lost) {
        let _ = self.lost.set(lost);
    }

    fn node(&self, _rank: u32) -> u32 {
        0
    }

    fn abort(&self, code: u8, message: &str) {
        let request = Request::Abort {
            code,
            message: message.to_owned(),
        };
        if let Err(error) = self.send(&request) {
            // The caller then exits with an exit code, which also ends the job.
            tracing::error!("cannot tell the launcher to end the job: {error}");
        }
    }

    fn finalize(&self) -> Result<(), BootstrapError> {
        let mut connection = self.lock();
        self.send(&Request::Leave)?;
        let reply = connection.receive("a farewell")?;
        connection.stream = None;
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match reply {
            Reply::Farewell => Ok(()),
            other => Err(unexpected("farewell", &other)),
        }
    }
}

struct Connection {
    /// `None` after the rank left the job.
    stream: Option<UnixStream>,
    input: Vec<u8>,
    /// The answer to the exchange in progress. The answer arrived while another answer was expected.
    exchanged: Option<Reply>,
    /// The reason why an exchange was abandoned. The exchange's answer may still arrive, so no further
    /// exchange is possible.
    abandoned: Option<String>,
}

impl Connection {
    /// Waits for a reply to any request except an exchange.
    fn receive(&mut self, what: &'static str) -> Result<Reply, BootstrapError> {
        loop {
            match self.take()? {
                // The reply belongs to an exchange that is in progress or abandoned.
                Some(reply @ (Reply::Gathered { .. } | Reply::Lost { .. })) => {
                    self.exchanged = Some(reply);
                    continue;
                }
                Some(reply) => return Ok(reply),
                None => {}
            }
            if !self.read(what, 0)? {
                return Err(BootstrapError::Io {
                    action: what,
                    source: Error::new(
                        ErrorKind::TimedOut,
                        format!("no answer within {} s", ANSWER_LIMIT.as_secs()),
                    ),
                });
            }
        }
    }

    /// The answer to the exchange in progress, if it has arrived.
    fn poll_exchange(
        &mut self,
        what: &'static str,
    ) -> Result<Option<Vec<Vec<u8>>>, BootstrapError> {
        loop {
            let reply = match self.exchanged.take() {
                None => self.take()?,
                earlier => earlier,
            };
            match reply {
                Some(Reply::Gathered { parts }) => return Ok(Some(parts)),
                Some(Reply::Lost { rank }) => return Err(BootstrapError::Lost { rank }),
                Some(other) => return Err(unexpected("gathered", &other)),
                None => {}
            }
            if !self.read(what, libc::MSG_DONTWAIT)? {
                return Ok(None);
            }
        }
    }

    /// Takes the first complete reply from the received bytes.
    fn take(&mut self) -> Result<Option<Reply>, BootstrapError> {
        let Some(length) = body_length(&self.input, MAX_REPLY)? else {
            return Ok(None);
        };
        let Some(body) = self.input.get(4..4 + length) else {
            return Ok(None);
        };
        let reply = Reply::decode(body);
        self.input.drain(..4 + length);
        match reply? {
            Reply::Refused { message } => Err(BootstrapError::Refused(message)),
            reply => Ok(Some(reply)),
        }
    }

    /// Takes the received bytes. Returns false if nothing arrives in the allowed time.
    fn read(&mut self, what: &'static str, flags: libc::c_int) -> Result<bool, BootstrapError> {
        let stream = self.stream.as_ref().ok_or(BootstrapError::Left { what })?;
        let mut chunk = [0_u8; 16 << 10];
        // SAFETY: the socket is open, and the buffer has the given length.
        let count = unsafe {
            libc::recv(
                stream.as_raw_fd(),
                chunk.as_mut_ptr().cast(),
                chunk.len(),
                flags,
            )
        };
        match usize::try_from(count) {
            Ok(0) => Err(BootstrapError::Closed { what }),
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                Ok(true)
            }
            Err(_) => {
                let source = Error::last_os_error();
                match source.kind() {
                    ErrorKind::WouldBlock => Ok(false),
                    ErrorKind::Interrupted => Ok(true),
                    _ => Err(BootstrapError::Io {
                        action: what,
                        source,
                    }),
                }
            }
        }
    }
}
