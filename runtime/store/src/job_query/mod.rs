//! One language to choose jobs with, for the page, the API and the commands:
//! `topic:mail* state:dead,delayed reason:timeout age>1h body.user.id:42 -key:"a b"`.
//!
//! Conditions are joined by *and*, the values of one condition by *or*. What a store has in order is used: the topic, the state, an
//! id, the ready and running jobs of a key, and how long ago jobs died or when they come due. Everything else is a scan of a bounded number of jobs, which says where to
//! go on.

mod body;
mod ended;
mod error;
mod field;
mod find;
mod group;
mod groups;
mod number;
mod parse;
mod pattern;
mod payloads;
mod scan;
mod words;

use std::cmp::Ordering;
use std::str::FromStr;

use async_trait::async_trait;

pub use self::error::QueryError;
pub use self::field::JobField;
pub use self::find::{BadQueryCursor, FoundJobs, QueryCursor, find, find_without_payloads};
pub use self::groups::{DeadGroup, DeadGroups, dead_groups};
pub use self::scan::{ChooseJobs, Scanned, scan};

use self::number::Number;
use self::pattern::Pattern;
use self::payloads::PayloadTests;
use super::inspect::{JobState, JobView};
use super::list::StateFilter;
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;

/// What a job must be: all conditions of a query. The default one has none: every job fits.
#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    conditions: Vec<Condition>,
    /// Those about payloads.
    payloads: PayloadTests,
    /// Ages are counted back from here.
    now: Timestamp,
}

#[derive(Debug, Clone)]
struct Condition {
    is_negated: bool,
    field: JobField,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    /// One of these.
    Is(Vec<Pattern>),
    /// This word anywhere in a text, whatever the case of its letters.
    Word(String),
    /// A number; lengths of time are in milliseconds.
    Compare(Comparison, Number<'static>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    fn holds(self, number: &Number<'_>, bound: &Number<'_>) -> bool {
        let order = number.compare(bound);
        match self {
            Self::Less => order == Ordering::Less,
            Self::AtMost => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::AtLeast => order != Ordering::Less,
        }
    }
}

impl Condition {
    /// Whether it is one of those that [`PayloadTests`] looks after.
    const fn is_about_body(&self) -> bool {
        matches!(self.field, JobField::Body(_) | JobField::Anything)
    }

    /// How many of its values are patterns. Each is searched for separately.
    fn patterns(&self) -> usize {
        match &self.test {
            Test::Is(patterns) => patterns.iter().filter(|pattern| pattern.as_literal().is_none()).count(),
            Test::Word(_) | Test::Compare(..) => 0,
        }
    }

    /// Whether a job of which this field has this name may fit.
    fn name_fits(&self, field: &JobField, name: &str) -> bool {
        match &self.test {
            Test::Is(patterns) if self.field == *field => {
                self.is_negated != patterns.iter().any(|pattern| pattern.fits(name))
            }
            _ => true,
        }
    }

    /// Of one that is not about bodies.
    fn holds(&self, job: &JobView, now: Timestamp) -> bool {
        let holds = match &self.test {
            Test::Is(patterns) => {
                self.field.any_text(job, &mut |text| patterns.iter().any(|pattern| pattern.fits(text)))
            }
            Test::Word(_) => false,
            Test::Compare(comparison, bound) => {
                let fits = |text: &str| Number::parse(text).is_some_and(|number| comparison.holds(&number, bound));
                match self.field.since(job, now) {
                    Some(millis) => millis.is_some_and(|millis| fits(&millis.to_string())),
                    None => self.field.any_text(job, &mut |text| fits(text)),
                }
            }
        };
        holds != self.is_negated
    }

    /// Whether no job of this state fits that stands behind one that does not: the state is listed in the order of the field.
    fn is_past(&self, job: &JobView, now: Timestamp) -> bool {
        let is_in_order = matches!(
            (&self.field, &job.state),
            (JobField::Died, JobState::Dead { .. }) | (JobField::Due, JobState::Delayed { .. })
        );
        let is_upper_bound = matches!(self.test, Test::Compare(Comparison::Less | Comparison::AtMost, _));
        is_in_order && is_upper_bound && !self.is_negated && !self.holds(job, now)
    }
}

impl JobQuery {
    /// Whether a job of a topic of this name may fit.
    pub fn fits_topic(&self, topic: &Name) -> bool {
        self.name_fits(&JobField::Topic, topic.as_str())
    }

    /// Whether a job in this state may fit.
    fn fits_state(&self, state: StateFilter) -> bool {
        // Lists have the jobs that wait for others among the delayed ones.
        self.name_fits(&JobField::State, state.as_str())
            || state == StateFilter::Delayed && self.name_fits(&JobField::State, "waiting")
    }

