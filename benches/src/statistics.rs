//! Medians and other quantiles.

use serde::{Deserialize, Serialize};

/// The quantile `q` of the values; NaN without values. Sorts the values.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * q).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The median of the values; NaN without values.
pub fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// The quartiles at a quarter and at three quarters.
pub fn spread(values: &mut [f64]) -> (f64, f64) {
    (quantile(values, 0.25), quantile(values, 0.75))
}

/// A median with the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The middle value.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
}

impl Figure {
    /// The figure of some values; all parts are NaN without values.
    pub fn of(mut values: Vec<f64>) -> Figure {
        let (low, high) = spread(&mut values);
        Figure {
            median: quantile(&mut values, 0.5),
            low,
            high,
        }
    }

    /// The quartiles, as a target's spread.
    pub fn spread(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}
