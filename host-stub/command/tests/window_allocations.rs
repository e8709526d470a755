//! Window calls allocate nothing with warm pools. The global allocator counts, over the C plugin,
//! whose own memory does not count. (`allocations.rs` of core counts the transport's.)
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::counting::{Counting, allocations};
use host_stub::win::{Assertion, Datatype, Layout, Op, Request, Target, Window};
use host_stub::{Job, JobOptions};
use integration_tests::fixtures::c_plugin;

#[global_allocator]
static GLOBAL: Counting = Counting;

const WORDS: usize = 64;

/// Every call that transfers or updates, with a flush, and requests.
fn calls(window: &Window, buffers: &mut [[u64; WORDS]; 2]) {
    let row = Layout::contiguous(Datatype::Int64, WORDS / 4);
    let gaps = Layout::strided(Datatype::Int64, WORDS / 8, 2, 4).expect("a layout");
    let target = |layout| Target {
        rank: 0,
        displacement: 0,
        layout,
    };
    let [from, into] = buffers;
    let (from, into) = (
        from.as_mut_ptr().cast::<u8>(),
        into.as_mut_ptr().cast::<u8>(),
    );
    // SAFETY: the buffers hold the layouts, do not overlap, and are not accessed until after the
    // flush.
    let requests = unsafe {
        window.put(from, &row, target(&row)).expect("put");
        window.put(from, &row, target(&gaps)).expect("strided put");
        window.get(into, &gaps, target(&row)).expect("strided get");
        window
            .accumulate(from, &row, target(&row), Op::Sum)
            .expect("accumulate");
        window
            .get_accumulate(from, &row, into, &row, target(&gaps), Op::Max)
            .expect("get_accumulate");
        window
            .fetch_and_op(from, into, Datatype::Int64, 0, 0, Op::Sum)
            .expect("fetch_and_op");
        window
            .compare_and_swap(from, from.add(8), into, Datatype::Int64, 0, 8)
            .expect("compare_and_swap");
        [
            window.rput(from, &row, target(&row)).expect("rput"),
            window.rget(into, &row, target(&row)).expect("rget"),
        ]
    };
    Request::wait_all(requests).expect("wait");
    window.flush(0).expect("flush");
}

#[test]
fn calls_allocate_nothing_after_the_first() {
    // SAFETY: the plugin is built with these tests.
    let options = unsafe { JobOptions::default().plugin(c_plugin("")) };
    let job = Job::init(options).expect("a job of one");
    let window = Window::allocate(&job, WORDS * 8, 1).expect("window");
    let mut buffers = [[1; WORDS]; 2];
    window.lock_all(Assertion::empty()).expect("lock_all");
    calls(&window, &mut buffers);
    let before = allocations();
    for _ in 0..1000 {
        calls(&window, &mut buffers);
    }
    assert_eq!(allocations() - before, 0);
    window.unlock_all().expect("unlock_all");
    window.free().expect("free");
    job.finalize().expect("finalize");
}
