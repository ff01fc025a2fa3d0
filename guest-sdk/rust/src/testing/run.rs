//! What a handler did.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use crate::bindings::gristmill::job::queue::{Links, NewJob};
use crate::log::Level;
use crate::testing::SentRequest;
use crate::testing::fake::State;
use crate::{Failure, Outcome, Payload};

/// One attempt, ended. The methods that take a particular ending panic on any other, and show it.
#[derive(Debug, Clone)]
pub struct Run {
    ending: Result<Outcome, Failure>,
    state: State,
}

/// A follow-up job, as the host got it. Its fields are those of the contract: `topic`, `body`, `key`, `unique` and so on.
#[derive(Debug, Clone, PartialEq)]
pub struct EnqueuedJob {
    /// What [`NewJob::enqueue`](crate::NewJob::enqueue) returned.
    pub id: String,
    /// Which jobs it waits for, and which one waits for it.
    pub links: Links,
    pub(crate) job: NewJob,
}

impl Deref for EnqueuedJob {
    type Target = NewJob;

    fn deref(&self) -> &NewJob {
        &self.job
    }
}

/// A line that the handler logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// How severe the line is.
    pub level: Level,
    /// The text.
    pub message: String,
    /// Names and values beside the text, in the order in which they were given.
    pub fields: Vec<(String, String)>,
}

impl LogLine {
    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Run {
    pub(crate) fn new(ending: Result<Outcome, Failure>, mut state: State) -> Self {
        if let (Ok(Outcome::Complete(_)), Some(new)) = (&ending, state.new_state.take()) {
            state.state = new;
        }
        if ending.is_err() {
            // As with the real host: nothing becomes visible unless the attempt succeeds.
            state.enqueued.clear();
        }
        Self { ending, state }
    }

    /// How the attempt ended.
    pub fn ending(&self) -> &Result<Outcome, Failure> {
        &self.ending
    }

    /// The failure, if it failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.ending.as_ref().err()
    }

    /// The result, if it completed with one.
    pub fn result(&self) -> Option<&Payload> {
        if let Ok(Outcome::Complete(payload)) = &self.ending { payload.as_ref() } else { None }
    }

    /// The result as text.
    ///
    /// # Panics
    ///
    /// The attempt did not complete with UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8(self.data()).unwrap_or_else(|error| self.unexpected("text", &error.to_string()))
    }

    /// The result as JSON.
    ///
    /// # Panics
    ///
    /// The attempt did not complete with JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.data()).unwrap_or_else(|error| self.unexpected("that JSON", &error.to_string()))
    }

    /// The follow-up jobs, in order. None if the attempt failed: they become visible with its success or not at all.
    pub fn enqueued(&self) -> &[EnqueuedJob] {
        &self.state.enqueued
    }

    /// The requests over HTTP, in order, whether they were answered or not.
    pub fn requests(&self) -> &[SentRequest] {
        &self.state.requests
    }

    /// The lines that the handler logged, in order.
    pub fn logs(&self) -> &[LogLine] {
        &self.state.logs
    }

    /// The last checkpoint.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.state.checkpoint.as_deref()
    }

    /// The state of the job's key after the attempt: what the handler set, if it completed.
    pub fn state(&self) -> Option<&[u8]> {
        self.state.state.as_deref()
    }

    /// Every progress report, in order: basis points and note.
    pub fn progress(&self) -> &[(u32, Option<String>)] {
        &self.state.progress
    }

    fn data(&self) -> Vec<u8> {
        match self.result() {
            Some(payload) => payload.data.clone(),
            None => self.unexpected("a result", ""),
        }
    }

    #[expect(clippy::panic, reason = "an assertion of the author's test")]
    fn unexpected(&self, wanted: &str, why: &str) -> ! {
        panic!("the attempt should have completed with {wanted}, but ended as {:?} {why}", self.ending)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Host, job};
    use crate::{Failure, NewJob, context, snooze};

    #[test]
    fn a_failed_attempt_enqueues_nothing() {
        let run = Host::new().run(
            |_| -> Result<(), Failure> {
                NewJob::to("notify").enqueue()?;
                Err(Failure::retry("late", "after the fact"))
            },
            job("t"),
        );
        assert!(run.enqueued().is_empty() && run.failure().is_some());
    }

    #[test]
    fn runs_do_not_see_each_other() {
        let handle = |_| context::checkpoint("x").map(|()| snooze(std::time::Duration::ZERO));
        assert_eq!(Host::new().run(handle, job("t")).checkpoint(), Some(&b"x"[..]));
        let refused = Host::new().without_checkpoints().run(handle, job("t"));
        assert_eq!((refused.checkpoint(), refused.failure().map(Failure::is_retry)), (None, Some(true)));
    }

    #[test]
    fn the_follow_up_limit_is_reached_at_the_edge() {
        let flood = |_| (0..).map_while(|_| NewJob::to("t").enqueue().ok()).count().to_string();
        let run = Host::new().follow_ups(3).run(|job| Ok::<_, Failure>(flood(job)), job("t"));
        assert_eq!((run.text(), run.enqueued().len()), ("3".into(), 3));
    }

    #[test]
    fn progress_is_cut_off_at_the_whole() {
        let handle = |_| -> Result<(), Failure> {
            context::progress(5_000, Some("half"));
            context::progress(10_001, None);
            Ok(())
        };
        let expected = [(5_000, Some("half".to_owned())), (10_000, None)];
        assert_eq!(Host::new().run(handle, job("t")).progress(), expected);
    }
}
