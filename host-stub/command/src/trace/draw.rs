//! The traces of a job as a picture: a row for each rank, with its calls above, and below when it waited or made no progress.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plugin_api::trace::{Kind, Record};

use super::arrows;
use super::read::Job;

const WIDTH: i32 = 1200;
/// Of the names of the ranks, and of what is left free at the right.
const LEFT: i32 = 70;
const RIGHT: i32 = 20;
/// Of the legend, of a row and its two lines, and of the axis.
const TOP: i32 = 40;
const ROW: i32 = 64;
const LINE: i32 = 18;
const AXIS: i32 = 34;
/// Most ranks of a picture.
const MOST: usize = 64;
/// More arrows are left out.
const MOST_ARROWS: usize = 2000;

const CALLS: [RGBColor; 6] = [
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(240, 228, 66),
    RGBColor(0, 114, 178),
    RGBColor(160, 160, 220),
];
const WAIT: RGBColor = RGBColor(213, 94, 0);
const QUIET: RGBColor = RGBColor(150, 150, 150);
const REFUSED: RGBColor = RGBColor(230, 159, 0);
const POST: RGBColor = RGBColor(20, 20, 20);
const ARROW: RGBColor = RGBColor(60, 60, 60);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), Box<dyn std::error::Error + 'a>>;

/// The part of the time that is shown, in nanoseconds since the first record.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Window {
    fn x(self, time: u64) -> i32 {
        let time = time.clamp(self.begin, self.end) - self.begin;
        let share = time as f64 / (self.end - self.begin) as f64;
        LEFT + (share * f64::from(WIDTH - LEFT - RIGHT)).round() as i32
    }

    fn shows(self, record: &Record) -> bool {
        record.end() >= self.begin && record.begin <= self.end
    }
}

/// Where the part of this length begins in which most operations are posted.
pub(super) fn busiest(job: &Job, length: u64) -> u64 {
    let posts = job
        .processes
        .iter()
        .flat_map(|process| process.of(Kind::Post));
    let mut times: Vec<u64> = posts.map(|post| post.begin).collect();
    times.sort_unstable();
    let until = |begin: u64| times.partition_point(|time| *time < begin.saturating_add(length));
    let counts = times
        .iter()
        .zip(0..)
        .map(|(begin, at): (_, usize)| (until(*begin).saturating_sub(at), *begin));
    let (_, begin) = counts.max_by_key(|(count, _)| *count).unwrap_or_default();
    // What comes just before is of interest, too.
    begin.saturating_sub(length / 20)
}

/// Writes the picture.
pub(super) fn write(job: &Job, window: Window, path: &Path) -> Result<(), String> {
    if job.processes.len() > MOST {
        return Err(format!(
            "a picture has room for {MOST} ranks: name the files of fewer"
        ));
    }
    let mut text = String::new();
    draw(&mut text, job, window).map_err(|e| e.to_string())?;
    std::fs::write(path, text).map_err(|e| e.to_string())
}

fn draw<'a>(text: &'a mut String, job: &Job, window: Window) -> Drawn<'a> {
    let height = TOP + ROW * job.processes.len() as i32 + AXIS;
    let root = SVGBackend::with_string(text, (WIDTH as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut names: Vec<String> = Vec::new();
    for (process, row) in job.processes.iter().zip(0..) {
        let top = TOP + ROW * row;
        label(
            &root,
            (8, top + LINE),
            &format!("rank {}", process.rank),
            HPos::Left,
        )?;
        let mut calls = Bars::new(&root, top);
        let mut waits = Bars::new(&root, top + LINE + 2);
        for record in process.records.iter().filter(|r| window.shows(r)) {
            let (from, to) = (window.x(record.begin), window.x(record.end()));
            match record.kind {
                Kind::Call => calls.add(
                    from,
                    to,
                    CALLS[number(&mut names, record.name()) % CALLS.len()],
                )?,
                Kind::Quiet => waits.add(from, to, QUIET)?,
                Kind::Wait => waits.add(from, to, WAIT)?,
                Kind::Refused => waits.add(from, to, REFUSED)?,
                Kind::Post => {
                    let line = vec![(from, top + LINE + 2), (from, top + 2 * LINE + 6)];
                    root.draw(&PathElement::new(line, POST))?;
                }
                _ => {}
            }
        }
    }
    draw_arrows(&root, job, window)?;
    draw_axis(&root, window, height - AXIS)?;
    draw_legend(&root, &names)?;
    root.present()?;
    Ok(())
}

/// The number of a name, in the order in which names come.
fn number(names: &mut Vec<String>, name: String) -> usize {
    names
        .iter()
        .position(|known| *known == name)
        .unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
}

/// Bars of one line. Those that end in the same pixel as the last one of their colour add nothing.
struct Bars<'a, 'b> {
    area: &'a Area<'b>,
    top: i32,
    last: Option<(i32, RGBColor)>,
}

impl<'a, 'b> Bars<'a, 'b> {
    fn new(area: &'a Area<'b>, top: i32) -> Bars<'a, 'b> {
        Bars {
            area,
            top,
            last: None,
        }
    }

    fn add(
        &mut self,
        from: i32,
        to: i32,
        colour: RGBColor,
    ) -> Result<(), Box<dyn std::error::Error + 'b>> {
        let to = to.max(from + 1);
        if self.last == Some((to, colour)) {
            return Ok(());
        }
        self.last = Some((to, colour));
        bar(self.area, (from, self.top), (to, self.top + LINE), colour)
    }
}

