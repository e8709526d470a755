//! What is to be reached, and whether it was.

use serde::{Deserialize, Serialize};

/// Which side of the target a value has to lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// No more than the target.
    #[serde(rename = "at most")]
    Most,
    /// No less than it.
    #[serde(rename = "at least")]
    Least,
}

impl Bound {
    /// As the table says it.
    pub fn text(self) -> &'static str {
        match self {
            Bound::Most => "at most",
            Bound::Least => "at least",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// What was measured.
    pub name: String,
    /// The measured value. `None` means not measured, and counts as not met.
    pub value: Option<f64>,
    /// Which side.
    pub bound: Bound,
    /// What is to be reached.
    pub target: f64,
    /// Of the value and the target.
    pub unit: String,
    /// Whether it was reached.
    pub met: bool,
    /// Where half of the measured values lie, or all of few.
    pub spread: Option<(f64, f64)>,
}

impl Target {
    /// Judges a value.
    pub fn new(
        name: String,
        value: Option<f64>,
        bound: Bound,
        target: f64,
        unit: &str,
        spread: Option<(f64, f64)>,
    ) -> Target {
        let met = value.is_some_and(|value| match bound {
            Bound::Most => value <= target,
            Bound::Least => value >= target,
        });
        Target {
            name,
            value,
            bound,
            target,
            unit: unit.into(),
            met,
            spread,
        }
    }
}
