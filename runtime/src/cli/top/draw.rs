//! Draws what is known: a line of sums, what is wrong, the way to the view, its list, and the keys.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::app::{App, Mode};
use super::list;
use super::source::TopicRow;
use super::view::View;
use crate::cli::topic_line::TopicLine;
use crate::cli::{screen, table};
use gristmill_config::units;

/// Topics in the line of warnings.
const WARNINGS: usize = 2;

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let [sums, warnings, crumbs, rows, note, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(sums_of(app), sums);
    frame.render_widget(warnings_of(app), warnings);
    frame.render_widget(crumbs_of(app), crumbs);
    if app.mode == Mode::Help {
        frame.render_widget(Text::from(HELP), rows);
    } else {
        let (table, mut state) = table(app, rows.width);
        frame.render_stateful_widget(table, rows, &mut state);
    }
    let said = app.note.as_deref().or(app.seen().missing.as_deref()).unwrap_or_default();
    frame.render_widget(Line::from(screen::clean(said)), note);
    frame.render_widget(Line::from(keys_of(app)), keys);
}

fn sums_of(app: &App) -> Line<'static> {
    let topics = &app.seen().topics;
    let sum = |of: fn(&TopicRow) -> u64| units::grouped(topics.iter().map(of).sum::<u64>());
    let done: f64 = topics.iter().filter_map(|topic| topic.done_per_second).sum();
    Line::from(format!(
        "gristmill  {} ready  {} delayed  {} running  {} dead  {done:.1}/s done{}{}",
        sum(|topic| topic.line.seen.counts.ready),
        sum(|topic| topic.line.seen.counts.delayed),
        sum(|topic| topic.line.seen.counts.running),
        sum(|topic| topic.line.seen.counts.dead),
        if app.is_read_only() { "  read-only" } else { "" },
        if app.is_frozen() { "  frozen" } else { "" },
    ))
}

/// The topics that need a person: jobs wait and none is begun, or a version was refused. Those with the most waiting jobs come first.
fn warnings_of(app: &App) -> Line<'static> {
    let mut topics: Vec<_> =
        app.seen().topics.iter().map(|row| &row.line).filter(|line| line.needs_a_person()).collect();
    topics.sort_by_key(|line| std::cmp::Reverse(line.seen.counts.ready));
    let about = |line: &&TopicLine| {
        let ready = line.seen.counts.ready;
        let waits = if ready > 0 { format!("{} ready, ", units::grouped(ready)) } else { String::new() };
        screen::clean(&format!("! {}: {waits}{}", line.seen.counts.topic, line.state()))
    };
    let texts: Vec<_> = topics.iter().take(WARNINGS).map(about).collect();
    let more = topics.len().saturating_sub(WARNINGS);
    let more = if more > 0 { format!("  and {more} more") } else { String::new() };
    Line::styled(texts.join("  ") + &more, Style::new().fg(Color::Yellow))
}

fn crumbs_of(app: &App) -> Line<'static> {
    let mut spans = Vec::new();
    let crumbs: Vec<_> = app.crumbs().collect();
    let rows = list::list(app.seen(), app.view()).rows.len();
    for (place, crumb) in crumbs.iter().enumerate() {
        let is_last = place + 1 == crumbs.len();
        let count = if is_last && !matches!(app.view(), View::Job { .. }) { format!(" {rows}") } else { String::new() };
        let style = if is_last { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.extend([Span::styled(format!(" {}{count} ", screen::clean(crumb)), style), Span::raw(" ")]);
    }
    Line::from(spans)
}

fn table(app: &App, room: u16) -> (Table<'static>, TableState) {
    let list = list::list(app.seen(), app.view());
    let (shown, selected) = app.rows(&list);
    let titles: Vec<String> = list.titles.iter().map(|title| (*title).to_owned()).collect();
    let mark = |column: usize| match app.state().sort {
        Some((by, descending)) if by == column => Some(if descending { "v" } else { "^" }),
        _ => None,
    };
    let mut widths = table::widths(&titles, list.rows.iter().map(|(row, _)| row));
    widths.iter_mut().enumerate().for_each(|(column, width)| *width += usize::from(mark(column).is_some()));
    let widths = table::fit(&titles, &widths, room.into());
    let last = titles.len().saturating_sub(1);
    let row = |cells: &[String]| {
        let columns = cells.iter().zip(&widths).zip(&titles).enumerate();
        Row::new(columns.filter_map(|(column, ((text, width), title))| {
            let alignment = if title.starts_with('>') { Alignment::Right } else { Alignment::Left };
            let text = table::shortened(&screen::clean(text), (*width)?, column == last);
            Some(Cell::from(Text::from(text).alignment(alignment)))
        }))
    };
    let titled: Vec<String> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| format!("{}{}", title.trim_start_matches('>'), mark(column).unwrap_or_default()))
        .collect();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let marked = Style::new().add_modifier(Modifier::REVERSED);
    let rows = shown.iter().filter_map(|place| list.rows.get(*place)).map(|(cells, _)| row(cells));
    let constraints =
        widths.iter().flatten().map(|width| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    let table = Table::new(rows, constraints).header(row(&titled).style(bold));
    (table.column_spacing(2).row_highlight_style(marked), TableState::new().with_selected(selected))
}

const HELP: &str = "\
: NAME    a view: topics, jobs QUERY, running, dead, workers, attempts, schedules, events
t r w d   topics, running jobs, workers, dead jobs in groups; Tab: the next
Enter     open: of a topic its jobs, of a job all about it, of a group its jobs
Esc       back, or show all rows again
j k       next and previous row
/         show only the rows that contain a text
s o       sort by the next column, turn the order round
space     freeze, and go on
P         pause or resume the topic
C K       cancel the job; end its attempt at once
R D       respawn or delete the group of dead jobs, once its number is typed; R: respawn the dead job
q         quit";

fn keys_of(app: &App) -> String {
    match &app.mode {
        Mode::Keys | Mode::Help => {
            let changes = match app.view() {
                _ if app.is_read_only() => "",
                View::Topics => "P pause  ",
                View::Running => "C cancel  K kill  ",
                View::Jobs { .. } | View::Job { .. } => "C cancel  K kill  R respawn  ",
                View::Workers | View::Attempts | View::Schedules | View::Events => "",
                View::Dead => "R respawn  D delete  ",
            };
            let filter = &app.state().filter;
            let filter = if filter.is_empty() { String::new() } else { format!("/{}  ", screen::clean(filter)) };
            format!("{filter}{changes}: view  Enter open  Esc back  / filter  s sort  ? help  q quit")
        }
        Mode::Name(typed) => format!(":{}_", screen::clean(typed)),
        Mode::Filter => format!("/{}_", screen::clean(&app.state().filter)),
        Mode::Confirm { what, count, typed, .. } => {
            let jobs = units::counted(*count, "job", "jobs");
            format!("{what} {jobs}? type {count} and Enter, or Esc: {typed}_")
        }
    }
}
