//! What was read, as lists of texts.

use super::events;
use super::source::{JobPage, RunningLine, Seen, TopicRow};
use super::view::{Row, View};
use crate::cli::{describe, schedule, screen, workers};
use gristmill_config::units;
use gristmill_core::job::TopicId;
use gristmill_store::{JobState, JobView};

/// A list as texts. A title that begins with `>` stands above numbers.
#[derive(Debug)]
pub(super) struct List {
    pub(super) name: &'static str,
    pub(super) titles: &'static [&'static str],
    /// The cells of each row, and what it is about.
    pub(super) rows: Vec<(Vec<String>, Row)>,
}

impl List {
    /// Counts and durations by what they are worth, anything else as text.
    pub(super) fn sort_key(&self, place: usize, column: usize) -> (u64, String) {
        let cell = self.rows.get(place).and_then(|(cells, _)| cells.get(column)).map_or("", String::as_str);
        let quantity = cell.trim_start_matches("in ").trim_end_matches(" ago");
        let seconds = || units::duration(quantity).ok().map(|duration| duration.as_secs_f64());
        match quantity.replace(',', "").parse::<f64>().ok().or_else(seconds) {
            // The bits of numbers that are not negative are in the order of the numbers.
            Some(number) => (number.max(0.0).to_bits(), String::new()),
            None => (0, cell.to_lowercase()),
        }
    }
}

pub(super) fn list(seen: &Seen, view: &View) -> List {
    let name = view.name();
    match view {
        View::Topics => List { name, titles: &TOPICS, rows: seen.topics.iter().map(|row| topic(row, seen)).collect() },
        View::Jobs { .. } => List {
            name,
            titles: &["ID", "TOPIC", "STATE", "WHEN", ">ATTEMPTS", "KEY", "FAILURE"],
            rows: seen.jobs.iter().map(|view| one_job(view, seen)).collect(),
        },
        View::Job { .. } => List { name, titles: &[""], rows: seen.job.as_ref().map(lines).unwrap_or_default() },
        View::Running => List {
            name,
            titles: &["JOB", "TOPIC", ">ATTEMPT", "PUSHED", "RUNS FOR", "LEASE ENDS", "WORKER"],
            rows: seen
                .running
                .iter()
                .map(|line| {
                    let stopping = if line.cancelled { " (cancelled)" } else { "" };
                    let cells = vec![
                        format!("{}{stopping}", line.id),
                        line.topic.to_string(),
                        line.attempts.to_string(),
                        describe::distance(line.enqueued_at_ms, seen.at),
                        runs_for(line, seen),
                        describe::distance(line.lease_until_ms, seen.at),
                        line.worker.clone(),
                    ];
                    (cells, Row::Job { topic: line.topic.clone(), id: line.id.clone(), dead: false })
                })
                .collect(),
        },
        View::Workers => List {
            name,
            titles: &workers::COLUMNS,
            rows: seen.workers.iter().map(|worker| (workers::row(worker, seen.at), Row::Nothing)).collect(),
        },
        View::Dead => List {
            name,
            titles: &[">JOBS", "TOPIC", "REASON", "CODE", "LAST", "MESSAGE"],
            rows: seen
                .dead
                .iter()
                .map(|group| {
                    let cells = vec![
                        units::grouped(group.count as u64),
                        group.topic.to_string(),
                        group.reason.map(|reason| reason.to_string()).unwrap_or_default(),
                        group.code.clone(),
                        describe::distance(group.last, seen.at),
                        group.message.clone(),
                    ];
                    (cells, Row::Group(Box::new(group.clone())))
                })
                .collect(),
        },
        View::Attempts => List {
            name,
            titles: &["WHEN", "TOPIC", "JOB", ">ATTEMPT", "OUTCOME", "VERDICT", ">TOOK", "MESSAGE"],
            rows: seen
                .attempts
                .iter()
                .map(|attempt| {
                    let (topic, id) = (attempt.topic.clone(), attempt.job.clone());
                    (attempt.cells(seen.at), Row::Job { topic, id, dead: false })
                })
                .collect(),
        },
        View::Schedules => List {
            name,
            titles: &["SCHEDULE", "NEXT", "WHEN"],
            rows: seen
                .schedules
                .iter()
                .map(|stored| {
                    let topic = stored.id.topic.clone();
                    (schedule::row(stored, seen.at).to_vec(), Row::Topic { topic, paused: false })
                })
                .collect(),
        },
        View::Events => List {
            name,
            titles: &["WHEN", "EVENT", "TOPIC", "JOB", "DETAILS"],
            rows: seen.events.iter().map(|event| events::row(event, seen.at)).collect(),
        },
    }
}

const TOPICS: [&str; 12] = [
    "TOPIC",
    ">READY",
    ">DELAYED",
    ">RUNNING",
    ">DEAD",
    ">DONE/S",
    ">FAILED/S",
    ">OLDEST",
    ">RUN50",
    ">RUN99",
    "HANDLER",
    "STATE",
];

fn topic(TopicRow { line, done_per_second, failed_per_second }: &TopicRow, seen: &Seen) -> (Vec<String>, Row) {
    let counts = &line.seen.counts;
    let rate = |rate: &Option<f64>| rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
    let mut cells = vec![line.name()];
    cells.extend([counts.ready, counts.delayed, counts.running, counts.dead].map(units::grouped));
    cells.extend([done_per_second, failed_per_second].map(rate));
    cells.push(line.oldest(seen.at));
    cells.extend(line.run_times());
    cells.extend([line.handler(), line.state()]);
    (cells, Row::Topic { topic: counts.topic.clone(), paused: counts.paused })
}

fn one_job(view: &JobView, seen: &Seen) -> (Vec<String>, Row) {
    let failure = view.last_failure.as_ref();
    let spec = view.job.as_ref().map(|job| &job.spec);
    let cells = vec![
        view.id.to_string(),
        spec.map(|spec| spec.topic.to_string()).unwrap_or_default(),
        view.state.as_str().into(),
        crate::cli::find::when(view, seen.at),
        view.attempts.to_string(),
        spec.and_then(|spec| spec.options.key.clone()).unwrap_or_default(),
        failure.map(|failure| format!("{}: {}", failure.reason, failure.detail.message)).unwrap_or_default(),
    ];
    (cells, about(view))
}

/// For how long, and how much of the time that the topic gives an attempt.
fn runs_for(line: &RunningLine, seen: &Seen) -> String {
    let Some(claimed_at) = line.claimed_at_ms else { return String::new() };
    let ran = seen.at.since(claimed_at);
    let of_topic = |row: &&TopicRow| row.line.seen.counts.topic == line.topic;
    match seen.topics.iter().find(of_topic).and_then(|row| row.line.timeout()) {
        Some(timeout) => format!("{} of {}", units::about_duration(ran), units::about_duration(timeout)),
        None => units::about_duration(ran),
    }
}

/// What keys act on.
fn about(view: &JobView) -> Row {
    let topic: Option<TopicId> = view.job.as_ref().map(|job| job.spec.topic.clone());
    let dead = matches!(view.state, JobState::Dead { .. });
    topic.map_or(Row::Nothing, |topic| Row::Job { topic, id: view.id.clone(), dead })
}

fn lines(JobPage { view, text }: &JobPage) -> Vec<(Vec<String>, Row)> {
    text.lines().map(|line| (vec![screen::clean(line)], about(view))).collect()
}
