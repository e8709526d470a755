//! A transport of this process, connected with itself, and memory that its operations use.

use std::convert::Infallible;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use btl_ofi::{Completion, Endpoint, Op, Options, Region, Transport};
use mca_params::Value;
use plugin_api::{Access, Handle, Module, Status, ThreadLevel};

/// Bytes that operations read and write.
pub(crate) const WINDOW: usize = 4096;
/// The longest time that an operation may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives the lab provider room for all measurements. This call must precede the first transport and
/// any further thread.
pub(crate) fn shape() {
    for (name, value) in [
        ("LAB_TX_SIZE", "4000000"),
        ("LAB_TX_CTX", "8"),
        ("LAB_MR_KEY_SIZE", "8"),
        ("FI_TCP_IFACE", "lo"),
        ("FI_SOCKETS_IFACE", "lo"),
    ] {
        // SAFETY: the program has no other thread yet.
        unsafe { std::env::set_var(name, value) };
    }
}

/// An open transport with its own region.
pub(crate) struct Local {
    pub(crate) transport: Transport,
    pub(crate) region: Region,
    /// Address of the bytes that operations change.
    window: usize,
}

/// Opens a provider.
pub(crate) fn open(
    provider: &str,
    level: ThreadLevel,
    settings: &[(&str, i32)],
) -> Result<Local, String> {
    let options = Options::resolve(|declaration| {
        let set = settings.iter().find(|(name, _)| *name == declaration.name);
        Ok::<_, Infallible>(match set {
            Some((_, value)) => Value::Int(*value),
            None if declaration.name == "btl_ofi_provider_include" => {
                Value::String(provider.to_owned().into())
            }
            None if declaration.name == "btl_ofi_same_node" => {
                Value::String(benches::same_node(provider).into())
            }
            None => declaration.default.clone(),
        })
    });
    let options = options.map_err(|e| e.to_string())?;
    // SAFETY: benchmarks whose threads call the transport at the same time open it at the level MULTIPLE.
    let transport = unsafe { Transport::open_at(&options, level) };
    let transport = transport.map_err(|e| format!("{provider}: {e}"))?;
    let window = vec![0u64; WINDOW / 8].leak().as_mut_ptr().cast::<u8>();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: the memory is never freed, and only operations of this program change it.
    let region = unsafe { transport.register(window.cast(), WINDOW, access) };
    Ok(Local {
        region: region.map_err(|e| e.to_string())?,
        transport,
        window: window.expose_provenance(),
    })
}

/// Does nothing: completions are counted by flush.
unsafe extern "C" fn ignore(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    _: *mut c_void,
    _: *mut c_void,
    _: i32,
) {
}

impl Local {
    /// Puts 8 bytes to a peer; every peer is this process. The word lies in the window.
    #[inline]
    pub(crate) fn put(
        &self,
        peer: NonNull<Endpoint>,
        word: usize,
        callback: bool,
    ) -> Result<(), String> {
        let completion = callback.then_some(Completion {
            function: ignore,
            context: ptr::null_mut(),
            data: ptr::null_mut(),
        });
        static SOURCE: u64 = 7;
        let local = (&raw const SOURCE).cast_mut().cast();
        let remote = self.window as u64 + (word * 8 % WINDOW) as u64;
        let handle = self.region.handle();
        let mut deadline = None;
        loop {
            // SAFETY: the peer is connected; the source is static and the window is never freed.
            let status = unsafe {
                let op = Op::put(&handle, remote, (local, ptr::null_mut()), 8);
                self.transport.submit(peer, &op.with_completion(completion))
            };
            if status == Status::SUCCESS {
                return Ok(());
            }
            if !status.is_again() {
                return Err(format!("a put was answered with {status}"));
            }
            self.transport.progress();
            if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + PATIENCE) {
                return Err(String::from("the provider takes nothing"));
            }
        }
    }

    /// Waits for all operations to a peer, or to all peers.
    pub(crate) fn flush(&self, peer: Option<NonNull<Endpoint>>) -> Result<(), String> {
        // SAFETY: endpoints live until the transport closes.
        let peer = peer.map(|peer| unsafe { peer.as_ref() });
        match self.transport.flush(peer) {
            Status::SUCCESS => Ok(()),
            status => Err(format!("a flush was answered with {status}")),
        }
    }

    /// Closes the transport and its objects.
    pub(crate) fn close(self) -> Result<(), String> {
        drop(self.region);
        self.transport.close().map_err(|e| e.to_string())
    }
}
