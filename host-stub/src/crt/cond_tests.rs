//! Tests of conditions alone. The tests are in a separate file, because the model checker's tests build
//! the conditions without them.

use std::time::Duration;

use super::cond::{Begun, Cond, Misuse};

fn wait(cond: &Cond) -> Result<(), Misuse> {
    match cond.begin(false)? {
        Begun::Over => {}
        Begun::Waiting(signal) => {
            cond.sleep(signal, None);
        }
    }
    Ok(())
}

#[test]
fn zero_bytes_are_a_new_condition() {
    const {
        assert!(size_of::<Cond>() == 16);
        assert!(align_of::<Cond>() == 8);
    }
    // SAFETY: the fields are integers and a pointer, for which zero is valid.
    let cond: Cond = unsafe { std::mem::zeroed() };
    assert!(cond.is_on());
    cond.raise().unwrap();
    wait(&cond).unwrap();
}

#[test]
fn two_signals_in_a_row_are_one() {
    let cond = Cond::new();
    cond.raise().unwrap();
    assert_eq!(cond.raise(), Err(Misuse::TwoSignals));
    wait(&cond).unwrap();
    // The condition kept only one signal.
    let Begun::Waiting(signal) = cond.begin(false).unwrap() else {
        panic!("a second signal was kept");
    };
    assert!(!cond.sleep(signal, Some(Duration::from_millis(1))));
    cond.raise().unwrap();
    assert!(cond.has_come(signal));
}

#[test]
fn two_waits_in_a_row_leave_the_first_waiting() {
    let cond = Cond::new();
    let Begun::Waiting(signal) = cond.begin(false).unwrap() else {
        panic!("signalled by nobody");
    };
    assert_eq!(wait(&cond), Err(Misuse::TwoWaits));
    assert!(!cond.is_on());
    cond.raise().unwrap();
    assert!(cond.sleep(signal, None));
}

#[test]
fn a_condition_in_use_is_not_destroyed() {
    let cond = Cond::new();
    let Begun::Waiting(signal) = cond.begin(false).unwrap() else {
        panic!("signalled by nobody");
    };
    assert_eq!(cond.destroy(), Err(Misuse::InUse));
    cond.raise().unwrap();
    assert!(cond.has_come(signal));
    cond.attach().unwrap();
    assert_eq!(cond.destroy(), Err(Misuse::InUse));
    cond.raise_attached().unwrap();
    cond.destroy().unwrap();
    assert_eq!(cond.destroy(), Err(Misuse::Destroyed));
    assert_eq!(cond.raise(), Err(Misuse::Destroyed));
    assert_eq!(wait(&cond), Err(Misuse::Destroyed));
    assert_eq!(cond.attach(), Err(Misuse::Destroyed));
    cond.renew().unwrap();
    cond.raise().unwrap();
    wait(&cond).unwrap();
}

#[test]
fn a_signal_knows_its_wait_when_the_count_wraps() {
    let cond = Cond::new();
    for _ in 0..(1 << 16) + 10 {
        let Begun::Waiting(signal) = cond.begin(false).unwrap() else {
            panic!("signalled by nobody");
        };
        cond.raise().unwrap();
        assert!(cond.sleep(signal, None));
    }
    assert!(cond.is_on() && !cond.is_attached());
}

#[test]
fn a_task_is_named_to_its_signaller() {
    let cond = Cond::new();
    let task = std::ptr::without_provenance_mut(0x40);
    let Begun::Waiting(signal) = cond.begin(true).unwrap() else {
        panic!("signalled by nobody");
    };
    assert!(cond.name_task(signal, task));
    // No hooks are set, so no task is resumed. The host logs this, and the wait is over.
    cond.raise().unwrap();
    assert!(cond.has_come(signal));
    cond.settle();
    assert!(cond.is_on());
    // The next signal comes before the wait.
    cond.raise().unwrap();
    assert_eq!(cond.raise(), Err(Misuse::TwoSignals));
    wait(&cond).unwrap();
    // The signal comes before the name.
    let Begun::Waiting(signal) = cond.begin(true).unwrap() else {
        panic!("signalled by nobody");
    };
    cond.raise().unwrap();
    assert!(!cond.name_task(signal, task));
}

#[test]
fn attachments_are_counted_and_bounded() {
    let cond = Cond::new();
    for _ in 0..4095 {
        cond.attach().unwrap();
    }
    assert_eq!(cond.attach(), Err(Misuse::TooMany));
    for _ in 0..4095 {
        cond.detach();
    }
    cond.destroy().unwrap();
}

#[test]
fn two_threads_alternate() {
    let (ping, pong) = (Cond::new(), Cond::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                wait(&ping).unwrap();
                pong.raise().unwrap();
            }
        });
        for _ in 0..20_000 {
            ping.raise().unwrap();
            wait(&pong).unwrap();
        }
    });
}
