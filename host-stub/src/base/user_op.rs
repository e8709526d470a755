//! Operations that a program defines for its reductions.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Combines elements: `right[i] = left[i] op right[i]` for `count` elements of `size` bytes each. The operation is
/// associative. Any thread that makes progress calls it, and it calls nothing of the host. Elements lie in memory of the
/// host, at addresses that are multiples of their size if the size is a power of two up to 8 and the buffers of the collective
/// are aligned so.
pub type UserFunction = unsafe extern "C" fn(
    left: *const c_void,
    right: *mut c_void,
    count: usize,
    size: usize,
    data: *mut c_void,
);

struct Entry {
    function: UserFunction,
    data: *mut c_void,
    commutes: bool,
    number: usize,
    /// Creations less releases.
    users: AtomicUsize,
}

// SAFETY: the creator vouches that any thread may call the function with the data.
unsafe impl Sync for Entry {}

/// Every operation that was created. One that was freed stays, since collectives under way may use it, and is found
/// again when the same is created, so that a program that creates and frees in a loop does not make the list longer.
static ALL: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<&'static Entry>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that a program has defined (MPI_Op_create). Copies are the same operation.
#[derive(Clone, Copy)]
pub struct UserOp(&'static Entry);

impl UserOp {
    /// Defines an operation, or counts one more use of the same function with the same data. `commutes` says that operands
    /// may be combined in any order; without it they are combined in the order of the ranks.
    ///
    /// # Safety
    /// The function can be called with `data`, by any thread, until the operation was freed as often as created and every
    /// collective that uses it is done.
    pub unsafe fn create(function: UserFunction, data: *mut c_void, commutes: bool) -> UserOp {
        let mut all = all();
        let same = all.iter().find(|entry| {
            entry.function as usize == function as usize
                && ptr::eq(entry.data, data)
                && entry.commutes == commutes
        });
        let entry = match same {
            Some(entry) => *entry,
            None => {
                let entry: &'static Entry = Box::leak(Box::new(Entry {
                    function,
                    data,
                    commutes,
                    number: all.len(),
                    users: AtomicUsize::new(0),
                }));
                all.push(entry);
                entry
            }
        };
        // The lock orders this with `free`.
        entry.users.fetch_add(1, Ordering::Relaxed);
        UserOp(entry)
    }

    /// Ends one use; after the last, new collectives refuse the operation. False: it had ended before.
    pub fn free(self) -> bool {
        let _all = all();
        let users = self.0.users.load(Ordering::Relaxed);
        self.0
            .users
            .store(users.saturating_sub(1), Ordering::Relaxed);
        users > 0
    }

    /// Whether it was created more often than freed.
    pub fn is_live(self) -> bool {
        self.0.users.load(Ordering::Relaxed) > 0
    }

    /// Whether operands may be combined in any order.
    pub fn commutes(self) -> bool {
        self.0.commutes
    }

    /// Its number in this process, which [`UserOp::numbered`] finds it by.
    pub fn number(self) -> usize {
        self.0.number
    }

    /// The operation of a number.
    pub fn numbered(number: usize) -> Option<UserOp> {
        all().get(number).copied().map(UserOp)
    }

    /// `into[i] = left[i] op right[i]`.
    ///
    /// # Safety
    /// As for [`combine_into`](crate::schedule::combine_into), with elements of `size` bytes.
    pub(crate) unsafe fn apply(
        self,
        left: *const u8,
        right: *const u8,
        into: *mut u8,
        (count, size): (usize, usize),
    ) {
        let bytes = count * size;
        // SAFETY: the creator vouches for the function, the caller for the buffers.
        let call = |left: *const u8, right: *mut u8| unsafe {
            (self.0.function)(left.cast(), right.cast(), count, size, self.0.data);
        };
        // The function puts its result where its right operand is.
        if ptr::eq(right, into) {
            call(left, into);
        } else if ptr::eq(left, into) {
            let mut result = vec![0u128; bytes.div_ceil(16)];
            let result: *mut u8 = result.as_mut_ptr().cast();
            // SAFETY: the result has room for the elements; the caller vouches for the other buffers.
            unsafe {
                ptr::copy_nonoverlapping(right, result, bytes);
                call(left, result);
                ptr::copy_nonoverlapping(result, into, bytes);
            }
        } else {
            // SAFETY: the caller vouches for buffers that do not overlap.
            unsafe { ptr::copy_nonoverlapping(right, into, bytes) };
            call(left, into);
        }
    }
}

impl PartialEq for UserOp {
    fn eq(&self, other: &UserOp) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Eq for UserOp {}

impl std::fmt::Debug for UserOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UserOp({})", self.0.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `right = 3 left + right + data`, which does not commute.
    unsafe extern "C" fn mix(
        left: *const c_void,
        right: *mut c_void,
        count: usize,
        size: usize,
        data: *mut c_void,
    ) {
        assert_eq!(size, 4);
        let (left, right) = (left.cast::<u32>(), right.cast::<u32>());
        for at in 0..count {
            // SAFETY: the tests give so many numbers.
            unsafe {
                let value = 3 * left.add(at).read() + right.add(at).read() + data.addr() as u32;
                right.add(at).write(value);
            }
        }
    }

    #[test]
    fn the_result_goes_where_it_is_wanted() {
        let data = ptr::without_provenance_mut(1000);
        // SAFETY: the function follows no data.
        let op = unsafe { UserOp::create(mix, data, false) };
        let (left, right, wanted) = ([1u32, 2], [10u32, 20], [1013u32, 1026]);
        let bytes = |numbers: &[u32; 2]| numbers.as_ptr().cast::<u8>();
        let [mut elsewhere, mut on_left, mut on_right] = [[0; 2], left, right];
        // SAFETY: the buffers have two elements.
        unsafe {
            let into = elsewhere.as_mut_ptr().cast();
            op.apply(bytes(&left), bytes(&right), into, (2, 4));
            let into: *mut u8 = on_left.as_mut_ptr().cast();
            op.apply(into, bytes(&right), into, (2, 4));
            let into: *mut u8 = on_right.as_mut_ptr().cast();
            op.apply(bytes(&left), into, into, (2, 4));
        }
        assert_eq!([elsewhere, on_left, on_right], [wanted; 3]);
        assert!(op.free());
    }

    #[test]
    fn the_same_operation_is_one_and_ends_with_its_last_use() {
        let data = ptr::without_provenance_mut(1);
        // SAFETY: as above.
        let (one, other) = unsafe {
            (
                UserOp::create(mix, data, false),
                UserOp::create(mix, data, false),
            )
        };
        assert_eq!(one, other);
        // SAFETY: as above.
        let commuting = unsafe { UserOp::create(mix, data, true) };
        assert_ne!(one, commuting);
        assert_eq!(UserOp::numbered(one.number()), Some(one));
        assert!(one.free() && one.is_live());
        assert!(other.free() && !one.is_live());
        assert!(!one.free());
        assert!(commuting.free());
    }
}
