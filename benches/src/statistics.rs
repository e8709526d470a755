//! Medians and other quantiles.

use serde::{Deserialize, Serialize};

/// The value below which the part `q` of the values lies; NaN of none. Sorts them.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * q).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The middle value; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// The quarter and three-quarter marks.
pub fn spread(values: &mut [f64]) -> (f64, f64) {
    (quantile(values, 0.25), quantile(values, 0.75))
}

/// A median with the marks between which half of the values lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The middle value.
    pub median: f64,
    /// The quarter mark.
    pub low: f64,
    /// The three-quarter mark.
    pub high: f64,
}

impl Figure {
    /// Of some values; all parts are NaN of none.
    pub fn of(mut values: Vec<f64>) -> Figure {
        let (low, high) = spread(&mut values);
        Figure {
            median: quantile(&mut values, 0.5),
            low,
            high,
        }
    }

    /// The marks, as a target's spread.
    pub fn spread(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}
