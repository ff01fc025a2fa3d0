//! Waits for the end of a job: by a signal, and by reading the job now and then. Says which attempts failed meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use super::exit::Exit;
use super::global::Global;
use super::store::{Reached, Way};
use super::{describe, document, screen};
use gristmill_core::job::{JobId, Name, Payload, TopicId};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;
use gristmill_store::{JobState, JobView, Query, ResultView, Signal, StoreError};

/// A lost signal costs at most this long.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long after the push, or after an attempt has failed, the job is read again: then after twice as long, up to [`LOOK_EVERY`]. Attempts that fail fast
/// follow each other fast, and nothing signals their ends.
const LOOK_FIRST: Duration = Duration::from_millis(50);

/// Each read locks the store, which a server that is about to start needs.
const LOOK_FROM_OUTSIDE: Duration = Duration::from_millis(500);

/// How the wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WaitResult {
    Complete(Option<Payload>),
    /// Without a failure: the store does not know it any more.
    Dead(Option<Failure>),
    Expired,
    Cancelled,
    /// The job is over and nothing was kept of it.
    Gone,
    /// Not over yet.
    TimedOut,
}

/// A wait for the end of a job, and how many of its attempts are known to have failed.
#[derive(Debug)]
pub(super) struct Wait {
    tenant: Name,
    id: JobId,
    said: u32,
    is_silent: bool,
}

impl Wait {
    /// No attempt was spoken of yet, and none will be if programs read the output, or only errors are wanted.
    pub(super) fn new(global: &Global, tenant: &Name, id: &JobId) -> Self {
        Self { tenant: tenant.clone(), id: id.clone(), said: 0, is_silent: global.json || global.quiet }
    }

    /// Says once of each failed attempt why it failed and when the next one begins, if the job was read in between.
    fn note(&mut self, view: &JobView) {
        let news = self.news(view, Timestamp::now());
        if let Some(news) = news.filter(|_| !self.is_silent) {
            screen::note(&news);
        }
    }

    fn news(&mut self, view: &JobView, now: Timestamp) -> Option<String> {
        let next = match view.state {
            JobState::Delayed { until } => {
                format!("the next one begins at {until} ({})", describe::distance(until, now))
            }
            JobState::Ready => "the next one waits for a runner".into(),
            JobState::Running { .. } => "the next one is running".into(),
            JobState::Waiting | JobState::Dead { .. } | JobState::Finished => return None,
        };
        // The attempt that runs was counted when it began.
        let failed = view.attempts - u32::from(matches!(view.state, JobState::Running { .. })).min(view.attempts);
        let failure = view.last_failure.as_ref().filter(|_| failed > self.said)?;
        self.said = failed;
        let why = describe::failure(Some(failure));
        let why = why.lines().next().unwrap_or_default();
        Some(format!("attempt {failed} of job {}: {why}; {next}", view.id))
    }

    /// Waits at most `patience`. `signals` must have been asked for before the job was pushed.
    pub(super) async fn for_end(
        &mut self,
        store: &dyn Query,
        signals: Receiver<Signal>,
        patience: Duration,
    ) -> Result<WaitResult, StoreError> {
        match tokio::time::timeout(patience, self.end(store, signals)).await {
            Ok(end) => end,
            // The very last chance: the signal may have been lost a moment ago.
            Err(_) => Ok(self.look(store).await?.unwrap_or(WaitResult::TimedOut)),
        }
    }

    /// Waits on while the store changes hands: with its server as long as there is one. While there is none this process could
    /// have the store to itself, and then no runner would do the job, so it only reads the job now and then.
    pub(super) async fn for_end_by_any_way(&mut self, way: &Way, until: Instant) -> anyhow::Result<WaitResult> {
        loop {
            let Reached { store, is_ours_alone, .. } = way.reach().await?;
            let remaining = until.saturating_duration_since(Instant::now());
            let answer = if is_ours_alone {
                self.look(&*store).await
            } else {
                let signals = store.signals(std::slice::from_ref(&self.tenant)).await;
                match signals {
                    Ok(signals) => self.for_end(&*store, signals, remaining).await.map(Some),
                    Err(error) => Err(error),
                }
            };
            drop(store);
            match answer {
                Ok(Some(end)) => return Ok(end),
                Ok(None) if remaining.is_zero() => return Ok(WaitResult::TimedOut),
                Err(error) if remaining.is_zero() || !error.is_unavailable() => return Err(error.into()),
                // Not over yet, or the server has just ended.
                Ok(None) | Err(_) => tokio::time::sleep(remaining.min(LOOK_FROM_OUTSIDE)).await,
            }
        }
    }

