//! Panels below each other in one SVG file.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Bounds, Panel, size};

const COLOURS: [RGBColor; 7] = [
    RGBColor(90, 90, 90),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
/// Of one panel.
const WIDTH: u32 = 760;
const HEIGHT: u32 = 460;

/// Draws those panels that have points. Without any, no file is written; says whether one was.
pub fn write_svg(path: &Path, panels: &[Panel]) -> Result<bool, String> {
    let drawn: Vec<_> = panels
        .iter()
        .filter_map(|panel| Some((panel, panel.bounds()?)))
        .collect();
    if drawn.is_empty() {
        return Ok(false);
    }
    let mut text = String::new();
    draw(&mut text, &drawn)
        .map_err(|error| error.to_string())
        .and_then(|()| std::fs::write(path, text).map_err(|error| error.to_string()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(true)
}

fn draw<'a>(
    text: &'a mut String,
    panels: &[(&Panel, Bounds)],
) -> Result<(), Box<dyn std::error::Error + 'a>> {
    let height = HEIGHT * panels.len() as u32;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    for ((panel, bounds), area) in panels.iter().zip(root.split_evenly((panels.len(), 1))) {
        draw_panel(&area, panel, bounds)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    panel: &Panel,
    bounds: &Bounds,
) -> Result<(), Box<dyn std::error::Error + 'a>> {
    let sizes = 1.0..bounds.bytes.1.max(2.0);
    let values = bounds.values.0 / 1.5..bounds.values.1 * 1.5;
    // Powers of two, and not so many that their names run into each other.
    let ticks: Vec<f64> = (0..=40)
        .step_by(2)
        .map(|power| (1u64 << power) as f64)
        .filter(|tick| *tick <= sizes.end)
        .collect();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
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
    for (curve, colour) in panel.curves.iter().zip(COLOURS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(curve.drawn(), colour.stroke_width(2)).point_size(3))?
            .label(&*curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(180, 180, 180))
        .draw()?;
    Ok(())
}
