//! Variables of the environment.

use std::env;

/// The number in a variable, or a default.
pub(crate) fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    let value = env::var(name).ok();
    value.and_then(|v| v.trim().parse().ok()).unwrap_or(default)
}

/// The words of a list.
pub(crate) fn words(name: &str) -> Vec<String> {
    let value = env::var(name).unwrap_or_default();
    let words = value.split(',').map(str::trim).filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}
