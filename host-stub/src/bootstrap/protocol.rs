//! What a rank and its launcher say to each other over the launcher's socket.
//!
//! A frame is its length (32 bits, little-endian, without itself) and a body; a body is a code and
//! fields. Every length is checked against its limit before anything is allocated for it. Both
//! sides decode with the functions here, so a malformed message is a [`ProtocolError`] that says
//! what is wrong, whoever sent it.

use std::fmt;

/// First field of the first message; also tells a stray client from a rank.
const MAGIC: u64 = u64::from_le_bytes(*b"HSTBRANK");

/// Raised with every change of the messages.
pub const VERSION: u16 = 1;

/// Longest key, bytes.
pub const MAX_KEY: usize = 256;

/// Longest published item or contribution to an exchange, bytes.
pub const MAX_ITEM: usize = 1 << 20;

/// Longest text, bytes.
pub const MAX_TEXT: usize = 4096;

/// Most ranks of a job.
pub const MAX_RANKS: u32 = 4096;

/// Longest body of a request: the longest put.
pub const MAX_REQUEST: usize = MAX_ITEM + MAX_KEY + 64;

/// Longest body of a reply: what all ranks together may contribute to one exchange.
pub const MAX_REPLY: usize = 64 << 20;

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message.
    Hello {
        /// Which rank this is.
        rank: u32,
    },
    /// Publishes an item; no reply.
    Put {
        /// Its key.
        key: String,
        /// The item.
        data: Vec<u8>,
    },
    /// Asks for an item; [`Reply::Value`].
    Get {
        /// Whose.
        rank: u32,
        /// Its key.
        key: String,
    },
    /// Takes part in an exchange; [`Reply::Gathered`] once all ranks do.
    Gather {
        /// This rank's part.
        data: Vec<u8>,
    },
    /// Ends the job; no reply.
    Abort {
        /// Exit code.
        code: u8,
        /// Why.
        message: String,
    },
    /// This rank leaves in good order; [`Reply::Farewell`].
    Leave,
}

