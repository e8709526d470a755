//! Medians and other quantiles.

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
