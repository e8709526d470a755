//! Several threads post, and several make progress.

use super::*;

/// Several threads post, several make progress at each end; callbacks once each.
#[test]
fn threads() {
    const EACH: u32 = 5000;
    let a = open(near(), ThreadLevel::Multiple, &[]);
    let b = open(near(), ThreadLevel::Multiple, &[]);
    let mut window = [0u64; 1];
    let region = register(&b, &mut window, ALL);
    let h = region.handle();
    let peer = a.connect(b.address(), 0).unwrap().as_ptr() as usize;
    let (called, status) = (AtomicU32::new(0), AtomicI32::new(0));
    let mut old = vec![0u64; 3 * EACH as usize];
    attended(&b, || {
        attended(&b, || {
            thread::scope(|s| {
                for mine in old.chunks_mut(EACH as usize) {
                    let with = Completion {
                        function: tell,
                        context: ptr::from_ref(&status).cast_mut().cast(),
                        data: ptr::from_ref(&called).cast_mut().cast(),
                    };
                    let (context, data) = (with.context as usize, with.data as usize);
                    let (a, h) = (&a, &h);
                    s.spawn(move || {
                        let with = Completion {
                            function: tell,
                            context: context as *mut c_void,
                            data: data as *mut c_void,
                        };
                        let peer = NonNull::new(peer as *mut Endpoint).unwrap();
                        for out in mine {
                            insist(a, || add(a, peer, h, out, 1, Some(with)));
                        }
                        assert_eq!(a.flush(None), Status::SUCCESS);
                    });
                }
            });
        });
    });
    assert_eq!(called.load(Ordering::Relaxed), 3 * EACH);
    assert_eq!(status.load(Ordering::Relaxed), 0);
    for mine in old.chunks(EACH as usize) {
        assert!(mine.is_sorted(), "a thread's additions keep their order");
    }
    old.sort_unstable();
    assert!(old == (0..3 * u64::from(EACH)).collect::<Vec<_>>());
    assert_eq!(window[0], 3 * u64::from(EACH));
    region.close().unwrap();
    a.close().unwrap();
    b.close().unwrap();
}
