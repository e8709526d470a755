//! Curves over size, both axes logarithmic.

use std::path::Path;

use host_stub_command::curves::{Curve, Panel, write_svg};

use crate::series::Series;

/// Draws one operation's curves of all ways. Without any, no file is written; says
/// whether one was.
pub(crate) fn draw(
    path: &Path,
    series: &[Series],
    provider: &str,
    operation: &str,
    measure: &str,
) -> Result<bool, String> {
    let wanted = series
        .iter()
        .filter(|s| (&*s.provider, &*s.operation, &*s.measure) == (provider, operation, measure));
    let curves = wanted.map(|s| Curve {
        name: s.way.clone(),
        points: s
            .points
            .iter()
            .map(|p| (p.bytes as u64, p.value.median))
            .collect(),
    });
    let panel = Panel {
        title: title(provider, operation, measure),
        curves: curves.collect(),
    };
    write_svg(path, &[panel])
}

fn title(provider: &str, operation: &str, measure: &str) -> String {
    let unit = if measure == "latency" { "ns" } else { "B/s" };
    format!("{operation} over {provider}: {measure} ({unit}) over size (bytes)")
}
