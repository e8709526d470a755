//! Curves over size, both axes logarithmic.

use std::path::Path;

use plotters::prelude::*;

use crate::series::Series;

const COLOURS: [RGBColor; 7] = [
    RGBColor(90, 90, 90),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws one operation's curves of all ways. Without any, no file is written; says
/// whether one was.
pub(crate) fn draw(
    path: &Path,
    series: &[Series],
    provider: &str,
    operation: &str,
    measure: &str,
) -> Result<bool, String> {
    let wanted: Vec<&Series> = series
        .iter()
        .filter(|s| (&*s.provider, &*s.operation, &*s.measure) == (provider, operation, measure))
        .collect();
    let points = || wanted.iter().flat_map(|s| &s.points);
    let (Some(least), Some(most)) = (
        points().map(|p| p.value.median).reduce(f64::min),
        points().map(|p| p.value.median).reduce(f64::max),
    ) else {
        return Ok(false);
    };
    let largest = points().map(|p| p.bytes).max().unwrap_or(2).max(2);
    render(
        path,
        &wanted,
        (1.0..largest as f64, least / 1.5..most * 1.5),
        &title(provider, operation, measure),
    )
    .map(|()| true)
    .map_err(|e| format!("{}: {e}", path.display()))
}

fn title(provider: &str, operation: &str, measure: &str) -> String {
    let unit = if measure == "latency" { "ns" } else { "B/s" };
    format!("{operation} over {provider}: {measure} ({unit}) over size (bytes)")
}

fn render(
    path: &Path,
    wanted: &[&Series],
    (sizes, values): (std::ops::Range<f64>, std::ops::Range<f64>),
    title: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    // Powers of two, and not so many that their names run into each other.
    let ticks: Vec<f64> = (0..=40)
        .step_by(2)
        .map(|power| (1u64 << power) as f64)
        .filter(|tick| *tick <= sizes.end)
        .collect();
    let root = SVGBackend::new(path, (760, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(sizes.log_scale().with_key_points(ticks), values.log_scale())?;
    chart
        .configure_mesh()
        .x_labels(24)
        .x_label_formatter(&|x| size(*x))
        .y_label_formatter(&|y| format!("{y:.0e}"))
        .light_line_style(WHITE)
        .draw()?;
    for (s, colour) in wanted.iter().zip(COLOURS.iter().cycle()) {
        let points = s.points.iter().map(|p| (p.bytes as f64, p.value.median));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
            .label(&*s.way)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(180, 180, 180))
        .draw()?;
    root.present()?;
    Ok(())
}

fn size(bytes: f64) -> String {
    match bytes as u64 {
        b if b >= 1 << 20 => format!("{} Mi", b >> 20),
        b if b >= 1 << 10 => format!("{} Ki", b >> 10),
        b => b.to_string(),
    }
}