    /// Whether it names the state of jobs that are over, which no list has.
    fn wants_finished(&self) -> bool {
        let names_states = |condition: &Condition| condition.field == JobField::State && !condition.is_negated;
        self.conditions.iter().any(names_states) && self.name_fits(&JobField::State, "finished")
    }

    fn name_fits(&self, field: &JobField, name: &str) -> bool {
        self.conditions.iter().all(|condition| condition.name_fits(field, name))
    }

    /// The only id that fits, if the query names it.
    pub fn id(&self) -> Option<JobId> {
        self.only(&JobField::Id)?.parse().ok()
    }

    /// The only key that fits, if the query names it.
    pub fn only_key(&self) -> Option<&str> {
        self.only(&JobField::Key)
    }

    /// Whether all its conditions are about what is known of a job that is over and whose result is kept: without that, what is not known would
    /// fit each condition that is negated.
    pub fn is_about_results(&self) -> bool {
        use JobField::{Anything, Attempts, Body, Code, Id, Message, Reason, State, Topic};
        let is_known = |field: &JobField| {
            matches!(field, Id | State | Topic | Attempts | Reason | Code | Message | Body(_) | Anything)
        };
        self.conditions.iter().all(|condition| is_known(&condition.field))
    }

    /// Whether all its conditions are about what a recording has of its job.
    pub fn is_about_recordings(&self, has_body: bool) -> bool {
        use JobField::{Age, Anything, Attempts, Body, Id, Key, Meta, State, Topic};
        self.conditions.iter().all(|condition| match &condition.field {
            Id | State | Topic | Key | Attempts | Age | Meta(_) => true,
            Body(_) | Anything => has_body || !condition.is_negated,
            _ => false,
        })
    }

    /// Whether it has a condition about topics.
    pub fn names_topics(&self) -> bool {
        self.conditions.iter().any(|condition| condition.field == JobField::Topic)
    }

    /// The only text of this field that fits, if the query names it.
    fn only(&self, field: &JobField) -> Option<&str> {
        let mut of_it = self.conditions.iter().filter(|condition| condition.field == *field && !condition.is_negated);
        of_it.find_map(|condition| match &condition.test {
            Test::Is(patterns) => match patterns.as_slice() {
                [pattern] => pattern.as_literal(),
                _ => None,
            },
            Test::Word(_) | Test::Compare(..) => None,
        })
    }

    /// When it was made: ages are counted back from here, by this host's clock.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether it has a condition besides topics and states: without one, all their jobs fit.
    pub fn is_selective(&self) -> bool {
        self.conditions.iter().any(|condition| !matches!(condition.field, JobField::Topic | JobField::State))
    }

    /// Whether it chooses jobs by what is in their bodies or metadata.
    pub fn reads_payloads(&self) -> bool {
        let is_payload = |field: &JobField| matches!(field, JobField::Meta(_) | JobField::Body(_) | JobField::Anything);
        self.conditions.iter().any(|condition| is_payload(&condition.field))
    }

    /// The same query with one more condition: jobs of this state.
    #[must_use]
    pub fn of_state(self, state: StateFilter) -> Self {
        self.of_states(&[state.as_str()])
    }

    /// The same query with one more condition: jobs in one of these states, by their [names](JobState::as_str).
    #[must_use]
    pub fn of_states(mut self, states: &[&str]) -> Self {
        let test = Test::Is(states.iter().map(|state| Pattern::literal(state)).collect());
        self.conditions.push(Condition { is_negated: false, field: JobField::State, test });
        self
    }
}

#[async_trait]
impl ChooseJobs for JobQuery {
    async fn fits(&self, job: &JobView) -> bool {
        // Bodies are read last, and only if all depends on them.
        let mut others = self.conditions.iter().filter(|condition| !condition.is_about_body());
        others.all(|condition| condition.holds(job, self.now)) && self.payloads.hold(job).await
    }

    fn is_past(&self, job: &JobView) -> bool {
        self.conditions.iter().any(|condition| condition.is_past(job, self.now))
    }
}

impl FromStr for JobQuery {
    type Err = QueryError;

    /// Ages are counted back from this moment, by this host's clock. An empty text chooses every job.
    fn from_str(text: &str) -> Result<Self, QueryError> {
        let conditions = parse::conditions(text)?;
        Ok(Self { payloads: PayloadTests::of(&conditions), conditions, now: Timestamp::now() })
    }
}

#[cfg(test)]
mod tests;
