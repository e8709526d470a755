//! libpmix, opened at run time. The calls here have lengths and errors as Rust types.
//!
//! Only this file calls the library.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::super::{BootstrapError, Lost, Patience, Progress};
use super::abi;
use super::quirks::{Keys, Quirks};

/// The file of the library. PMIx 3, 4 and 5 are installed under this name.
const FILE: &str = "libpmix.so.2";

/// The library's functions. The library is never closed, because it runs its own thread.
struct Functions {
    init: abi::Init,
    finalize: abi::Finalize,
    put: abi::Put,
    commit: abi::Commit,
    fence_nb: abi::FenceNb,
    get: abi::Get,
    abort: abi::Abort,
    error_string: abi::ErrorString,
    get_version: abi::GetVersion,
}

impl Functions {
    fn open() -> Result<Self, BootstrapError> {
        let failed = |source| BootstrapError::PmixLibrary { file: FILE, source };
        // SAFETY: the library's constructors require nothing of the program that opens it.
        let library = unsafe { Library::open(Some(FILE), RTLD_NOW | RTLD_LOCAL) };
        let library = std::mem::ManuallyDrop::new(library.map_err(failed)?);
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the PMIx standard defines this signature of the function, which `abi`
                // mirrors; the library is never closed.
                unsafe { *library.get($name).map_err(failed)? }
            };
        }
        Ok(Functions {
            init: function!(b"PMIx_Init\0"),
            finalize: function!(b"PMIx_Finalize\0"),
            put: function!(b"PMIx_Put\0"),
            commit: function!(b"PMIx_Commit\0"),
            fence_nb: function!(b"PMIx_Fence_nb\0"),
            get: function!(b"PMIx_Get\0"),
            abort: function!(b"PMIx_Abort\0"),
            error_string: function!(b"PMIx_Error_string\0"),
            get_version: function!(b"PMIx_Get_version\0"),
        })
    }

    /// The library's functions. The first call opens the library.
    fn get() -> Result<&'static Self, BootstrapError> {
        static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
        if let Some(functions) = FUNCTIONS.get() {
            return Ok(functions);
        }
        let functions = Self::open()?;
        Ok(FUNCTIONS.get_or_init(|| functions))
    }

    /// Returns an error unless the status is a success.
    fn check(
        &self,
        status: abi::Status,
        call: &'static str,
        subject: impl FnOnce() -> String,
    ) -> Result<(), BootstrapError> {
        if status == abi::SUCCESS {
            return Ok(());
        }
        // SAFETY: the function accepts any number, and returns NULL or a constant text.
        let text = unsafe {
            let text = (self.error_string)(status);
            if text.is_null() {
                "an unknown status".to_owned()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(BootstrapError::Pmix {
            call,
            subject: subject(),
            text,
            status,
        })
    }
}

/// A value that the launcher or a rank published.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Number(u32),
    Text(String),
    Bytes(Vec<u8>),
}

/// A connection to the launcher's PMIx server. Any thread may call, because the library passes
/// every call to its own thread.
pub(super) struct Client {
    functions: &'static Functions,
    me: abi::Proc,
    quirks: Quirks,
}

/// The owner of a published item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Job,
    Rank(u32),
}

impl Client {
    /// Opens the library and connects.
    pub(super) fn connect() -> Result<Self, BootstrapError> {
        let functions = Functions::get()?;
        let mut me = abi::Proc::empty();
        // SAFETY: `me` is writable; no directives are passed.
        let status = unsafe { (functions.init)(&mut me, std::ptr::null_mut(), 0) };
        functions.check(status, "PMIx_Init", String::new)?;
        // SAFETY: the function takes no argument, and returns a constant text.
        let version = unsafe { CStr::from_ptr((functions.get_version)()) };
        let quirks = Quirks::find(&version.to_string_lossy());
        Ok(Client {
            functions,
            me,
            quirks,
        })
    }

    /// Whether keys may be put again.
    pub(super) fn keys(&self) -> Keys {
        self.quirks.keys
    }

    pub(super) fn rank(&self) -> u32 {
        self.me.rank
    }

