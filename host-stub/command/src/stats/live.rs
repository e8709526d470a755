//! The table on a terminal, until somebody ends it.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::Stats;
use super::table::{COLUMNS, Change};
use crate::CommandError;

/// Shows the table and refreshes it, until `q`, Escape or Ctrl-C, or until no process is left.
pub(super) fn show(stats: &Stats, interval: Duration) -> Result<(), CommandError> {
    let first = stats.read()?;
    let mut terminal = ratatui::try_init()?;
    let ended = refresh(&mut terminal, stats, interval, first);
    ratatui::try_restore()?;
    ended
}

fn refresh(
    terminal: &mut DefaultTerminal,
    stats: &Stats,
    interval: Duration,
    mut before: Vec<super::Process>,
) -> Result<(), CommandError> {
    let mut began = Instant::now();
    loop {
        if is_ended_within(interval)? {
            return Ok(());
        }
        let now = stats.read_again();
        if now.is_empty() {
            return Ok(());
        }
        let change = Change::new(before, now, began.elapsed());
        began = Instant::now();
        terminal.draw(|frame| draw(frame, &change, stats.peers))?;
        before = change.now;
    }
}

/// Whether the user ends the program while the time passes.
fn is_ended_within(time: Duration) -> Result<bool, CommandError> {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(false);
        }
        if let Event::Key(key) = event::read()? {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                KeyCode::Char('c') if control => return Ok(true),
                _ => {}
            }
        }
    }
}

/// Draws as many transports as the terminal has room for.
fn draw(frame: &mut Frame<'_>, change: &Change, most: usize) {
    let mut left = frame.area();
    for process in &change.now {
        for number in 0..process.transports.len() {
            let (rows, others) = change.rows(process, number, most);
            let height = rows.len() as u16 + 3;
            if left.height < height {
                let more = Line::from("more processes: make the terminal higher, or name some");
                frame.render_widget(more.dim(), last_line(left));
                return;
            }
            let [here, below] =
                Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(left);
            left = below;
            let mut title = change.headline(process, number);
            if others > 0 {
                title.push_str(&format!("; {others} more peers"));
            }
            let [first, table] =
                Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(here);
            frame.render_widget(Line::from(title).bold(), first);
            let head = Row::new(COLUMNS).style(Style::new().dim());
            let widths = [Constraint::Length(12); COLUMNS.len()];
            let rows = rows.into_iter().map(Row::new);
            frame.render_widget(Table::new(rows, widths).header(head), table);
        }
    }
    frame.render_widget(Line::from("q ends").dim(), last_line(left));
}

fn last_line(area: Rect) -> Rect {
    Rect {
        y: area.bottom().saturating_sub(1),
        height: area.height.min(1),
        ..area
    }
}