fn bar<'b>(area: &Area<'b>, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn<'b> {
    Ok(area.draw(&Rectangle::new([from, to], colour.filled()))?)
}

fn label<'b>(area: &Area<'b>, at: (i32, i32), text: &str, side: HPos) -> Drawn<'b> {
    let style = TextStyle::from(("sans-serif", 13)).pos(Pos::new(side, VPos::Center));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

/// From the row of the origin to that of the target.
fn draw_arrows<'b>(root: &Area<'b>, job: &Job, window: Window) -> Drawn<'b> {
    let arrows = arrows::find(job);
    let both = |arrow: &&arrows::Arrow<'_>| {
        arrow.post.begin >= window.begin && arrow.progress.begin <= window.end
    };
    let shown = arrows.iter().filter(both);
    for arrow in shown.take(MOST_ARROWS) {
        let down = arrow.to > arrow.from;
        let edge = |row: usize, below: bool| {
            TOP + ROW * row as i32 + if below { 2 * LINE + 6 } else { LINE + 2 }
        };
        let from = (window.x(arrow.post.begin), edge(arrow.from, down));
        let arrives = arrow.progress.begin.max(arrow.post.begin);
        let to = (
            window.x(arrives),
            if down {
                edge(arrow.to, false)
            } else {
                edge(arrow.to, true)
            },
        );
        root.draw(&PathElement::new(vec![from, to], ARROW))?;
        let back = if down { -5 } else { 5 };
        let head = vec![(to.0 - 3, to.1 + back), to, (to.0 + 3, to.1 + back)];
        root.draw(&PathElement::new(head, ARROW))?;
    }
    Ok(())
}

/// Milliseconds since the first record.
fn draw_axis<'b>(root: &Area<'b>, window: Window, top: i32) -> Drawn<'b> {
    let length = (window.end - window.begin) as f64 / 1e6;
    // About eight steps of 1, 2 or 5 times a power of ten.
    let rough = length / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = power
        * [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .find(|s| s * power >= rough)
            .unwrap_or(10.0);
    let begin = window.begin as f64 / 1e6;
    let digits = (-step.log10().floor()).max(0.0) as usize;
    root.draw(&PathElement::new(
        vec![(LEFT, top), (WIDTH - RIGHT, top)],
        POST,
    ))?;
    let mut at = (begin / step).ceil() * step;
    while at <= begin + length {
        let x = window.x((at * 1e6) as u64);
        root.draw(&PathElement::new(vec![(x, top), (x, top + 4)], POST))?;
        label(root, (x, top + 14), &format!("{at:.digits$}"), HPos::Center)?;
        at += step;
    }
    label(root, (8, top + 14), "ms", HPos::Left)
}

fn draw_legend<'b>(root: &Area<'b>, names: &[String]) -> Drawn<'b> {
    let calls = names.iter().zip(CALLS.iter().cycle()).take(CALLS.len());
    let calls = calls.map(|(name, colour)| (name.as_str(), *colour));
    let others = [("wait", WAIT), ("no progress", QUIET), ("refused", REFUSED)];
    let mut x = LEFT;
    for (name, colour) in calls.chain(others) {
        bar(root, (x, 12), (x + 14, 26), colour)?;
        label(root, (x + 20, 20), name, HPos::Left)?;
        x += 40 + 8 * name.len() as i32;
    }
    label(root, (x, 20), "| post, → command", HPos::Left)
}
