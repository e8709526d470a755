//! One collective of a test: its buffers, its call, and the comparison.

use std::sync::Arc;

use super::super::buffer::DeviceBuffer;
use super::super::case::{Context, Failure, Outcome, same};
use super::super::random::Random;
use super::lists::{Lists, Places, end, lay};
use super::model::Call;
use host_stub::coll::{CollArgs, CollRequest, Collective};
use host_stub::comm::Comm;
use host_stub::device::Devices;

/// Blocking or nonblocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Blocking,
    Nonblocking,
}

impl Form {
    /// Calls the collective.
    ///
    /// # Safety
    /// As for [`Comm::collective`] and [`Comm::start_collective`].
    unsafe fn begin(
        self,
        comm: &Comm,
        collective: Collective,
        args: &CollArgs,
    ) -> Result<UnderWay, Failure> {
        // SAFETY: the caller vouches for the buffers.
        unsafe {
            match self {
                Form::Blocking => {
                    comm.collective(collective, args)?;
                    Ok(UnderWay::Done)
                }
                Form::Nonblocking => {
                    let request = comm.start_collective(collective, args)?;
                    Ok(UnderWay::Request(request))
                }
            }
        }
    }

    pub(super) const ALL: [Form; 2] = [Form::Blocking, Form::Nonblocking];

    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Form::Blocking => "",
            Form::Nonblocking => "i",
        }
    }
}

/// The collective that waits for its end.
enum UnderWay {
    Done,
    Request(CollRequest),
}

/// Bytes around a buffer that must stay unchanged.
const GUARD: usize = 16;
const FILL: u8 = 0x5a;

/// A collective with its buffers, which live until its end.
pub(super) struct Running {
    what: String,
    send: Vec<u8>,
    recv: Vec<u8>,
    /// The offset of the bytes in each buffer: no alignment is promised.
    offset: usize,
    wanted_send: Vec<u8>,
    wanted_recv: Vec<u8>,
    /// The buffers on a device, if they are there.
    send_there: Option<DeviceBuffer>,
    recv_there: Option<DeviceBuffer>,
    under_way: UnderWay,
}

/// Makes a buffer on a device, with the name of this turn.
fn there(devices: &Arc<Devices>, bytes: &[u8], turn: usize) -> Result<DeviceBuffer, Failure> {
    let buffer = DeviceBuffer::new(devices, bytes.len(), turn)?;
    buffer.write(0, bytes)?;
    Ok(buffer)
}

/// The places of bytes in a buffer: as lists say, or all at its beginning.
fn parts(lists: &Lists, len: usize) -> Places {
    if lists.places.is_empty() {
        vec![(0, len)]
    } else {
        lists.places.clone()
    }
}

/// The place of the operand in the receive buffer, if it is there; its results go to `taken`.
fn operand_in_recv(call: &Call, rank: usize, taken: &Places, operand: usize) -> Option<Places> {
    if call.collective == Collective::Bcast {
        return Some(vec![(0, operand)]);
    }
    if !call.in_place {
        return None;
    }
    match call.collective {
        Collective::Reduce | Collective::Gather if rank != call.root => None,
        Collective::Gather | Collective::Allgather => Some(vec![(rank * call.block(), operand)]),
        Collective::Allgatherv => Some(vec![taken[rank]]),
        Collective::Alltoallv => Some(taken.clone()),
        Collective::Barrier | Collective::Scatter => None,
        _ => Some(vec![(0, operand)]),
    }
}

fn guarded(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = vec![FILL; offset + bytes.len() + GUARD];
    buffer[offset..offset + bytes.len()].copy_from_slice(bytes);
    buffer
}

/// The contents of the buffers of a rank.
pub(super) struct Contents {
    /// The send buffer; `None` in place.
    pub(super) sent: Option<Vec<u8>>,
    /// The receive buffer, before and after the call.
    pub(super) initial: Vec<u8>,
    pub(super) wanted: Vec<u8>,
    /// Whether the rank receives nothing: the root of a scatter in place.
    pub(super) keeps_own: bool,
}

impl Contents {
    fn of(
        call: &Call,
        rank: usize,
        operands: &[Vec<u8>],
        (send_lists, recv_lists): (&Lists, &Lists),
    ) -> Contents {
        let (mine, size) = (&operands[rank], operands.len());
        // The places of the given bytes in the send buffer, and of the received bytes in the
        // receive buffer.
        let given = parts(send_lists, mine.len());
        let taken = parts(recv_lists, call.taken(rank, size));
        let place = operand_in_recv(call, rank, &taken, mine.len());
        let keeps_own =
            call.in_place && call.collective == Collective::Scatter && rank == call.root;
        let mut initial = vec![0x33; end(&taken).max(place.as_ref().map_or(0, end))];
        if let Some(place) = &place {
            lay(&mut initial, mine, place);
        }
        let mut wanted = initial.clone();
        if !keeps_own {
            lay(&mut wanted, &call.result(operands, rank, &initial), &taken);
        }
        let sent = place.is_none().then(|| {
            let mut sent = vec![0x44; end(&given)];
            lay(&mut sent, mine, &given);
            sent
        });
        Contents {
            sent,
            initial,
            wanted,
            keeps_own,
        }
    }
}

impl Running {
    /// Calls the collective. `stream` is the same on every rank of the communicator.
    pub(super) fn start(
        comm: &Comm,
        call: &Call,
        form: Form,
        stream: &Random,
    ) -> Result<Running, Failure> {
        Self::start_on(None, comm, call, form, stream)
    }

