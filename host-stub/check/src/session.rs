//! One epoch of a test: its opening and closing, and its buffers.

use super::buffer::DeviceBuffer;
use super::case::{Context, Failure, Outcome};
use super::shape::Placed;
use host_stub::win::{Assertion, Custom, Layout, LockKind, Op, Request, Target, Window};

/// The way in which a test opens access to every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Fence,
    LockAll,
    Locks,
    Started,
}

impl Mode {
    pub(super) const ALL: [Mode; 4] = [Mode::Fence, Mode::LockAll, Mode::Locks, Mode::Started];
    /// The modes in which requests are allowed.
    pub(super) const PASSIVE: [Mode; 2] = [Mode::LockAll, Mode::Locks];
}

/// A buffer of a session, by its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer(usize);

struct Owned {
    words: Vec<u64>,
    offset: usize,
    len: usize,
    place: Place,
}

/// The place of a buffer's bytes.
enum Place {
    /// In the words of the buffer.
    Host,
    Device(DeviceBuffer),
    /// No place: the device had no memory for it, or refused its bytes, for this reason.
    Refused(String),
}

/// An open epoch with the buffers of its operations.
pub(super) struct Session<'a> {
    context: &'a Context<'a>,
    window: &'a Window,
    mode: Mode,
    buffers: Vec<Owned>,
    open: bool,
}

impl<'a> Session<'a> {
    /// Meets the other ranks and opens an epoch in which each rank accesses all.
    pub(super) fn open(
        context: &'a Context<'a>,
        window: &'a Window,
        mode: Mode,
    ) -> Result<Self, Failure> {
        let everyone: Vec<usize> = (0..context.size).collect();
        match mode {
            Mode::Fence => window.fence(Assertion::NOPRECEDE)?,
            Mode::LockAll => {
                window.sync()?;
                context.meet()?;
                window.lock_all(Assertion::empty())?;
            }
            Mode::Locks => {
                window.sync()?;
                context.meet()?;
                for rank in everyone {
                    window.lock(LockKind::Shared, rank, Assertion::empty())?;
                }
            }
            Mode::Started => {
                window.post(&everyone, Assertion::empty())?;
                window.start(&everyone, Assertion::empty())?;
            }
        }
        Ok(Session {
            context,
            window,
            mode,
            buffers: Vec::new(),
            open: true,
        })
    }

    /// Makes a session for epochs that the test opens and closes itself. The session's buffers are
    /// kept until [`release`](Self::release), after their last use.
    pub(super) fn by_hand(context: &'a Context<'a>, window: &'a Window) -> Self {
        Session {
            context,
            window,
            mode: Mode::LockAll,
            buffers: Vec::new(),
            open: true,
        }
    }

    /// Frees the buffers of such a session. Every epoch that used the buffers must be closed.
    pub(super) fn release(&mut self) {
        self.open = false;
    }

    /// Closes the epoch; afterwards every rank's operations are complete everywhere.
    pub(super) fn close(&mut self) -> Outcome {
        match self.mode {
            Mode::Fence => self.window.fence(Assertion::NOSUCCEED)?,
            Mode::LockAll => {
                self.window.unlock_all()?;
                self.context.meet()?;
            }
            Mode::Locks => {
                for rank in 0..self.context.size {
                    self.window.unlock(rank)?;
                }
                self.context.meet()?;
            }
            Mode::Started => {
                self.window.complete()?;
                self.window.wait()?;
            }
        }
        self.open = false;
        Ok(())
    }

    /// A buffer with these bytes, aligned to 8. If the device refuses the buffer, every use of the
    /// buffer fails with the reason.
    pub(super) fn buffer(&mut self, bytes: &[u8]) -> Buffer {
        self.buffer_at(0, bytes)
    }

