//! The protocol between a rank and its launcher over the launcher's socket.
//!
//! A frame is its length (32 bits, little-endian, without itself) and a body; a body is a code and
//! fields. Every length is checked against its limit before any memory is allocated for it. Both
//! sides decode with the functions here, so a malformed message becomes a [`ProtocolError`] that
//! names the error.

mod codec;
mod error;

use codec::{Reader, Writer};
pub use error::ProtocolError;

/// First field of the first message. The field distinguishes a rank from a stray client.
const MAGIC: u64 = u64::from_le_bytes(*b"HSTBRANK");

/// Increases with every change of the messages.
pub const VERSION: u16 = 3;

/// Maximum length of a contribution to an exchange in bytes.
pub const MAX_ITEM: usize = 1 << 20;

/// Maximum length of a text in bytes.
pub const MAX_TEXT: usize = 4096;

/// Maximum number of ranks in a job.
pub const MAX_RANKS: u32 = 4096;

/// Maximum length of a request's body. The longest request is a contribution.
pub const MAX_REQUEST: usize = MAX_ITEM + 64;

/// Maximum length of a reply's body: the contributions of all ranks to one exchange.
pub const MAX_REPLY: usize = 64 << 20;

/// A message of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message.
    Hello {
        /// The sender's rank.
        rank: u32,
    },
    /// Takes part in an exchange. The reply is [`Reply::Gathered`], after all ranks take part.
    Gather {
        /// This rank's contribution.
        data: Vec<u8>,
    },
    /// Ends the job; no reply.
    Abort {
        /// Exit code.
        code: u8,
        /// The reason.
        message: String,
    },
    /// This rank leaves in good order. The reply is [`Reply::Farewell`].
    Leave,
}

/// A message of the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Reply to [`Request::Hello`].
    Welcome {
        /// Ranks of the job.
        size: u32,
    },
    /// Reply to [`Request::Gather`].
    Gathered {
        /// Every rank's contribution, in rank order.
        parts: Vec<Vec<u8>>,
    },
    /// Reply to [`Request::Leave`].
    Farewell,
    /// Reply to [`Request::Gather`] if a rank has ended and will never take part.
    Lost {
        /// The rank.
        rank: u32,
    },
    /// Reply to a request that cannot be served. The connection then ends.
    Refused {
        /// The reason.
        message: String,
    },
}

/// Refuses a contribution longer than [`MAX_ITEM`].
pub fn check_item(data: &[u8]) -> Result<(), ProtocolError> {
    if data.len() > MAX_ITEM {
        return Err(ProtocolError::TooLong {
            what: "contribution",
            limit: MAX_ITEM,
            found: data.len(),
        });
    }
    Ok(())
}

/// The length of the first frame's body, after its four bytes have arrived. Refuses a length above
/// `limit`.
pub fn body_length(input: &[u8], limit: usize) -> Result<Option<usize>, ProtocolError> {
    let Some((length, _)) = input.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return Err(ProtocolError::TooLong {
            what: "message",
            limit,
            found: length,
        });
    }
    Ok(Some(length))
}

impl Request {
    /// The message's name, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Hello { .. } => "hello",
            Request::Gather { .. } => "gather",
            Request::Abort { .. } => "abort",
            Request::Leave => "leave",
        }
    }

    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Request::Hello { rank } => {
                out.u8(1);
                out.u64(MAGIC);
                out.u16(VERSION);
                out.u32(*rank);
            }
            Request::Gather { data } => {
                out.u8(4);
                out.bytes(data);
            }
            Request::Abort { code, message } => {
                out.u8(5);
                out.u8(*code);
                out.text(message);
            }
            Request::Leave => out.u8(6),
        }
        out.frame()
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Request, ProtocolError> {
        let mut input = Reader(body);
        let request = match input.u8("code")? {
            1 => {
                let magic = input.u64("greeting")?;
                if magic != MAGIC {
                    return Err(ProtocolError::Magic { found: magic });
                }
                let version = input.u16("version")?;
                if version != VERSION {
                    return Err(ProtocolError::Version { found: version });
                }
                Request::Hello {
                    rank: input.u32("rank")?,
                }
            }
            4 => Request::Gather {
                data: input.bytes("contribution", MAX_ITEM)?.to_vec(),
            },
            5 => Request::Abort {
                code: input.u8("exit code")?,
                message: input.text("reason")?,
            },
            6 => Request::Leave,
            code => {
                return Err(ProtocolError::UnknownCode {
                    what: "request",
                    code,
                });
            }
        };
        input.end(request.name())?;
        Ok(request)
    }
}

impl Reply {
    /// The message's name, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Reply::Welcome { .. } => "welcome",
            Reply::Gathered { .. } => "gathered",
            Reply::Farewell => "farewell",
            Reply::Lost { .. } => "lost",
            Reply::Refused { .. } => "refused",
        }
    }

    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Reply::Welcome { size } => {
                out.u8(1);
                out.u32(*size);
            }
            Reply::Gathered { parts } => {
                out.u8(3);
                out.u32(parts.len() as u32);
                for part in parts {
                    out.bytes(part);
                }
            }
            Reply::Farewell => out.u8(4),
            Reply::Lost { rank } => {
                out.u8(6);
                out.u32(*rank);
            }
            Reply::Refused { message } => {
                out.u8(5);
                out.text(message);
            }
        }
        out.frame()
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Reply, ProtocolError> {
        let mut input = Reader(body);
        let reply = match input.u8("code")? {
            1 => Reply::Welcome {
                size: input.u32("size")?,
            },
            3 => {
                let count = input.u32("number of parts")?;
                if count > MAX_RANKS {
                    return Err(ProtocolError::TooLong {
                        what: "number of parts",
                        limit: MAX_RANKS as usize,
                        found: count as usize,
                    });
                }
                let parts = (0..count)
                    .map(|_| Ok(input.bytes("contribution", MAX_ITEM)?.to_vec()))
                    .collect::<Result<_, ProtocolError>>()?;
                Reply::Gathered { parts }
            }
            4 => Reply::Farewell,
            5 => Reply::Refused {
                message: input.text("reason")?,
            },
            6 => Reply::Lost {
                rank: input.u32("rank")?,
            },
            code => {
                return Err(ProtocolError::UnknownCode {
                    what: "reply",
                    code,
                });
            }
        };
        input.end(reply.name())?;
        Ok(reply)
    }
}