/// What the launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Hello`].
    Welcome {
        /// Ranks of the job.
        size: u32,
    },
    /// To [`Request::Get`].
    Value {
        /// The item, if there is one.
        data: Option<Vec<u8>>,
    },
    /// To [`Request::Gather`].
    Gathered {
        /// Every rank's part, in order.
        parts: Vec<Vec<u8>>,
    },
    /// To [`Request::Leave`].
    Farewell,
    /// To anything that cannot be served; the connection ends.
    Refused {
        /// Why.
        message: String,
    },
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the fields are what the variants' messages print"
)]
pub enum ProtocolError {
    /// It ends inside a field.
    Truncated {
        what: &'static str,
        wanted: usize,
        found: usize,
    },
    /// It goes on after its last field.
    Trailing { message: &'static str, bytes: usize },
    /// Something is longer than allowed.
    TooLong {
        what: &'static str,
        limit: usize,
        found: usize,
    },
    /// A text is not UTF-8, or a key not a key.
    Text {
        what: &'static str,
        reason: &'static str,
    },
    /// No message has this code.
    UnknownCode { what: &'static str, code: u8 },
    /// The first message is not one of this protocol.
    Magic { found: u64 },
    /// The other side speaks another version.
    Version { found: u16 },
    /// A known message at a time when another was due.
    Unexpected {
        wanted: &'static str,
        found: &'static str,
    },
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::Truncated {
                what,
                wanted,
                found,
            } => write!(
                f,
                "malformed message: {what}: wanted {wanted} bytes, found {found}"
            ),
            ProtocolError::Trailing { message, bytes } => {
                write!(
                    f,
                    "malformed message: {bytes} bytes after the end of {message}"
                )
            }
            ProtocolError::TooLong { what, limit, found } => {
                write!(f, "{what}: wanted at most {limit} bytes, found {found}")
            }
            ProtocolError::Text { what, reason } => write!(f, "{what}: {reason}"),
            ProtocolError::UnknownCode { what, code } => {
                write!(f, "malformed message: no {what} has the code {code}")
            }
            ProtocolError::Magic { found } => write!(
                f,
                "malformed message: wanted a greeting \"{}\", found \"{}\"",
                MAGIC.to_le_bytes().escape_ascii(),
                found.to_le_bytes().escape_ascii()
            ),
            ProtocolError::Version { found } => write!(
                f,
                "the other side speaks version {found} of the protocol, this one version {VERSION}: \
                 use the host-stub of one build on both"
            ),
            ProtocolError::Unexpected { wanted, found } => {
                write!(f, "wanted {wanted}, found {found}")
            }
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Refuses what is no key: empty, longer than [`MAX_KEY`], or with control characters.
pub fn check_key(key: &str) -> Result<(), ProtocolError> {
    if key.len() > MAX_KEY {
        return Err(ProtocolError::TooLong {
            what: "key",
            limit: MAX_KEY,
            found: key.len(),
        });
    }
    let reason = if key.is_empty() {
        "is empty"
    } else if key.contains(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    Err(ProtocolError::Text {
        what: "key",
        reason,
    })
}

/// Refuses an item longer than [`MAX_ITEM`].
pub fn check_item(data: &[u8]) -> Result<(), ProtocolError> {
    if data.len() > MAX_ITEM {
        return Err(ProtocolError::TooLong {
            what: "item",
            limit: MAX_ITEM,
            found: data.len(),
        });
    }
    Ok(())
}

/// The length of the first frame's body once its four bytes are there; refuses one over `limit`.
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
            Request::Put { .. } => "put",
            Request::Get { .. } => "get",
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
            Request::Put { key, data } => {
                out.u8(2);
                out.bytes(key.as_bytes());
                out.bytes(data);
            }
            Request::Get { rank, key } => {
                out.u8(3);
                out.u32(*rank);
                out.bytes(key.as_bytes());
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
            2 => Request::Put {
                key: input.key()?,
                data: input.bytes("item", MAX_ITEM)?.to_vec(),
            },
            3 => Request::Get {
                rank: input.u32("rank")?,
                key: input.key()?,
            },
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
            Reply::Value { .. } => "value",
            Reply::Gathered { .. } => "gathered",
            Reply::Farewell => "farewell",
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
            Reply::Value { data } => {
                out.u8(2);
                match data {
                    None => out.u8(0),
                    Some(data) => {
                        out.u8(1);
                        out.bytes(data);
                    }
                }
            }
            Reply::Gathered { parts } => {
                out.u8(3);
                out.u32(parts.len() as u32);
                for part in parts {
                    out.bytes(part);
                }
            }
            Reply::Farewell => out.u8(4),
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
            2 => Reply::Value {
                data: match input.u8("presence")? {
                    0 => None,
                    1 => Some(input.bytes("item", MAX_ITEM)?.to_vec()),
                    code => {
                        return Err(ProtocolError::UnknownCode {
                            what: "presence",
                            code,
                        });
                    }
                },
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

/// A frame being written.
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Self {
        Writer(vec![0; 4])
    }

    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value);
    }

    /// A text, cut to what the other side accepts.
    fn text(&mut self, value: &str) {
        let mut end = value.len().min(MAX_TEXT);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&value.as_bytes()[..end]);
    }

    fn frame(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// What is left of a body.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(ProtocolError::Truncated {
                what,
                wanted: count,
                found: self.0.len(),
            })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ProtocolError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N)?);
        Ok(array)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, ProtocolError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, ProtocolError> {
        self.array(what).map(u16::from_le_bytes)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, ProtocolError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, ProtocolError> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn bytes(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], ProtocolError> {
        let length = self.u32(what)? as usize;
        if length > limit {
            return Err(ProtocolError::TooLong {
                what,
                limit,
                found: length,
            });
        }
        self.take(what, length)
    }

    fn utf8(&mut self, what: &'static str, limit: usize) -> Result<String, ProtocolError> {
        match std::str::from_utf8(self.bytes(what, limit)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(ProtocolError::Text {
                what,
                reason: "is not UTF-8",
            }),
        }
    }

    fn text(&mut self, what: &'static str) -> Result<String, ProtocolError> {
        self.utf8(what, MAX_TEXT)
    }

    fn key(&mut self) -> Result<String, ProtocolError> {
        let key = self.utf8("key", MAX_KEY)?;
        check_key(&key)?;
        Ok(key)
    }

    fn end(&self, message: &'static str) -> Result<(), ProtocolError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(ProtocolError::Trailing {
            message,
            bytes: self.0.len(),
        })
    }
}
