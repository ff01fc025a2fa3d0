//! What a condition can be about, and a column can show.

use super::body::Tree;
use super::group::group_of;
use crate::inspect::{JobState, JobView};
use gristmill_core::job::Priority;
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;

/// A fact about a job, by the name that queries have for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the names of queries")]
pub enum JobField {
    State,
    Topic,
    Id,
    Key,
    Unique,
    Priority,
    Worker,
    Reason,
    Code,
    Message,
    /// The group that a dead job is in: see [`DeadGroup`](super::DeadGroup).
    Group,
    Attempts,
    /// How long ago the job was pushed.
    Age,
    /// How long until the job is due; less than nothing if it was due before.
    Due,
    /// How long ago the job was given up.
    Died,
    /// The metadata of this name.
    Meta(String),
    /// What this path leads to in a JSON body.
    Body(Vec<String>),
    /// Any of the texts of a job.
    Anything,
}

/// The fields with one name, in the order in which help and errors list them.
const NAMES: [(&str, JobField); 15] = [
    ("state", JobField::State),
    ("topic", JobField::Topic),
    ("id", JobField::Id),
    ("key", JobField::Key),
    ("unique", JobField::Unique),
    ("priority", JobField::Priority),
    ("worker", JobField::Worker),
    ("reason", JobField::Reason),
    ("code", JobField::Code),
    ("message", JobField::Message),
    ("group", JobField::Group),
    ("attempts", JobField::Attempts),
    ("age", JobField::Age),
    ("due", JobField::Due),
    ("died", JobField::Died),
];

/// The most names that lead to a value.
const PATH: usize = 64;
/// How many bytes of a message are held against a condition.
const MESSAGE: usize = 64 << 10;

pub(super) const STATES: [&str; 6] = ["ready", "delayed", "waiting", "running", "dead", "finished"];

impl JobField {
    /// The field of this name: one of a fixed list, `meta.NAME`, `body.PATH`.
    ///
    /// # Errors
    /// There is none; in words, with the names that there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::of(&name.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    /// The field of the name that has these parts between its dots. A part has dots of its own if they stand in quotes.
    pub(super) fn of(parts: &[String]) -> Result<Self, String> {
        let (name, path) = (parts.join("."), parts.get(1..).unwrap_or_default());
        if let Some((_, field)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(field.clone());
        }
        match name.split_once('.') {
            Some(("meta", name)) if !name.is_empty() => Ok(Self::Meta(name.to_owned())),
            Some(("body", _)) if path.len() > PATH => {
                Err(format!("a path into bodies has {PATH} names at most: write a shorter one"))
            }
            Some(("body", _)) if !path.is_empty() && path.iter().all(|part| !part.is_empty()) => {
                Ok(Self::Body(path.to_vec()))
            }
            _ => {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                Err(format!("there is no field `{name}`: use {}, meta.NAME or body.PATH", names.join(", ")))
            }
        }
    }

    /// Whether it is compared with a length of time.
    pub(super) const fn is_time(&self) -> bool {
        matches!(self, Self::Age | Self::Due | Self::Died)
    }

    /// Whether it can be compared with a number.
    pub(super) const fn is_number(&self) -> bool {
        matches!(self, Self::Attempts | Self::Meta(_) | Self::Body(_))
    }

    /// The only values that it has, if they are known.
    pub(super) fn choices(&self) -> Option<Vec<&'static str>> {
        match self {
            Self::State => Some(STATES.to_vec()),
            Self::Priority => Some(Priority::ALL.map(Priority::as_str).to_vec()),
            Self::Reason => Some(Reason::ALL.iter().map(|reason| reason.as_str()).collect()),
            _ => None,
        }
    }

    /// How many milliseconds ago, or from now on; the inner one is `None` if it does not apply to the job. `None` for a field
    /// that is no point in time.
    pub(super) fn since(&self, job: &JobView, now: Timestamp) -> Option<Option<i128>> {
        let after = |from: Timestamp, to: Timestamp| i128::from(to.as_millis()) - i128::from(from.as_millis());
        match self {
            Self::Age => Some(job.job.as_ref().map(|job| after(job.enqueued_at, now))),
            Self::Due => Some(match (&job.state, &job.job) {
                (JobState::Delayed { until }, _) => Some(after(now, *until)),
                (JobState::Ready, Some(job)) => Some(after(now, job.due_at)),
                _ => None,
            }),
            Self::Died => Some(match job.state {
                JobState::Dead { since } => Some(after(since, now)),
                _ => None,
            }),
            _ => None,
        }
    }

    /// Calls `test` with each text that the job has here until it says `true`, and returns whether it did.
    pub fn any_text(&self, view: &JobView, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let spec = view.job.as_ref().map(|job| &job.spec);
        let failure = view.failure();
        match self {
            Self::State => test(view.state.as_str()),
            Self::Topic => view.topic().is_some_and(|topic| test(topic.topic.as_str())),
            Self::Id => test(view.id.as_str()),
            Self::Key => spec.and_then(|spec| spec.options.key.as_ref()).is_some_and(|key| test(key)),
            Self::Unique => {
                spec.and_then(|spec| spec.options.unique.as_ref()).is_some_and(|unique| test(&unique.value))
            }
            Self::Priority => spec.is_some_and(|spec| test(spec.options.priority.as_str())),
            Self::Worker => match &view.state {
                JobState::Running { worker, .. } => test(worker),
                _ => false,
            },
            Self::Reason => failure.is_some_and(|failure| test(failure.reason.as_str())),
            Self::Code => failure.is_some_and(|failure| test(&failure.detail.code)),
            Self::Message => failure.is_some_and(|failure| test(head(&failure.detail.message))),
            Self::Group => matches!(view.state, JobState::Dead { .. }) && test(&group_of(view)),
            Self::Attempts => test(&view.attempts.to_string()),
            Self::Age | Self::Due | Self::Died => false,
            Self::Meta(name) => spec.is_some_and(|spec| {
                spec.metadata.iter().filter(|(known, _)| known == name).any(|(_, value)| test(value))
            }),
            Self::Body(path) => spec.is_some_and(|spec| {
                let (mut tree, mut texts) = (Tree::default(), Vec::new());
                tree.add(path, 0);
                tree.read(&spec.body.data, &mut |_, text| texts.push(text.to_owned()))
                    && texts.iter().any(|text| test(text))
            }),
            // Words are looked for in another way.
            Self::Anything => false,
        }
    }
}

/// As much of a message as conditions look at.
pub(super) fn head(message: &str) -> &str {
    message.get(..message.floor_char_boundary(MESSAGE)).unwrap_or(message)
}
