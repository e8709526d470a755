//! Targets of measurements, and whether measurements reached their targets.

use serde::{Deserialize, Serialize};

/// The side of the target on which a value has to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// The value must be at most the target.
    #[serde(rename = "at most")]
    Most,
    /// The value must be at least the target.
    #[serde(rename = "at least")]
    Least,
}

impl Bound {
    /// The text in the table.
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
    /// The name of the measured value.
    pub name: String,
    /// The measured value. `None` means not measured, and counts as not met.
    pub value: Option<f64>,
    /// The side on which a value has to lie.
    pub bound: Bound,
    /// The value to reach.
    pub target: f64,
    /// The unit of the value and the target.
    pub unit: String,
    /// Whether the target was reached.
    pub met: bool,
    /// The range of half of the measured values, or of all if they are few.
    pub spread: Option<(f64, f64)>,
}

impl Target {
    /// Judges a value. The value reaches its target if the nearer end of its spread does, because turns differ by chance.
    pub fn new(
        name: String,
        value: Option<f64>,
        bound: Bound,
        target: f64,
        unit: &str,
        spread: Option<(f64, f64)>,
    ) -> Target {
        let (least, most) = (spread.map(|(least, _)| least), spread.map(|(_, most)| most));
        let met = value.is_some_and(|value| match bound {
            Bound::Most => least.unwrap_or(value) <= target,
            Bound::Least => most.unwrap_or(value) >= target,
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
