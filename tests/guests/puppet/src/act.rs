//! Carries a script out.

use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gristmill_guest::{
    AfterFailed, EnqueueError, Failure, IntoOutcome, Job, Json, NewJob, Outcome, Payload, context, log, snooze,
};

use crate::script::{Cause, Count, End, Enqueue, Script, Step};
use crate::{Report, evil, version};

/// That this instance has begun.
static JOBS: AtomicU64 = AtomicU64::new(0);

/// The handler.
pub(crate) fn play(job: Job) -> Result<Outcome, Failure> {
    JOBS.fetch_add(1, Ordering::Relaxed);
    version::misbehave();
    let script: Script = job.json()?;
    // What a step allocates to keep lives until the attempt ends.
    let mut kept = Vec::new();
    let mut ids = Vec::new();
    for step in script.steps {
        if let Step::End(ending) = step {
            return end(ending, &job);
        }
        act(step, &job, &mut kept, &mut ids)?;
    }
    ().into_outcome()
}

/// `ids` are those of the jobs that the attempt has enqueued.
fn act(step: Step, job: &Job, kept: &mut Vec<Vec<u8>>, ids: &mut Vec<String>) -> Result<(), Failure> {
    match step {
        Step::Log(text) => log::info(&text, &[("puppet", &"yes")]),
        Step::LogFlood { lines, bytes } => {
            let line = "x".repeat(bytes);
            (0..lines).for_each(|_| log::info(&line, &[]));
        }
        Step::Stdout(text) => print(std::io::stdout(), &text),
        Step::Stderr(text) => print(std::io::stderr(), &text),
        Step::StdoutFlood { lines, bytes } => {
            let line = "x".repeat(bytes) + "\n";
            (0..lines).for_each(|_| print(std::io::stdout(), &line));
        }
        Step::Enqueue(new) => enqueue(&new, job, ids).try_for_each(|answer| answer)?,
        Step::EnqueueIgnoringErrors(new) => enqueue(&new, job, ids).for_each(drop),
        Step::EnqueueUntilRefused(new) => drop(enqueue(&new, job, ids).find(Result::is_err)),
        Step::Checkpoint(state) => context::checkpoint(state)?,
        Step::CheckpointBytes(bytes) => {
            if let Err(error) = context::checkpoint(vec![b'x'; bytes]) {
                log::warn("checkpoint refused", &[("error", &error)]);
            }
        }
        Step::Progress(basis_points, note) => context::progress(basis_points, note.as_deref()),
        Step::SleepMs(millis) => evil::sleep(Duration::from_millis(millis)),
        Step::Burn(rounds) => evil::burn(rounds),
        Step::HostCalls(calls) => evil::call_host(calls),
        Step::Leak(bytes) => _ = black_box(vec![1_u8; bytes].leak()),
        Step::Allocate(bytes) => kept.push(black_box(vec![1; bytes])),
        Step::TrapIfUsed if JOBS.load(Ordering::Relaxed) > 1 => evil::unreachable(),
        Step::WaitUntilCancelled => {
            while !context::is_cancelled() {
                evil::sleep(Duration::from_millis(5));
            }
        }
        Step::RetryUntilAttempt { attempt, after_ms } if job.attempt < attempt => {
            return Err(retry(Cause { code: "not-yet".into(), after_ms, ..Cause::default() }));
        }
        Step::RetryUntilCheckpoint(state) if job.checkpoint.is_none() => {
            context::checkpoint(state)?;
            return Err(Failure::retry("not-yet", "saved a checkpoint"));
        }
        Step::TrapIfUsed | Step::RetryUntilAttempt { .. } | Step::RetryUntilCheckpoint(_) | Step::End(_) => {}
    }
    Ok(())
}

fn end(end: End, job: &Job) -> Result<Outcome, Failure> {
    match end {
        End::Complete => ().into_outcome(),
        End::Text(text) => text.into_outcome(),
        End::Bytes(bytes) => vec![b'x'; bytes].into_outcome(),
        End::Report { config, secrets } => Json(Report::of(job, config, secrets)).into_outcome(),
        End::Version => Payload::from(version().to_vec()).into_outcome(),
        End::JobCount => JOBS.load(Ordering::Relaxed).to_string().into_outcome(),
        End::SnoozeMs(millis) => Ok(snooze(Duration::from_millis(millis))),
        End::Retry(cause) => Err(retry(cause)),
        End::Reject(cause) => Err(context_of(&cause, Failure::reject(cause.code.as_str(), cause.message.as_str()))),
        End::Panic(message) => evil::panic(&message),
        End::Unreachable => evil::unreachable(),
        End::StackOverflow => evil::overflow_stack(),
        End::InfiniteLoop => evil::spin(),
        End::MemoryBomb => evil::exhaust_memory(),
        End::Exit(code) => evil::exit(code),
    }
}

fn retry(cause: Cause) -> Failure {
    let failure = context_of(&cause, Failure::retry(cause.code.as_str(), cause.message.as_str()));
    match cause.after_ms {
        Some(millis) => failure.after(Duration::from_millis(millis)),
        None => failure,
    }
}

fn context_of(cause: &Cause, failure: Failure) -> Failure {
    match &cause.context {
        Some(text) => failure.with_context(text.as_str()),
        None => failure,
    }
}

/// One answer of the host for each job.
fn enqueue(job: &Enqueue, runs: &Job, ids: &mut Vec<String>) -> impl Iterator<Item = Result<(), EnqueueError>> {
    let count = match job.count {
        Count::Once => 1,
        Count::Times(times) => times,
        Count::Forever => u64::MAX,
    };
    let named = |name: &String| match name.parse::<usize>() {
        Ok(nth) => ids.get(nth).unwrap_or(name).clone(),
        Err(_) if name == "itself" => runs.id.clone(),
        Err(_) => name.clone(),
    };
    let (after, batch) = (job.after.iter().map(named).collect::<Vec<_>>(), job.batch.as_ref().map(named));
    (0..count).map(move |_| {
        let mut new = NewJob::to(&job.topic).body(job.data.as_str()).after_jobs(&after);
        if let Some(unique) = &job.unique {
            new = new.unique(unique);
        }
        if let Some(key) = &job.key {
            new = new.key(key);
        }
        if let Some(millis) = job.delay_ms {
            new = new.after(Duration::from_millis(millis));
        }
        if let Some(batch) = &batch {
            new = new.batch(batch);
        }
        if job.run_after_failed {
            new = new.after_failed(AfterFailed::Run);
        }
        if job.open {
            new = new.open();
        }
        ids.push(new.enqueue()?);
        Ok(())
    })
}

/// A closed or full pipe is the host's business, not the puppet's.
fn print(mut to: impl Write, text: &str) {
    drop(to.write_all(text.as_bytes()).and_then(|()| to.flush()));
}