    /// The launcher's name of the job.
    pub(super) fn namespace(&self) -> String {
        let bytes = self.me.nspace.iter().map(|byte| *byte as u8);
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Publishes bytes under a key. Other ranks see the bytes after [`commit`](Self::commit) and a
    /// fence.
    pub(super) fn put(&self, key: &str, data: &[u8]) -> Result<(), BootstrapError> {
        let name = text(key);
        let mut value = abi::Value {
            kind: abi::BYTE_OBJECT,
            data: abi::Data { whole: [0; 3] },
        };
        value.data.bo = abi::ByteObject {
            bytes: data.as_ptr().cast_mut().cast(),
            size: data.len(),
        };
        // SAFETY: the key is terminated, and the value holds the address and length of `data`. The
        // library copies the value before the call returns, and writes neither key nor value.
        let status = unsafe { (self.functions.put)(abi::SCOPE_GLOBAL, name.as_ptr(), &mut value) };
        self.functions
            .check(status, "PMIx_Put", || format!("{key}, {} B", data.len()))
    }

    /// Sends all values that were put to the server.
    pub(super) fn commit(&self) -> Result<(), BootstrapError> {
        // SAFETY: the function takes no argument.
        let status = unsafe { (self.functions.commit)() };
        self.functions.check(status, "PMIx_Commit", String::new)
    }

    /// Waits until every rank of the job has called.
    pub(super) fn fence(
        &self,
        progress: Progress<'_>,
        lost: &OnceLock<Lost>,
    ) -> Result<(), BootstrapError> {
        let outcome = Arc::new(Outcome::default());
        let shared = Arc::into_raw(Arc::clone(&outcome));
        let collect = abi::Info::on(abi::COLLECT_DATA);
        // SAFETY: no ranks means the whole job; there is one directive, which the library copies, or
        // the count is 0; `done` takes the passed reference.
        let status = unsafe {
            (self.functions.fence_nb)(
                std::ptr::null(),
                0,
                &collect,
                self.quirks.collect.into(),
                Some(done),
                shared.cast_mut().cast(),
            )
        };
        if status != abi::SUCCESS {
            // SAFETY: the library calls the callback only after a success, so this process still
            // owns the reference.
            drop(unsafe { Arc::from_raw(shared) });
        }
        if status == abi::OPERATION_SUCCEEDED {
            return Ok(());
        }
        self.functions.check(status, "PMIx_Fence_nb", String::new)?;
        // Acquire pairs with the Release in `done`: the status was written before.
        let mut patience = Patience::new(lost);
        while !outcome.ended.load(Ordering::Acquire) {
            patience.check()?;
            progress();
            // There may be more ranks than processors, so a waiting thread lets others run.
            std::thread::yield_now();
        }
        let status = outcome.status.load(Ordering::Relaxed);
        self.functions
            .check(status, "PMIx_Fence_nb", || "when complete".to_owned())
    }

    /// Returns the value of a key; `None` if there is none. If keys are put again, `anew` asks the
    /// owner's server for a newer value than the one that was read before.
    pub(super) fn get(
        &self,
        owner: Owner,
        key: &str,
        anew: bool,
    ) -> Result<Option<Item>, BootstrapError> {
        let name = text(key);
        let proc = abi::Proc {
            nspace: self.me.nspace,
            rank: match owner {
                Owner::Job => abi::RANK_WILDCARD,
                Owner::Rank(rank) => rank,
            },
        };
        let refresh = abi::Info::on(abi::GET_REFRESH_CACHE);
        let anew = anew && self.quirks.keys == Keys::Again;
        let mut value = std::ptr::null_mut();
        // SAFETY: the key is terminated; there is one directive, or its count is 0.
        let status = unsafe {
            (self.functions.get)(&proc, name.as_ptr(), &refresh, anew.into(), &mut value)
        };
        if status == abi::ERR_NOT_FOUND {
            return Ok(None);
        }
        let subject = || match owner {
            Owner::Job => format!("{key} of the job"),
            Owner::Rank(rank) => format!("{key} of rank {rank}"),
        };
        self.functions.check(status, "PMIx_Get", subject)?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: on success, the value is one that the library allocated for this caller.
        let item = unsafe { take(value) };
        item.map(Some).map_err(|kind| BootstrapError::PmixType {
            what: subject(),
            kind,
        })
    }

    /// Requests the end of the job, and waits for the server's answer.
    pub(super) fn abort(&self, code: u8, message: &str) -> Result<(), BootstrapError> {
        let message = text(message);
        // SAFETY: the message is terminated; no ranks means the whole job.
        let status = unsafe {
            (self.functions.abort)(code.into(), message.as_ptr(), std::ptr::null_mut(), 0)
        };
        self.functions.check(status, "PMIx_Abort", String::new)
    }

    /// Leaves the job in good order.
    pub(super) fn finalize(&self) -> Result<(), BootstrapError> {
        // SAFETY: no directives are passed.
        let status = unsafe { (self.functions.finalize)(std::ptr::null(), 0) };
        self.functions.check(status, "PMIx_Finalize", String::new)
    }
}

/// The result of a fence.
#[derive(Default)]
struct Outcome {
    status: AtomicI32,
    ended: AtomicBool,
}

/// Called by the library's thread when a fence is complete.
///
/// # Safety
/// `shared` is a counted reference to an [`Outcome`], which this call takes.
unsafe extern "C" fn done(status: abi::Status, shared: *mut c_void) {
    // SAFETY: the caller passes a counted reference.
    let outcome = unsafe { Arc::from_raw(shared.cast_const().cast::<Outcome>()) };
    outcome.status.store(status, Ordering::Relaxed);
    // Release pairs with the Acquire in `fence`.
    outcome.ended.store(true, Ordering::Release);
}

/// A terminated text. The text ends at the first zero byte.
fn text(text: &str) -> CString {
    let bytes = text.bytes().take_while(|byte| *byte != 0);
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

/// Copies a value and frees it. The error is the number of a type that this crate does not use.
///
/// # Safety
/// The library allocated the value for the caller.
unsafe fn take(value: *mut abi::Value) -> Result<Item, u16> {
    // SAFETY: the type selects the valid member. Text and bytes are separate allocations, NULL when
    // empty, and the value is another one; all were made with malloc.
    unsafe {
        let kind = (*value).kind;
        let item = match kind {
            abi::UINT32 => Ok(Item::Number((*value).data.uint32)),
            abi::STRING => {
                let string: *mut c_char = (*value).data.string;
                let text = if string.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(string).to_string_lossy().into_owned()
                };
                libc::free(string.cast());
                Ok(Item::Text(text))
            }
            abi::BYTE_OBJECT => {
                let object = (*value).data.bo;
                let bytes = if object.bytes.is_null() {
                    Vec::new()
                } else {
                    std::slice::from_raw_parts(object.bytes.cast::<u8>(), object.size).to_vec()
                };
                libc::free(object.bytes.cast());
                Ok(Item::Bytes(bytes))
            }
            // The meaning of its pointers is unknown, so the memory they point to is not freed.
            other => Err(other),
        };
        libc::free(value.cast());
        item
    }
}
