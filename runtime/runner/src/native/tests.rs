//! Native handlers in a runner of their own, with a store in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::handlers::{Available, Code, Handler, HandlerRegistry};
use crate::{AttemptRecord, Runner, RunnerSettings};
use gristmill_config::Manifest;
use gristmill_core::job::{Due, JobOptions, Name, WorkerId};
use gristmill_core::outcome::{OutcomeKind, Verdict};
use gristmill_core::topic::{Grants, Limits};
use gristmill_sandbox::LogSink;
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::prelude::*;

const MANIFEST: &str = "[topics.work]\nattempts = 2\nbackoff = \"1ms\"\ntimeout = \"200ms\"\noutput-limit = \"1KiB\"\nstate = true\nstate-limit = \"4B\"\n";

/// A registry in which this handler does the jobs of `work`, and of the topics of `manifest` that choose it.
fn registry(handler: NativeHandler) -> HandlerRegistry {
    let manifest = Manifest::parse(MANIFEST, Path::new("gristmill.toml")).unwrap();
    let name: Name = "work".parse().unwrap();
    let handlers = BTreeMap::from([(name.clone(), Handler { name, code: Code::Native(handler) })]);
    HandlerRegistry::new(&manifest, &Available { handlers, ..Available::default() }, &HandlerRegistry::default())
}

/// Runs one job of the topic `work` to its end, and returns the records of its attempts.
async fn run(handler: NativeHandler) -> Vec<AttemptRecord> {
    let store = Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let (sender, mut records) = mpsc::unbounded_channel();
    let settings = RunnerSettings {
        concurrency: 4,
        observer: Some(Arc::new(move |record: &AttemptRecord| drop(sender.send(record.clone())))),
        ..RunnerSettings::new(WorkerId::new("w"))
    };
    let registry = watch::Sender::new(Arc::new(registry(handler)));
    let runner = Runner::start(store.clone(), registry.subscribe(), settings).unwrap();
    let body = Payload { data: b"body".to_vec(), content_type: None };
    let options = JobOptions { key: Some("k".into()), ..JobOptions::default() };
    let spec = JobSpec { options, ..JobSpec::new("work".parse().unwrap(), body) };
    store.push(&[NewJob { spec, due: Due::Now }]).await.unwrap();
    let mut attempts = Vec::new();
    while !attempts.last().is_some_and(|last: &AttemptRecord| last.verdict.is_final()) {
        let next = tokio::time::timeout(Duration::from_secs(60), records.recv()).await;
        attempts.push(next.expect("the job does not end").unwrap());
    }
    runner.shutdown(CancellationToken::new()).await;
    attempts
}

fn outcomes(attempts: &[AttemptRecord]) -> Vec<OutcomeKind> {
    attempts.iter().map(|attempt| attempt.outcome).collect()
}

#[tokio::test]
async fn a_native_handler_gets_the_job_and_its_result_is_kept() {
    let attempts = run(NativeHandler::new(async |job: NativeJob| {
        assert_eq!((job.attempt(), job.max_attempts(), job.is_cancelled()), (1, 2, false));
        Ok::<_, HandlerError>(job.body().to_ascii_uppercase())
    }))
    .await;
    let Verdict::Ack(Some(result)) = &attempts[0].verdict else { panic!("{:?}", attempts[0].verdict) };
    assert_eq!(result.data, b"BODY");
    assert!(attempts[0].run.is_some_and(|run| run.ran && run.version.is_none()));
}

#[tokio::test]
async fn a_native_handler_writes_the_jobs_log_within_its_limit_and_knows_its_times() {
    let handler = NativeHandler::new(async |job: NativeJob| {
        let (job_is, remaining) = (job.job(), job.deadline().since(job.now()));
        assert!(job_is.due_at >= job_is.enqueued_at && remaining <= Duration::from_secs(30));
        assert_eq!((job.settings()["mode"].as_str(), job.secrets().len()), ("dry", 0));
        for message in ["milled", "and more than fits"] {
            job.log(LogLine { level: tracing::Level::INFO, source: "log", message: message.into(), fields: vec![] });
        }
        Ok::<_, HandlerError>(())
    });
    let lines = Arc::default();
    let spec = JobSpec::new("work".parse().unwrap(), Payload::default());
    let mut attempt = Attempt::at(spec, Limits { log_bytes: 10, ..Limits::default() });
    attempt.logs = LogSink::Collect(Arc::clone(&lines));
    attempt.grants = Arc::new(Grants { config: BTreeMap::from([("mode".into(), "dry".into())]), ..Grants::default() });
    let report = handler.invoke(attempt).await;
    assert_eq!((report.outcome, report.log_lines_dropped), (Outcome::Complete(None), 1));
    let messages: Vec<_> = lines.lock().iter().map(|line: &LogLine| line.message.clone()).collect();
    assert_eq!(messages, ["milled", "1 log lines dropped"]);
}

#[tokio::test]
async fn a_state_is_there_after_it_was_set_and_only_if_the_attempt_completes() {
    let attempts = run(NativeHandler::new(async |job: NativeJob| {
        assert_eq!(job.state().await, Ok(None));
        assert_eq!(job.set_state(Some(b"12345")), Err(StateError::TooLarge(4)));
        job.set_state(Some(b"1234"))?;
        assert_eq!(job.state().await?.as_deref(), Some(&b"1234"[..]));
        if job.attempt() == 1 { Err(HandlerError::retry("not yet")) } else { Ok(()) }
    }))
    .await;
    assert_eq!(outcomes(&attempts), [OutcomeKind::Retry, OutcomeKind::Complete]);
}

