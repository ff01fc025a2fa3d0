//! Draws what is known: a line of sums, the names of the lists, one list, and the keys.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::app::{App, Mode, View};
use super::source::{Seen, TopicLine};
use crate::cli::{job, screen, stats};

/// A list as texts. A title that begins with `>` stands above numbers.
#[derive(Debug)]
pub(super) struct List {
    pub(super) name: &'static str,
    pub(super) titles: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
}

pub(super) fn lists(seen: &Seen) -> impl Iterator<Item = List> + use<'_> {
    View::ALL.into_iter().map(move |view| list(seen, view))
}

pub(super) fn list(seen: &Seen, view: View) -> List {
    match view {
        View::Topics => List {
            name: "topics",
            titles: &["TOPIC", ">READY", ">DELAYED", ">RUNNING", ">DEAD", ">DONE/S", ">FAILED/S", "OLDEST"],
            rows: seen.topics.iter().map(|topic| topic_row(topic, seen)).collect(),
        },
        View::Running => List {
            name: "running",
            titles: &["JOB", "TOPIC", ">ATTEMPT", "PUSHED", "LEASE ENDS", "WORKER"],
            rows: seen
                .running
                .iter()
                .map(|line| {
                    let stopping = if line.cancelled { " (cancelled)" } else { "" };
                    vec![
                        format!("{}{stopping}", line.id),
                        line.topic.to_string(),
                        line.attempts.to_string(),
                        job::distance(line.enqueued_at_ms, seen.at),
                        job::distance(line.lease_until_ms, seen.at),
                        line.worker.clone(),
                    ]
                })
                .collect(),
        },
        View::Workers => List {
            name: "workers",
            titles: &["WORKER", ">RUNNING", "TOPICS"],
            rows: seen
                .workers
                .iter()
                .map(|line| {
                    let topics: Vec<_> = line.topics.iter().map(String::as_str).collect();
                    vec![line.worker.clone(), line.running.to_string(), topics.join(", ")]
                })
                .collect(),
        },
        View::Dead => List {
            name: "dead",
            titles: &[">JOBS", "TOPIC", "REASON", "CODE", "LAST", "MESSAGE"],
            rows: seen
                .dead
                .iter()
                .map(|group| {
                    vec![
                        group.count.to_string(),
                        group.topic.to_string(),
                        group.reason.map(|reason| reason.to_string()).unwrap_or_default(),
                        group.code.clone(),
                        job::distance(group.last, seen.at),
                        group.message.clone(),
                    ]
                })
                .collect(),
        },
    }
}

fn topic_row(line: &TopicLine, seen: &Seen) -> Vec<String> {
    let counts = &line.counts;
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
    let mut row = vec![stats::name(&counts.topic, Some(counts))];
    row.extend([counts.ready, counts.delayed, counts.running, counts.dead].map(|count| count.to_string()));
    row.extend([line.done_per_second, line.failed_per_second].map(rate));
    row.push(counts.oldest_ready.map(|oldest| job::distance(oldest, seen.at)).unwrap_or_default());
    row
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let [sums, names, rows, note, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(sums_of(app), sums);
    frame.render_widget(names_of(app), names);
    if app.mode == Mode::Help {
        frame.render_widget(Text::from(HELP), rows);
    } else {
        let (table, mut state) = table(app);
        frame.render_stateful_widget(table, rows, &mut state);
    }
    frame.render_widget(Line::from(screen::clean(app.note.as_deref().unwrap_or_default())), note);
    frame.render_widget(Line::from(keys_of(app)), keys);
}

fn sums_of(app: &App) -> Line<'static> {
    let topics = &app.seen().topics;
    let sum = |of: fn(&TopicLine) -> u64| topics.iter().map(of).sum::<u64>();
    let done: f64 = topics.iter().filter_map(|topic| topic.done_per_second).sum();
    Line::from(format!(
        "gristmill  {} ready  {} delayed  {} running  {} dead  {done:.1}/s done{}",
        sum(|topic| topic.counts.ready),
        sum(|topic| topic.counts.delayed),
        sum(|topic| topic.counts.running),
        sum(|topic| topic.counts.dead),
        if app.is_frozen() { "  frozen" } else { "" },
    ))
}

fn names_of(app: &App) -> Line<'static> {
    let mut spans = Vec::new();
    for view in View::ALL {
        let list = list(app.seen(), view);
        let style = if view == app.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.extend([Span::styled(format!(" {} {} ", list.name, list.rows.len()), style), Span::raw(" ")]);
    }
    Line::from(spans)
}

fn table(app: &App) -> (Table<'static>, TableState) {
    let list = list(app.seen(), app.view);
    let (shown, selected) = app.rows(&list.rows);
    let is_number = |column: usize| list.titles.get(column).is_some_and(|title| title.starts_with('>'));
    let cell = |(column, text): (usize, &str)| {
        let alignment = if is_number(column) { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(screen::clean(text)).alignment(alignment))
    };
    let titles: Vec<_> = list.titles.iter().map(|title| title.trim_start_matches('>')).collect();
    let widths: Vec<_> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let texts = list.rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
            let width = texts.chain([title.len()]).max().unwrap_or_default();
            let width = u16::try_from(width).unwrap_or(u16::MAX);
            if column + 1 == titles.len() { Constraint::Fill(1) } else { Constraint::Length(width) }
        })
        .collect();
    let rows: Vec<_> = shown
        .iter()
        .filter_map(|place| list.rows.get(*place))
        .map(|row| Row::new(row.iter().map(String::as_str).enumerate().map(cell).collect::<Vec<_>>()))
        .collect();
    let header = Row::new(titles.iter().copied().enumerate().map(cell).collect::<Vec<_>>());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let marked = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths).header(header.style(bold)).column_spacing(2).row_highlight_style(marked);
    (table, TableState::new().with_selected(selected))
}

const HELP: &str = "\
t r w d   topics, running jobs, workers, dead jobs in groups; Tab: the next
j k       next and previous row
/         show only the rows that contain a text; Esc: all
space     freeze, and go on
P         pause or resume the topic
C         cancel the running job
R D       respawn or delete the group of dead jobs, once its number is typed
q         quit";

fn keys_of(app: &App) -> String {
    match &app.mode {
        Mode::Keys | Mode::Help => {
            let changes = match app.view {
                View::Topics => "P pause  ",
                View::Running => "C cancel  ",
                View::Workers => "",
                View::Dead => "R respawn  D delete  ",
            };
            let filter =
                if app.filter.is_empty() { String::new() } else { format!("/{}  ", screen::clean(&app.filter)) };
            format!("{filter}{changes}t r w d lists  j k rows  / filter  space freeze  ? help  q quit")
        }
        Mode::Filter => format!("/{}_", screen::clean(&app.filter)),
        Mode::Confirm { what, count, typed, .. } => {
            format!("{what} {count} jobs? type {count} and Enter, or Esc: {typed}_")
        }
    }
}
