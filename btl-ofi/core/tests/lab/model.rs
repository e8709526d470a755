//! The effects of operations on the words of a slot, computed independently of the transport.

use std::ffi::c_void;

use btl_ofi::{Arithmetic, Transport};
use plugin_api::{BtlAtomicOp, Status};

use super::said::Outcome;

/// Words of a slot.
pub(crate) const SLOT: usize = 8;

pub(super) type Words = [u64; SLOT];

/// The expected effect of an operation on its slot.
pub(super) struct Issued {
    pub(super) what: String,
    pub(super) slot: usize,
    /// The slot after the operation.
    pub(super) then: Words,
    /// The slot after the first part of an operation whose second part failed.
    pub(super) half: Option<Words>,
    /// The expected beginning of the result buffer.
    pub(super) fetched: Vec<u8>,
    /// Operands and result, at fixed addresses until completion.
    pub(super) source: Box<Words>,
    pub(super) result: Box<Words>,
    pub(super) outcome: Option<Box<Outcome>>,
    /// The status, if the post was refused.
    pub(super) refused: Option<Status>,
}

impl Issued {
    pub(super) fn result_begins(&self) -> bool {
        bytes(&self.result[..]).starts_with(&self.fetched)
    }
}

/// The code of the target's function.
pub(super) const ADD_BYTES: u32 = 3;

/// Registers the arithmetic of judges' applies with a target.
pub(crate) fn serve_applies(target: &Transport) {
    target.on_apply(Some(Arithmetic {
        function: add_bytes,
        context: std::ptr::null_mut(),
    }));
}

/// Adds bytewise.
///
/// # Safety
/// There are `count` elements of `size` bytes, and as many operands.
unsafe extern "C" fn add_bytes(
    _: *mut c_void,
    code: u32,
    size: usize,
    elements: *mut c_void,
    operands: *const c_void,
    count: usize,
) -> Status {
    assert_eq!(code, ADD_BYTES);
    for i in 0..count * size {
        // SAFETY: the caller guarantees this number of bytes.
        unsafe {
            let at = elements.cast::<u8>().add(i);
            *at = at.read().wrapping_add(*operands.cast::<u8>().add(i));
        }
    }
    Status::SUCCESS
}

pub(super) fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

pub(super) fn arithmetic(op: BtlAtomicOp, a: u64, b: u64, narrow: bool) -> u64 {
    let truth = u64::from;
    let signed = |v: u64| {
        if narrow {
            i64::from(v as i32)
        } else {
            v as i64
        }
    };
    match op {
        BtlAtomicOp::Add => a.wrapping_add(b),
        BtlAtomicOp::And => a & b,
        BtlAtomicOp::Or => a | b,
        BtlAtomicOp::Xor => a ^ b,
        BtlAtomicOp::Land => truth(a != 0 && b != 0),
        BtlAtomicOp::Lor => truth(a != 0 || b != 0),
        BtlAtomicOp::Lxor => truth((a != 0) != (b != 0)),
        BtlAtomicOp::Swap => b,
        BtlAtomicOp::Min if signed(b) < signed(a) => b,
        BtlAtomicOp::Max if signed(b) > signed(a) => b,
        BtlAtomicOp::Min | BtlAtomicOp::Max => a,
    }
}

/// `word` with its first four bytes, or all eight bytes, replaced.
pub(super) fn replace(word: u64, value: u64, narrow: bool) -> u64 {
    let mut new = word.to_ne_bytes();
    if narrow {
        new[..4].copy_from_slice(&(value as u32).to_ne_bytes());
    } else {
        new = value.to_ne_bytes();
    }
    u64::from_ne_bytes(new)
}

pub(super) fn first(word: u64, narrow: bool) -> u64 {
    if narrow {
        u64::from(ptr_half(word))
    } else {
        word
    }
}

fn ptr_half(word: u64) -> u32 {
    let b = word.to_ne_bytes();
    u32::from_ne_bytes([b[0], b[1], b[2], b[3]])
}

pub(super) fn from_bytes(bytes: &[u8]) -> Words {
    std::array::from_fn(|i| {
        let word = &bytes[i * 8..i * 8 + 8];
        u64::from_ne_bytes(word.try_into().unwrap())
    })
}
