//! Curves over sizes, both axes logarithmic: as lines of a terminal and as SVG.

mod svg;
mod text;

pub use svg::write_svg;
pub(crate) use text::lines;

/// Curves that share their axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What is drawn, with units.
    pub title: String,
    /// The curves, each with a colour of its own.
    pub curves: Vec<Curve>,
}

/// One way to do the same.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Bytes and value, by size.
    pub points: Vec<(u64, f64)>,
}

/// Least and most of sizes and values.
struct Bounds {
    bytes: (f64, f64),
    values: (f64, f64),
}

impl Panel {
    /// `None` if there is no point to draw. Values that have no logarithm are left out.
    fn bounds(&self) -> Option<Bounds> {
        let mut points = self.curves.iter().flat_map(Curve::drawn);
        let (bytes, value) = points.next()?;
        let first = Bounds {
            bytes: (bytes, bytes),
            values: (value, value),
        };
        Some(points.fold(first, |b, (bytes, value)| Bounds {
            bytes: (b.bytes.0.min(bytes), b.bytes.1.max(bytes)),
            values: (b.values.0.min(value), b.values.1.max(value)),
        }))
    }
}

impl Curve {
    fn drawn(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let points = self.points.iter();
        points
            .map(|(bytes, value)| (*bytes as f64, *value))
            .filter(|(bytes, value)| *bytes > 0.0 && *value > 0.0 && value.is_finite())
    }
}

/// A size as labels of axes show it.
fn size(bytes: f64) -> String {
    match bytes as u64 {
        b if b >= 1 << 20 => format!("{} Mi", b >> 20),
        b if b >= 1 << 10 => format!("{} Ki", b >> 10),
        b => b.to_string(),
    }
}
