//! The mode: selects whether a blocking call blocks the process, the thread or the task. The
//! program chooses by `OMP_EXTERNAL` or [`set_external`].
//!
//! The choice holds for the whole process. The choice is made before the first job is joined, and never
//! changes afterwards.

use std::sync::atomic::{AtomicU8, Ordering};

/// The object that a blocking call blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Only the master thread makes blocking calls, and a wait is a loop of progress calls.
    Master = 0,
    /// Any thread makes blocking calls. A waiting thread sleeps while another thread makes
    /// progress.
    Thread = 1,
    /// Any task makes blocking calls. A waiting task leaves its thread to other tasks.
    Task = 2,
}

impl Mode {
    /// The mode that a value of `OMP_EXTERNAL` names, in lower case or capitalised.
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

    /// The mode whose discriminant is `code`.
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

/// The program has not chosen a mode.
const NONE: u8 = 0x40;
/// The bit that is set once a job was joined.
const FIXED: u8 = 0x80;

static CHOICE: AtomicU8 = AtomicU8::new(NONE);
/// The mode of the job that was joined last.
static USED: AtomicU8 = AtomicU8::new(NONE);
/// The bit in [`USED`] that says that the program asked for task mode and the job uses another
/// mode.
const REFUSED: u8 = 0x20;

fn of(choice: u8) -> Option<Mode> {
    Mode::from_code((choice & !(FIXED | REFUSED)).into())
}

fn from_environment() -> Option<Mode> {
    Mode::from_name(std::env::var(EXTERNAL_ENV).ok()?.trim())
}

/// Chooses the mode; the choice overrides the environment. False, and without effect, if a job was
/// already joined.
pub fn set_external(mode: Mode) -> bool {
    CHOICE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |choice| {
            (choice & FIXED == 0).then_some(mode as u8)
        })
        .is_ok()
}

/// The mode in use; before a job was joined, the mode that a job would use. The order is: the mode
/// that was set, the environment's, the mode of the thread level, which counts as [`Mode::Thread`]
/// while the level is unknown.
pub fn external() -> Mode {
    of(USED.load(Ordering::Relaxed))
        .or_else(|| of(CHOICE.load(Ordering::Relaxed)))
        .or_else(from_environment)
        .unwrap_or(Mode::Thread)
}

/// Fixes the choice. Returns the mode and whether it was chosen: by [`set_external`] or the
/// environment; otherwise the mode is `otherwise`. Warns if the environment variable names no mode.
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

/// Records the mode that the job uses, which differs from `asked` if the job cannot support that
/// mode.
pub(super) fn uses(mode: Mode, asked: Mode) {
    let refused = if mode == asked { 0 } else { REFUSED };
    USED.store(mode as u8 | refused, Ordering::Relaxed);
}

/// Whether the job that was joined last uses another mode than the program asked for.
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

    /// One test covers all cases, because the choice belongs to the process.
    #[test]
    fn the_choice_is_kept_once_it_was_fixed() {
        // Other tests of this process may have joined a job before.
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