    async fn end(&mut self, store: &dyn Query, mut signals: Receiver<Signal>) -> Result<WaitResult, StoreError> {
        let mut pause = None;
        loop {
            let said = self.said;
            if let Some(end) = self.look(store).await? {
                return Ok(end);
            }
            let wait = pause_after(pause.filter(|_| self.said == said));
            pause = Some(wait);
            let signalled = async { while signals.recv().await.is_some_and(|signal| !self.is_about(&signal)) {} };
            if tokio::time::timeout(wait, signalled).await.is_ok() && signals.is_closed() {
                // No more signals will come.
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    fn is_about(&self, signal: &Signal) -> bool {
        match signal {
            Signal::Finished { tenant, id } => (tenant, id) == (&self.tenant, &self.id),
            Signal::Lost => true,
            Signal::Ready(_)
            | Signal::Deployed(_)
            | Signal::Due { .. }
            | Signal::Cancelled { .. }
            | Signal::Killed { .. } => false,
        }
    }

    async fn look(&mut self, store: &dyn Query) -> Result<Option<WaitResult>, StoreError> {
        let Some(view) = store.job(&self.tenant, &self.id).await? else { return Ok(Some(WaitResult::Gone)) };
        self.note(&view);
        Ok(end_of(view))
    }
}

/// How long to wait for a signal until the job is read again, after so long a pause before; none: it is young, or another attempt has failed.
fn pause_after(pause: Option<Duration>) -> Duration {
    pause.map_or(LOOK_FIRST, |pause| (2 * pause).min(LOOK_EVERY))
}

/// How a job ended; `None` if it is not over.
pub(super) fn end_of(view: JobView) -> Option<WaitResult> {
    match (view.result, view.state) {
        (Some(ResultView::Complete(output)), _) => Some(WaitResult::Complete(output)),
        (Some(ResultView::Dead(failure)), _) => Some(WaitResult::Dead(Some(failure))),
        (Some(ResultView::Expired), _) => Some(WaitResult::Expired),
        (Some(ResultView::Cancelled), _) => Some(WaitResult::Cancelled),
        (None, JobState::Dead { .. }) => Some(WaitResult::Dead(view.last_failure)),
        (None, JobState::Finished) => Some(WaitResult::Gone),
        (None, JobState::Ready | JobState::Delayed { .. } | JobState::Waiting | JobState::Running { .. }) => None,
    }
}

/// The result to standard output, anything else to standard error.
pub(super) fn show(global: &Global, topic: &TopicId, id: &JobId, end: &WaitResult) -> anyhow::Result<Exit> {
    if global.json {
        screen::document(&as_document(topic, id, end))?;
        return Ok(end.exit());
    }
    match end {
        WaitResult::Complete(output) => screen::result(output.as_ref().map_or(&[], |output| output.data.as_slice()))?,
        WaitResult::Dead(failure) => {
            screen::note(&format!("job {id} is dead: {}", describe::failure(failure.as_ref())))
        }
        WaitResult::Expired => screen::note(&format!("job {id} expired before it could start")),
        WaitResult::Cancelled => screen::note(&format!("job {id} was cancelled")),
        WaitResult::Gone => screen::note(&format!("job {id} is over, and what became of it was not kept")),
        WaitResult::TimedOut => {
            let tenant = if topic.tenant.as_str() == gristmill_core::job::DEFAULT_TENANT {
                String::new()
            } else {
                format!(" --tenant {}", topic.tenant)
            };
            screen::note(&format!(
                "job {id} is not done yet: `gristmill job why {id}{tenant}` says what it waits for, and later `gristmill job show {id}{tenant}` how it \
                 ended"
            ));
        }
    }
    Ok(end.exit())
}

fn as_document(topic: &TopicId, id: &JobId, end: &WaitResult) -> Value {
    let (outcome, output, failure) = match end {
        WaitResult::Complete(output) => ("complete", output.as_ref(), None),
        WaitResult::Dead(failure) => ("dead", None, failure.as_ref()),
        WaitResult::Expired => ("expired", None, None),
        WaitResult::Cancelled => ("cancelled", None, None),
        WaitResult::Gone => ("gone", None, None),
        WaitResult::TimedOut => ("timed-out", None, None),
    };
    json!({
        "id": id.as_str(),
        "tenant": topic.tenant.as_str(),
        "topic": topic.topic.as_str(),
        "outcome": outcome,
        "output": output.map(document::payload),
        "failure": failure.map(document::failure),
    })
}

impl WaitResult {
    const fn exit(&self) -> Exit {
        match self {
            Self::Complete(_) => Exit::Done,
            Self::Dead(_) | Self::Expired | Self::Cancelled => Exit::NotCompleted,
            Self::Gone => Exit::Failed,
            Self::TimedOut => Exit::TimedOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::mpsc;

    use super::*;
    use gristmill_core::job::Progress;
    use gristmill_core::outcome::{FailureDetail, Reason};
    use gristmill_store::{Heartbeat, TopicCounts};

    /// A store that knows one job, and says of it what the list holds, one after the other; then its last again.
    #[derive(Debug)]
    struct KnownJob(parking_lot::Mutex<Vec<Option<JobView>>>);

    #[async_trait]
    impl Query for KnownJob {
        async fn counts(&self, _: &Name) -> Result<Vec<TopicCounts>, StoreError> {
            unreachable!("a wait counts no jobs")
        }

        async fn job(&self, _: &Name, _: &JobId) -> Result<Option<JobView>, StoreError> {
            let mut views = self.0.lock();
            Ok(if views.len() > 1 { views.remove(0) } else { views[0].clone() })
        }

        async fn ended(&self, _: &Name, _: &JobId) -> Result<Option<JobView>, StoreError> {
            unreachable!("a wait asks for no job that ended")
        }

        async fn ended_jobs(&self, _: &TopicId, _: usize) -> Result<Vec<JobView>, StoreError> {
            unreachable!("a wait lists no jobs")
        }

        async fn progress(&self, _: &Name, _: &[(JobId, u64)]) -> Result<Vec<Option<Progress>>, StoreError> {
            unreachable!("a wait asks for no progress")
        }

        async fn jobs_of_key(&self, _: &TopicId, _: &str, _: usize) -> Result<Option<Vec<JobId>>, StoreError> {
            unreachable!("a wait asks for no key")
        }

        async fn unique_holder(&self, _: &TopicId, _: &str) -> Result<Option<JobId>, StoreError> {
            unreachable!("a wait asks for no unique value")
        }

        async fn jobs_ahead(&self, _: &TopicId, _: &JobId) -> Result<Option<u64>, StoreError> {
            unreachable!("a wait asks for no place")
        }

        async fn clock_time(&self, _: &Name) -> Result<Timestamp, StoreError> {
            unreachable!("a wait asks for no time")
        }

        async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
            unreachable!("a wait lists no tenants")
        }

        async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
            unreachable!("a wait lists no workers")
        }
    }

    fn id() -> JobId {
        "j1".parse().unwrap()
    }

    fn tenant() -> Name {
        "acme".parse().unwrap()
    }

    fn view(state: JobState, result: Option<ResultView>) -> Option<JobView> {
        Some(JobView { state, last_failure: Some(failure()), result, ..JobView::over(id(), 1, None) })
    }

    fn failure() -> Failure {
        let detail = FailureDetail { code: "trap".into(), message: "unreachable\non fire".into(), context: None };
        Failure { backtrace: Some("0: handle\n1: start".into()), ..Failure::new(Reason::Trap, detail) }
    }

    async fn wait(views: Vec<Option<JobView>>, signals: &[Signal], patience: Duration) -> WaitResult {
        let (sender, receiver) = mpsc::channel(8);
        for signal in signals {
            sender.send(signal.clone()).await.unwrap();
        }
        let store = KnownJob(parking_lot::Mutex::new(views));
        let mut wait = Wait { tenant: tenant(), id: id(), said: 0, is_silent: true };
        let end = wait.for_end(&store, receiver, patience).await.unwrap();
        drop(sender);
        end
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_jobs_own_signal_ends_the_wait_and_no_others() {
        let done = view(JobState::Finished, Some(ResultView::Complete(None)));
        let waiting = || view(JobState::Ready, None);
        let finished = |job: &str| Signal::Finished { tenant: tenant(), id: job.parse().unwrap() };
        for signals in [&[finished("other"), finished("j1")][..], &[Signal::Lost]] {
            // There is no time to read the job again without a signal.
            let end = tokio::time::timeout(Duration::ZERO, wait(vec![waiting(), done.clone()], signals, LONG)).await;
            assert_eq!(end.expect("the signal ends the wait"), WaitResult::Complete(None));
        }
        let short = Duration::from_millis(5);
        assert_eq!(wait(vec![waiting()], &[finished("other")], short).await, WaitResult::TimedOut);
    }

    #[test]
    fn a_job_is_read_often_while_it_is_young_and_after_an_attempt_has_failed() {
        let next = |pause: &Duration| Some(pause_after(Some(*pause)));
        let pauses: Vec<_> = std::iter::successors(Some(pause_after(None)), next).take(8).collect();
        assert_eq!((pauses[0], pauses[7]), (LOOK_FIRST, LOOK_EVERY));
        assert!(pauses[..4].iter().sum::<Duration>() < Duration::from_secs(1), "{pauses:?}");
    }

    #[tokio::test]
    async fn a_job_that_is_over_before_the_wait_begins_is_found_at_once() {
        let dead = JobState::Dead { since: Timestamp::from_millis(1) };
        let cases = [
            (view(JobState::Finished, Some(ResultView::Expired)), WaitResult::Expired),
            (view(JobState::Finished, Some(ResultView::Cancelled)), WaitResult::Cancelled),
            (view(JobState::Finished, Some(ResultView::Dead(failure()))), WaitResult::Dead(Some(failure()))),
            (view(dead, None), WaitResult::Dead(Some(failure()))),
            (view(JobState::Finished, None), WaitResult::Gone),
            (None, WaitResult::Gone),
        ];
        for (view, end) in cases {
            assert_eq!(wait(vec![view], &[], LONG).await, end);
        }
    }

    #[test]
    fn each_failed_attempt_is_said_once_with_what_follows() {
        let at = Timestamp::from_millis;
        let running =
            |lease_until| JobState::Running { worker: "w".into(), delivery: 1, lease_until, cancelled: false };
        let mut wait = Wait { tenant: tenant(), id: id(), said: 0, is_silent: false };
        let mut news = |attempt, state, has_failed: bool| {
            let last_failure = has_failed.then(failure);
            wait.news(&JobView { attempts: attempt, last_failure, ..view(state, None).unwrap() }, at(1000))
        };
        assert_eq!(news(0, JobState::Ready, false), None);
        assert_eq!(news(1, running(at(9000)), false), None);
        let delayed = || JobState::Delayed { until: at(6000) };
        let said = "attempt 1 of job j1: trap: unreachable; the next one begins at 1970-01-01T00:00:06.000Z (in 5s)";
        assert_eq!(news(1, delayed(), true).as_deref(), Some(said));
        assert_eq!(news(1, delayed(), true), None);
        assert_eq!(news(2, running(at(9000)), true), None);
        let said = "attempt 2 of job j1: trap: unreachable; the next one is running";
        assert_eq!(news(3, running(at(9000)), true).as_deref(), Some(said));
        // The end of the wait says this one.
        assert_eq!(news(3, JobState::Dead { since: at(1) }, true), None);
    }
}
