//! The mode: selects what a blocking call blocks. The program chooses by `OMP_EXTERNAL` or
//! [`set_external`].
//!
//! The choice holds for the whole process. It is made before the first job is joined, and never
//! changes afterwards.

use std::sync::atomic::{AtomicU8, Ordering};

/// What a blocking call blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Only the master thread makes blocking calls, and a wait is a loop of progress.
    Master = 0,
    /// Any thread makes blocking calls. One that waits sleeps while another makes progress.
    Thread = 1,
    /// Any task makes blocking calls. One that waits leaves its thread to other tasks.
    Task = 2,
}

impl Mode {
    /// The mode that a value of `OMP_EXTERNAL` names: lower case or capitalised.
    pub fn from_name(name: &str) -> Option<Mode> {
        Some(match name {
            "master" | "Master" | "MASTER" => Mode::Master,
            "thread" | "Thread" | "THREAD" => Mode::Thread,
            "task" | "Task" | "TASK" => Mode::Task,
            _ => return None,
        })
    }

    /// The value of `OMP_EXTERNAL` that names the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Master => "master",
            Mode::Thread => "thread",
            Mode::Task => "task",
        }
    }

    /// The mode with a number of [`Mode`].
    pub const fn from_code(code: i32) -> Option<Mode> {
        Some(match code {
            0 => Mode::Master,
            1 => Mode::Thread,
            2 => Mode::Task,
            _ => return None,
        })
    }
}

/// The environment variable.
pub const EXTERNAL_ENV: &str = "OMP_EXTERNAL";

/// Nothing chosen yet.
const NONE: u8 = 0x40;
/// Set once a job was joined.
const FIXED: u8 = 0x80;

static CHOICE: AtomicU8 = AtomicU8::new(NONE);
/// The mode of the job joined last.
static USED: AtomicU8 = AtomicU8::new(NONE);
/// Set in [`USED`] where task mode was asked for, and is not what the job uses.
const REFUSED: u8 = 0x20;

fn of(choice: u8) -> Option<Mode> {
    Mode::from_code((choice & !(FIXED | REFUSED)).into())
}

fn from_environment() -> Option<Mode> {
    Mode::from_name(std::env::var(EXTERNAL_ENV).ok()?.trim())
}

/// Chooses the mode, above the environment. False, and without effect, once a job was joined.
pub fn set_external(mode: Mode) -> bool {
    CHOICE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |choice| {
            (choice & FIXED == 0).then_some(mode as u8)
        })
        .is_ok()
}

/// The mode that is used, or before a job was joined would be: the one set, else the environment's,
/// else what the thread level asks for, which is [`Mode::Thread`] as long as it is not known.
pub fn external() -> Mode {
    of(USED.load(Ordering::Relaxed))
        .or_else(|| of(CHOICE.load(Ordering::Relaxed)))
        .or_else(from_environment)
        .unwrap_or(Mode::Thread)
}

/// Fixes the choice, and gives the mode: what was chosen by [`set_external`] or by the environment,
/// else `otherwise`; and whether it was chosen. Warns of a variable that names no mode.
pub(super) fn fix(otherwise: Mode) -> (Mode, bool) {
    let environment = from_environment();
    let fix = |choice| match of(choice) {
        None if choice & FIXED == 0 => environment.map_or(NONE, |mode| mode as u8) | FIXED,
        _ => choice | FIXED,
    };
    let before = CHOICE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |choice| {
            Some(fix(choice))
        })
        .unwrap_or_else(|choice| choice);
    let chosen = of(fix(before));
    let mode = chosen.unwrap_or(otherwise);
    if chosen.is_none()
        && let Some(value) = std::env::var_os(EXTERNAL_ENV)
    {
        tracing::warn!(
            "{EXTERNAL_ENV}={}: wanted master, thread or task; it has no effect, and the mode is {}",
            value.to_string_lossy(),
            mode.name()
        );
    }
    (mode, chosen.is_some())
}

/// Says which mode the job uses of the one asked for: another where that one cannot be kept.
pub(super) fn uses(mode: Mode, asked: Mode) {
    let refused = if mode == asked { 0 } else { REFUSED };
    USED.store(mode as u8 | refused, Ordering::Relaxed);
}

/// Whether the job joined last uses another mode than was asked for.
pub(super) fn was_refused() -> bool {
    let used = USED.load(Ordering::Relaxed);
    used != NONE && used & REFUSED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_or_capitalised() {
        for mode in [Mode::Master, Mode::Thread, Mode::Task] {
            let name = mode.name();
            assert_eq!(Mode::from_name(name), Some(mode));
            assert_eq!(Mode::from_name(&name.to_uppercase()), Some(mode));
            let capital = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
            assert_eq!(Mode::from_name(&capital), Some(mode));
            assert_eq!(Mode::from_code(mode as i32), Some(mode));
        }
        for wrong in ["", "nonsense", "tasks", "mAsTeR", "0"] {
            assert_eq!(Mode::from_name(wrong), None);
        }
        assert_eq!(Mode::from_code(3), None);
        assert_eq!(Mode::from_code(-1), None);
    }

    /// One test, because the choice is the process's.
    #[test]
    fn the_choice_is_kept_once_it_was_fixed() {
        // As other tests of this process may have joined a job before.
        if CHOICE.swap(NONE, Ordering::Relaxed) & FIXED != 0 {
            USED.store(NONE, Ordering::Relaxed);
        }
        assert!(set_external(Mode::Task));
        assert!(set_external(Mode::Master));
        assert_eq!(fix(Mode::Thread), (Mode::Master, true));
        assert!(!set_external(Mode::Task));
        uses(Mode::Master, Mode::Master);
        assert_eq!((external(), was_refused()), (Mode::Master, false));
        uses(Mode::Thread, Mode::Task);
        assert_eq!((external(), was_refused()), (Mode::Thread, true));
        assert_eq!(fix(Mode::Thread), (Mode::Master, true));
    }
}