    /// As [`start`](Self::start), with one buffer or both on the device, under one of the three
    /// names.
    fn start_on(
        devices: Option<&Arc<Devices>>,
        comm: &Comm,
        call: &Call,
        form: Form,
        stream: &Random,
    ) -> Result<Running, Failure> {
        let (rank, size) = (comm.rank(), comm.size());
        let operands: Vec<Vec<u8>> = (0..size)
            .map(|rank| call.operand(stream, rank, size))
            .collect();
        let counts = call.counts(size);
        let (send_lists, recv_lists) = (call.send_lists(rank, size), call.recv_lists(rank, size));
        let contents = Contents::of(call, rank, &operands, (&send_lists, &recv_lists));
        let in_place = contents.sent.is_none();
        // The bytes behind the result of an in-place reduce_scatter are undefined.
        let rest = end(&parts(&recv_lists, call.taken(rank, size)));
        let args = CollArgs {
            count: call.own_count(rank),
            counts: &counts,
            datatype: call.datatype,
            op: call.op,
            root: call.root,
            send_blocks: send_lists.blocks(),
            recv_blocks: recv_lists.blocks(),
            ..CollArgs::default()
        };
        let what = format!("{call:?} at rank {rank} of {size}");
        let running = Running::launch(
            devices,
            comm,
            (call.collective, form, what),
            stream,
            contents,
            args,
        )?;
        running.without_rest(call, in_place, rest)
    }

    /// Calls a collective with these arguments and buffers of these contents.
    pub(super) fn launch(
        devices: Option<&Arc<Devices>>,
        comm: &Comm,
        (collective, form, what): (Collective, Form, String),
        stream: &Random,
        contents: Contents,
        args: CollArgs<'_>,
    ) -> Result<Running, Failure> {
        let rank = comm.rank();
        let offset = stream.fork(1 << 40 | rank as u64).below(8);
        let in_place = contents.sent.is_none();
        let mut recv = guarded(offset, &contents.initial);
        let wanted_recv = guarded(offset, &contents.wanted);
        let send = guarded(offset, &contents.sent.unwrap_or_default());
        // Both buffers under each name, the send buffer alone, or the receive buffer alone.
        let turn = stream.fork(2 << 40 | rank as u64).below(5);
        let on_device = |alone: usize| devices.filter(|_| turn < 3 || turn == alone);
        let way = turn % 3;
        let send_there = on_device(3).map(|d| there(d, &send, way)).transpose()?;
        let recv_there = on_device(4).map(|d| there(d, &recv, way)).transpose()?;
        let recv_at = match &recv_there {
            _ if contents.keeps_own => std::ptr::null_mut(),
            Some(buffer) => buffer.pointer(offset)?,
            // SAFETY: the offset lies in the buffer.
            None => unsafe { recv.as_mut_ptr().add(offset) },
        };
        let send_at = match &send_there {
            _ if in_place => std::ptr::null(),
            Some(buffer) => buffer.pointer(offset)?.cast_const(),
            // SAFETY: the offset lies in the buffer.
            None => unsafe { send.as_ptr().add(offset) },
        };
        let is_marked = |buffer: &Option<DeviceBuffer>| {
            let buffer = buffer.as_ref();
            buffer.is_some_and(DeviceBuffer::is_marked)
        };
        let args = CollArgs {
            send: send_at,
            recv: recv_at,
            on_device: turn < 3 && is_marked(&send_there) && is_marked(&recv_there),
            ..args
        };
        // SAFETY: the buffers have room for the call's data, and live until the request has ended:
        // `Running` keeps both, and its drop waits.
        let under_way = unsafe { form.begin(comm, collective, &args)? };
        Ok(Running {
            what,
            wanted_send: send.clone(),
            send,
            recv,
            offset,
            wanted_recv,
            send_there,
            recv_there,
            under_way,
        })
    }

    /// Excludes the bytes behind the result of an in-place reduce_scatter from the comparison.
    fn without_rest(
        mut self,
        call: &Call,
        in_place: bool,
        result: usize,
    ) -> Result<Running, Failure> {
        if call.collective == Collective::ReduceScatter
            && in_place
            && matches!(self.under_way, UnderWay::Done)
        {
            self.fetch()?;
            let start = self.offset + result;
            let end = self.recv.len() - GUARD;
            if start < end {
                let found = self.recv[start..end].to_vec();
                self.wanted_recv[start..end].copy_from_slice(&found);
            }
        }
        Ok(self)
    }

    /// Reads the buffers on the device.
    fn fetch(&mut self) -> Outcome {
        if let Some(buffer) = &self.send_there {
            buffer.read(0, &mut self.send)?;
        }
        if let Some(buffer) = &self.recv_there {
            buffer.read(0, &mut self.recv)?;
        }
        Ok(())
    }

    /// Whether the collective has ended, without waiting.
    pub(super) fn test(&mut self) -> Result<bool, Failure> {
        match &mut self.under_way {
            UnderWay::Done => Ok(true),
            UnderWay::Request(request) => Ok(request.test()?),
        }
    }

    /// Waits, and compares.
    pub(super) fn finish(mut self) -> Outcome {
        match std::mem::replace(&mut self.under_way, UnderWay::Done) {
            UnderWay::Done => {}
            UnderWay::Request(request) => request.wait()?,
        }
        self.fetch()?;
        same(
            &format!("{}: send buffer", self.what),
            &self.send,
            &self.wanted_send,
        )?;
        same(
            &format!("{}: receive buffer", self.what),
            &self.recv,
            &self.wanted_recv,
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Dropped before the buffers.
        self.under_way = UnderWay::Done;
    }
}

/// Runs one collective from begin to end.
pub(super) fn once(context: &Context<'_>, comm: &Comm, call: &Call, form: Form) -> Outcome {
    let stream = Random::new(context.seed, context.name, comm.size() as u64);
    let devices = context.on_device.then(|| context.job.devices());
    Running::start_on(devices, comm, call, form, &stream)?.finish()
}
