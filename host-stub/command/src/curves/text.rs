//! A panel as lines of a terminal, drawn with the points of Braille.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Widget};

use super::{Panel, size};

/// Colours of curves, and how a terminal is told of them.
const COLOURS: [(Color, &str); 6] = [
    (Color::Cyan, "\x1b[36m"),
    (Color::Yellow, "\x1b[33m"),
    (Color::Green, "\x1b[32m"),
    (Color::Magenta, "\x1b[35m"),
    (Color::Red, "\x1b[31m"),
    (Color::Blue, "\x1b[34m"),
];
const PLAIN: &str = "\x1b[0m";

/// Draws a panel with a legend; no line if there are no two points to connect.
pub(crate) fn lines(panel: &Panel, width: u16, height: u16) -> Vec<String> {
    let Some(bounds) = panel.bounds().filter(|b| b.bytes.0 < b.bytes.1) else {
        return Vec::new();
    };
    let points: Vec<Vec<(f64, f64)>> = panel
        .curves
        .iter()
        .map(|curve| curve.drawn().map(|(x, y)| (x.log2(), y.log10())).collect())
        .collect();
    let datasets = points.iter().zip(COLOURS.iter().cycle());
    let datasets = datasets
        .map(|(points, (colour, _))| {
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(*colour)
                .data(points)
        })
        .collect();
    let across = (bounds.bytes.0.log2(), bounds.bytes.1.log2());
    // A curve that is level has to lie somewhere.
    let up = (
        bounds.values.0.log10() - 0.05,
        bounds.values.1.log10() + 0.05,
    );
    let chart = Chart::new(datasets)
        .block(Block::new().title(Line::from(&*panel.title)))
        .legend_position(None)
        .x_axis(
            Axis::default()
                .bounds([across.0, across.1])
                .labels(labels(across, |x| size(x.exp2()))),
        )
        .y_axis(
            Axis::default()
                .bounds([up.0, up.1])
                .labels(labels(up, |y| value(10f64.powf(y)))),
        );
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    chart.render(area, &mut buffer);
    let rows = (0..height).map(|row| text(&buffer, row));
    rows.chain([legend(panel)]).collect()
}

/// The ends of an axis and three places between.
fn labels((from, to): (f64, f64), name: impl Fn(f64) -> String) -> Vec<Line<'static>> {
    (0..=4)
        .map(|n| Line::from(name(from + (to - from) * f64::from(n) / 4.0)))
        .collect()
}

fn value(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}

/// A row of the buffer, with the colours of its cells.
fn text(buffer: &Buffer, row: u16) -> String {
    let (mut text, mut colour) = (String::new(), PLAIN);
    for column in 0..buffer.area.width {
        let Some(cell) = buffer.cell((column, row)) else {
            continue;
        };
        let wanted = COLOURS.iter().find(|(colour, _)| *colour == cell.fg);
        let wanted = wanted.map_or(PLAIN, |(_, code)| code);
        if wanted != colour {
            text.push_str(wanted);
            colour = wanted;
        }
        text.push_str(cell.symbol());
    }
    let mut text = text.trim_end().to_owned();
    if colour != PLAIN {
        text.push_str(PLAIN);
    }
    text
}

fn legend(panel: &Panel) -> String {
    let names = panel.curves.iter().zip(COLOURS.iter().cycle());
    let names: Vec<String> = names
        .map(|(curve, (_, code))| format!("{code}━━{PLAIN} {}", curve.name))
        .collect();
    names.join("   ")
}

#[cfg(test)]
mod tests {
    use super::super::Curve;
    use super::*;

    fn panel(points: &[(u64, f64)]) -> Panel {
        let curve = Curve {
            name: "one".to_owned(),
            points: points.to_vec(),
        };
        Panel {
            title: "time".to_owned(),
            curves: vec![curve],
        }
    }

    #[test]
    fn a_rising_curve_goes_from_the_lower_left_to_the_upper_right() {
        let lines = lines(&panel(&[(1, 1.0), (1 << 20, 1000.0)]), 60, 12);
        assert_eq!(lines.len(), 13);
        assert!(lines[0].contains("time") && lines[12].contains("one"));
        assert!(lines[11].contains("1 Mi"), "{lines:?}");
        let dots = |line: &str| {
            line.char_indices()
                .find(|(_, c)| ('\u{2801}'..'\u{28ff}').contains(c))
                .map(|(at, _)| at)
        };
        let (top, bottom) = (dots(&lines[1]), dots(&lines[8]));
        assert!(
            top.is_some() && bottom.is_some() && top > bottom,
            "{lines:?}"
        );
    }

    #[test]
    fn what_has_no_logarithm_is_not_drawn() {
        let drawn = lines(
            &panel(&[(0, 1.0), (1, 0.0), (2, f64::NAN), (4, 1.0)]),
            60,
            12,
        );
        assert!(drawn.is_empty(), "{drawn:?}");
    }
}