#[tokio::test]
async fn an_error_is_retried_and_finds_its_checkpoint() {
    let attempts = run(NativeHandler::new(async |job: NativeJob| {
        if job.checkpoint() == Some(b"half") {
            return Ok(());
        }
        job.save_checkpoint(b"half").await?;
        Err(std::io::Error::other("the disk is full").into())
    }))
    .await;
    assert_eq!(outcomes(&attempts), [OutcomeKind::Retry, OutcomeKind::Complete]);
    assert_eq!(attempts[0].verdict.failure().unwrap().detail.message, "the disk is full");
}

#[tokio::test]
async fn a_panic_traps_the_attempt_and_nothing_else() {
    let attempts =
        run(NativeHandler::new(async |_: NativeJob| -> Result<(), HandlerError> { panic!("on fire") })).await;
    assert_eq!(outcomes(&attempts), [OutcomeKind::Trapped, OutcomeKind::Trapped]);
    assert_eq!(attempts[0].verdict.failure().unwrap().detail.message, "on fire");
}

/// Sets its flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_timeout_ends_the_function() {
    let ended = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&ended);
    let attempts = run(NativeHandler::new(move |_: NativeJob| {
        let dropped = Dropped(Arc::clone(&flag));
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<(), HandlerError>>().await
        }
    }))
    .await;
    assert_eq!(outcomes(&attempts), [OutcomeKind::TimedOut, OutcomeKind::TimedOut]);
    assert!(ended.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_kill_ends_the_function_at_an_await() {
    let handler = NativeHandler::new(async |_: NativeJob| std::future::pending::<Result<(), HandlerError>>().await);
    let limits = gristmill_core::topic::Limits { timeout: Duration::from_secs(3600), ..Default::default() };
    let attempt = Attempt::at(JobSpec::new("work".parse().unwrap(), Payload::default()), limits);
    let control = Arc::clone(&attempt.cancellation.control);
    let (report, ()) = tokio::join!(handler.invoke(attempt), async { control.kill() });
    assert_eq!(report.outcome, Outcome::Killed);
}

#[tokio::test]
async fn a_brief_attempt_ends_as_any_other_also_if_it_waits_or_panics() {
    let attempt =
        || Arc::new(Attempt::at(JobSpec::new("work".parse().unwrap(), Payload::default()), Default::default()));
    let at_once = NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(b"done".to_vec()));
    let waits = NativeHandler::new(async |_: NativeJob| {
        tokio::task::yield_now().await;
        Ok::<_, HandlerError>(b"done".to_vec())
    });
    for handler in [at_once, waits] {
        let (report, usual) = (handler.invoke_brief(attempt()).await, handler.invoke(attempt()).await);
        assert_eq!(report.outcome, usual.outcome);
        assert!(matches!(report.outcome, Outcome::Complete(Some(_))) && !report.duration.is_zero());
    }
    let panics = NativeHandler::new(async |_: NativeJob| -> Result<(), HandlerError> { panic!("on fire") });
    let report = panics.invoke_brief(attempt()).await;
    assert!(matches!(report.outcome, Outcome::Trapped { message, .. } if message == "on fire"));
}

#[tokio::test]
async fn a_task_that_outlives_its_attempt_is_told_that_it_comes_too_late() {
    let (sender, mut kept) = mpsc::unbounded_channel();
    run(NativeHandler::new(move |job: NativeJob| {
        sender.send(job).unwrap();
        async { Ok::<_, HandlerError>(()) }
    }))
    .await;
    let job = kept.recv().await.unwrap();
    let follow_up = NewJob { spec: JobSpec::new("work".parse().unwrap(), Payload::default()), due: Due::Now };
    assert_eq!(job.enqueue(follow_up), Err(NoFollowUp::Ended));
    let ended = "the attempt has ended: use its state before its function returns";
    assert_eq!(job.set_state(Some(b"late")), Err(StateError::Unavailable(ended.into())));
    assert_eq!(job.state().await, Err(StateError::Unavailable(ended.into())));
}

#[tokio::test]
async fn results_and_follow_ups_are_held_to_the_limits_of_the_topic() {
    let attempts = run(NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(vec![0; 1025]))).await;
    assert_eq!(outcomes(&attempts), [OutcomeKind::LimitExceeded]);

    let attempts = run(NativeHandler::new(async |job: NativeJob| {
        let follow_up = |topic: &str| NewJob {
            spec: JobSpec::new(topic.parse().unwrap(), Payload::default()),
            due: Due::After(Duration::from_secs(60)),
        };
        job.enqueue(follow_up("work"))?;
        assert!(matches!(job.enqueue(follow_up("nowhere")), Err(NoFollowUp::UnknownTopic(_))));
        assert!(matches!(job.enqueue(follow_up("acme/work")), Err(NoFollowUp::Denied(_))));
        Ok(())
    }))
    .await;
    assert_eq!(attempts[0].run.map(|run| run.follow_ups), Some(1));

    // Each is within the topic's `payload-limit`; together they are over the bound in bytes.
    let attempts = run(NativeHandler::new(async |job: NativeJob| {
        let body = || Payload { data: vec![7; 1 << 20], content_type: None };
        let follow_up =
            || NewJob { spec: JobSpec::new("work".parse().unwrap(), body()), due: Due::After(Duration::from_secs(60)) };
        for _ in 0..16 {
            job.enqueue(follow_up())?;
        }
        assert_eq!(job.enqueue(follow_up()), Err(NoFollowUp::TooLarge));
        Ok(())
    }))
    .await;
    assert_eq!(attempts[0].run.map(|run| run.follow_ups), Some(16));
}