    /// A buffer with these bytes, at an address that is `offset` beyond a multiple of 8.
    pub(super) fn buffer_at(&mut self, offset: usize, bytes: &[u8]) -> Buffer {
        let mut owned = Owned {
            words: vec![0; (offset + bytes.len()).div_ceil(8).max(1)],
            offset,
            len: bytes.len(),
            place: Place::Host,
        };
        if self.context.on_device {
            owned.place = match self.device_buffer(offset, bytes) {
                Ok(device) => Place::Device(device),
                Err(failure) => Place::Refused(format!(
                    "the test's buffer of {} B on the device: {}",
                    bytes.len(),
                    failure.detail
                )),
            };
        }
        // SAFETY: the words hold `offset + bytes.len()` bytes.
        unsafe {
            let to = owned.words.as_mut_ptr().cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.buffers.push(owned);
        Buffer(self.buffers.len() - 1)
    }

    /// Makes the buffer on the device.
    fn device_buffer(&self, offset: usize, bytes: &[u8]) -> Result<DeviceBuffer, Failure> {
        let devices = self.context.job.devices();
        let len = offset + bytes.len();
        let device = DeviceBuffer::new(devices, len, self.buffers.len())?;
        device.write(offset, bytes)?;
        Ok(device)
    }

    /// The layout for calls with this buffer.
    fn marked(&self, buffer: Buffer, placed: &Placed) -> Layout {
        match &self.buffers[buffer.0].place {
            Place::Device(device) if device.is_marked() => placed.layout.clone().on_device(),
            _ => placed.layout.clone(),
        }
    }

    /// The buffer's bytes now. Operations on the buffer are complete.
    pub(super) fn bytes(&self, buffer: Buffer) -> Result<Vec<u8>, Failure> {
        let owned = &self.buffers[buffer.0];
        let mut bytes = vec![0; owned.len];
        match &owned.place {
            Place::Host => {}
            Place::Device(device) => {
                device.read(owned.offset, &mut bytes)?;
                return Ok(bytes);
            }
            Place::Refused(reason) => return Err(Failure::new(reason)),
        }
        // SAFETY: the words hold `offset + len` bytes.
        unsafe {
            let from = owned.words.as_ptr().cast::<u8>().add(owned.offset);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), owned.len);
        }
        Ok(bytes)
    }

    fn pointer(&mut self, buffer: Buffer, extent: usize) -> Result<*mut u8, Failure> {
        let owned = &mut self.buffers[buffer.0];
        if extent > owned.len {
            return Err(Failure::new(format!(
                "the test's buffer of {} B is shorter than its layout of {extent} B",
                owned.len
            )));
        }
        match &owned.place {
            Place::Host => {}
            Place::Device(device) => return Ok(device.pointer(owned.offset)?),
            Place::Refused(reason) => return Err(Failure::new(reason)),
        }
        // SAFETY: the words hold `offset + len` bytes.
        Ok(unsafe { owned.words.as_mut_ptr().cast::<u8>().add(owned.offset) })
    }

    pub(super) fn put(&mut self, from: Buffer, origin: &Placed, target: Target<'_>) -> Outcome {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        // SAFETY: the buffer is long enough, and lives unchanged until the session is dropped.
        unsafe { self.window.put(from, &layout, target) }?;
        Ok(())
    }

    pub(super) fn put_notify(
        &mut self,
        from: Buffer,
        origin: &Placed,
        target: Target<'_>,
        counter: usize,
    ) -> Outcome {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        // SAFETY: as in `put`.
        unsafe { self.window.put_notify(from, &layout, target, counter) }?;
        Ok(())
    }

    pub(super) fn get(&mut self, into: Buffer, origin: &Placed, target: Target<'_>) -> Outcome {
        let layout = self.marked(into, origin);
        let into = self.pointer(into, origin.layout.extent())?;
        // SAFETY: as in `put`.
        unsafe { self.window.get(into, &layout, target) }?;
        Ok(())
    }

    pub(super) fn accumulate(
        &mut self,
        from: Buffer,
        origin: &Placed,
        target: Target<'_>,
        op: Op,
    ) -> Outcome {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        // SAFETY: as in `put`.
        unsafe { self.window.accumulate(from, &layout, target, op) }?;
        Ok(())
    }

    pub(super) fn get_accumulate(
        &mut self,
        (from, origin): (Buffer, &Placed),
        (into, result): (Buffer, &Placed),
        target: Target<'_>,
        op: Op,
    ) -> Outcome {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        let into_layout = self.marked(into, result);
        let into = self.pointer(into, result.layout.extent())?;
        // SAFETY: as in `put`.
        unsafe {
            self.window
                .get_accumulate(from, &layout, into, &into_layout, target, op)
        }?;
        Ok(())
    }

    pub(super) fn fetch_and_op(
        &mut self,
        from: Buffer,
        into: Buffer,
        datatype: plugin_api::Datatype,
        (rank, displacement): (usize, u64),
        op: Op,
    ) -> Outcome {
        let from = self.pointer(from, datatype.size())?;
        let into = self.pointer(into, datatype.size())?;
        // SAFETY: as in `put`.
        unsafe {
            self.window
                .fetch_and_op(from, into, datatype, rank, displacement, op)
        }?;
        Ok(())
    }

    pub(super) fn compare_and_swap(
        &mut self,
        (from, compare, into): (Buffer, Buffer, Buffer),
        datatype: plugin_api::Datatype,
        (rank, displacement): (usize, u64),
    ) -> Outcome {
        let from = self.pointer(from, datatype.size())?;
        let compare = self.pointer(compare, datatype.size())?;
        let into = self.pointer(into, datatype.size())?;
        // SAFETY: as in `put`.
        unsafe {
            self.window
                .compare_and_swap(from, compare, into, datatype, rank, displacement)
        }?;
        Ok(())
    }

    pub(super) fn rput(
        &mut self,
        from: Buffer,
        origin: &Placed,
        target: Target<'_>,
    ) -> Result<Request<'a>, Failure> {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        // SAFETY: as in `put`.
        Ok(unsafe { self.window.rput(from, &layout, target) }?)
    }

    pub(super) fn rget(
        &mut self,
        into: Buffer,
        origin: &Placed,
        target: Target<'_>,
    ) -> Result<Request<'a>, Failure> {
        let layout = self.marked(into, origin);
        let into = self.pointer(into, origin.layout.extent())?;
        // SAFETY: as in `put`.
        Ok(unsafe { self.window.rget(into, &layout, target) }?)
    }

    pub(super) fn raccumulate(
        &mut self,
        from: Buffer,
        origin: &Placed,
        target: Target<'_>,
        op: Op,
    ) -> Result<Request<'a>, Failure> {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        // SAFETY: as in `put`.
        Ok(unsafe { self.window.raccumulate(from, &layout, target, op) }?)
    }

    pub(super) fn rget_accumulate(
        &mut self,
        (from, origin): (Buffer, &Placed),
        (into, result): (Buffer, &Placed),
        target: Target<'_>,
        op: Op,
    ) -> Result<Request<'a>, Failure> {
        let layout = self.marked(from, origin);
        let from = self.pointer(from, origin.layout.extent())?;
        let into_layout = self.marked(into, result);
        let into = self.pointer(into, result.layout.extent())?;
        // SAFETY: as in `put`.
        Ok(unsafe {
            self.window
                .rget_accumulate(from, &layout, into, &into_layout, target, op)
        }?)
    }

    /// The buffers must be in memory of the host.
    pub(super) fn accumulate_custom(
        &mut self,
        custom: Custom,
        (from, origin): (Buffer, &Placed),
        result: Option<(Buffer, &Placed)>,
        target: Target<'_>,
    ) -> Outcome {
        let from = self.pointer(from, origin.layout.extent())?;
        let result = match result {
            Some((into, result)) => {
                let into = self.pointer(into, result.layout.extent())?;
                Some((into, &result.layout))
            }
            None => None,
        };
        let origin = (from.cast_const(), &origin.layout);
        // SAFETY: as in `put`.
        unsafe {
            self.window
                .accumulate_custom(custom, origin, result, target)
        }?;
        Ok(())
    }

    pub(super) fn flush(&self, rank: usize) -> Outcome {
        match self.mode {
            Mode::LockAll | Mode::Locks => Ok(self.window.flush(rank)?),
            Mode::Fence | Mode::Started => Err(Failure::new("flush in an active epoch")),
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.open {
            // The test failed with operations under way, which may still use the buffers.
            std::mem::forget(std::mem::take(&mut self.buffers));
        }
    }
}
