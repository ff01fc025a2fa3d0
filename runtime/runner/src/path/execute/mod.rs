//! One attempt, from claim to settlement.

mod guest;
mod guest_server;
pub(crate) mod guests;
pub(crate) mod native;
mod processor_clock;
mod run_queue;
mod threads;
mod turns;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::decide::decide;
use super::work::{Finished, FinishedAttempt, Work};
use crate::context::ExecutorContext;
use crate::handlers::{Code, Handler, TopicHandler};
use crate::limits::full::hold_to_limits;
use crate::record::{self, Run};
use crate::recordings::{self, Recorded};
use crate::slots::TopicSlots;
use gristmill_core::admission;
use gristmill_core::job::{Claim, Name};
use gristmill_core::outcome::{Outcome, StateChange, Verdict};
use gristmill_core::topic::{Capability, Topic};
use gristmill_core::trace::TraceContext;
use gristmill_sandbox::{Attempt, Cancellation, CheckpointSender, LogSink, LogTail, Report, RequestTrace, Version};
use gristmill_store::{Settlement, StateWrite, before_start};

/// One attempt: run it, and decide what follows, which is still to be settled.
async fn execute(work: Work, context: Arc<ExecutorContext>) -> Finished {
    let mut work = work;
    let started = Instant::now();
    work.slot.start(started);
    let (claim, entry) = (&work.claim, work.entry.as_deref());
    let cancellation = Cancellation { ending: Arc::clone(&context.ending), control: Arc::clone(&work.control) };
    let trace = context.traces.as_ref().map(|traces| traces.begin(claim));
    let requests = trace.filter(|_| may_send(entry)).map(RequestTrace::new);
    let traced = (trace, requests.clone());
    // Here, so that the lines of an attempt that is cut off are not lost with it.
    let log = context.keeps_logs.then(Arc::<Mutex<LogTail>>::default);
    let is_traced = entry.is_none_or(|entry| entry.topic.server_log);
    let logs = match &log {
        Some(log) if is_traced => LogSink::TraceAndKeep(Arc::clone(log)),
        None if is_traced => LogSink::Trace,
        log => LogSink::Keep(log.clone().unwrap_or_default()),
    };
    let mut report = run(&work, cancellation, traced, logs, &context).await;
    hold_to_limits(claim, &mut report, &context).await;
    if let Some(trace) = &trace {
        report.follow_ups.iter_mut().for_each(|job| trace.pass_on(job));
    }

    if let Some((trial, is_candidate)) = entry.and_then(|entry| entry.trial.as_ref()) {
        trial.note(*is_candidate, &report);
    }
    let log = log.map(|log| std::mem::take(&mut *log.lock()));
    work.slot.charge(report.fuel, started.elapsed());
    conclude(work, started, report, Seen { trace, requests, log })
}

/// A job that does not begin here, because those that did take longer than was expected: another runner may have it.
fn give_back(work: Work) -> Finished {
    conclude(work, Instant::now(), Report::without_running(Outcome::PoolFull), Seen::default())
}

/// What an attempt leaves beside its report.
#[derive(Default)]
struct Seen {
    trace: Option<TraceContext>,
    requests: Option<RequestTrace>,
    log: Option<LogTail>,
}

/// Decides what follows.
fn conclude(work: Work, started: Instant, report: Report, seen: Seen) -> Finished {
    let Work { claim, entry, slot, arrived, control, .. } = work;
    let Seen { trace, requests, log } = seen;
    let handler = entry.as_deref().and_then(|entry| entry.handler.as_ref());
    let in_slot = started.elapsed();
    // What others had of the processor is measured for several guests together: no attempt has waited for longer than it took.
    let waited = control.waited().min(in_slot);
    let run = Run {
        version: handler.and_then(Handler::version),
        // A component that began has used fuel. What was cut off has neither fuel nor a duration that is known.
        ran: report.fuel > 0 || (handler.is_some_and(Handler::is_native) && !report.duration.is_zero()),
        started,
        queued: started.saturating_duration_since(arrived),
        waited,
        duration: in_slot.saturating_sub(waited),
        fuel: report.fuel,
        memory_peak: report.memory_peak,
        requests: report.requests,
        follow_ups: report.follow_ups.len(),
        follow_up_bytes: report.follow_ups.iter().map(|job| job.spec.body.data.len()).sum(),
        trace,
    };
    let outcome = report.outcome.kind();
    let topic = entry.as_deref().map(|entry| &entry.topic);
    let state = state_write(&claim, topic, report.state);
    let has_budget = topic.is_some_and(|topic| topic.fleet.tenant.fuel_per_hour.is_some());
    let fuel = if has_budget { run.fuel } else { 0 };
    let mut settlement = Settlement { state, fuel, ..decide(&claim, topic, report.outcome, report.follow_ups) };
    if topic.is_some_and(|topic| topic.park) {
        park(&mut settlement, run.version);
    }
    let recording = report.recording.zip(topic).map(|(recording, topic)| Recorded::of(&claim, topic, recording));
    let pause_after = topic.map_or(0, |topic| topic.pause_after_traps);
    Box::new(FinishedAttempt { claim, run, requests, outcome, settlement, log, recording, pause_after, slot })
}

async fn run(
    work: &Work,
    cancellation: Cancellation,
    (trace, requests): (Option<TraceContext>, Option<RequestTrace>),
    logs: LogSink,
    context: &ExecutorContext,
) -> Report {
    let (claim, entry) = (&work.claim, work.entry.as_deref());
    if let Some(outcome) = admission::before_attempt(claim, entry.map(|entry| &entry.topic)) {
        return Report::without_running(outcome);
    }
    // Asked of jobs that wait for others: only these look at the registry.
    let may_learn = |of: &Name| context.registry.borrow().may_learn(&claim.lease.topic, of);
    let job = match before_start(&*context.store, claim, &may_learn).await {
        Ok(job) => job.unwrap_or_else(|| Arc::clone(&claim.job)),
        Err(outcome) => return Report::without_running(outcome),
    };
    match entry.and_then(|entry| entry.handler.as_ref().map(|handler| (entry, handler))) {
        None => Report::without_running(Outcome::HandlerMissing),
        Some(_) if cancellation.control.is_killed() => Report::without_running(Outcome::Killed),
        Some(_) if context.abort.is_cancelled() => Report::without_running(Outcome::ShuttingDown),
        Some((entry, handler)) => {
            record::log_start(claim, handler);
            context.metrics.emit(|| record::start_event(claim, handler));
            let control = Arc::clone(&cancellation.control);
            let attempt = attempt(claim, entry, work.clock_offset_ms, context, cancellation);
            let attempt = Arc::new(Attempt { trace, requests, job, logs, ..attempt });
            tokio::select! {
                biased;
                report = invoke(entry, handler, attempt, work.slot.topic()) => report,
                () = control.lease_lost() => Report::without_running(Outcome::LeaseExpired),
                () = context.abort.cancelled() => Report::without_running(Outcome::ShuttingDown),
            }
        }
    }
}

/// A job that died of its handler's code is to run again with another version of it: see [`parked`](crate::deployments::parked).
fn park(settlement: &mut Settlement, version: Option<Version>) {
    if let Verdict::Bury(failure) = &mut settlement.verdict
        && failure.is_of_the_code()
    {
        failure.parked_by = version.map(|version| version.to_string());
    }
}

/// Whether its handler may send requests.
fn may_send(entry: Option<&TopicHandler>) -> bool {
    entry.is_some_and(|entry| entry.topic.grants.http.is_some())
}

/// What the attempt leaves for the next job of its key.
fn state_write(claim: &Claim, topic: Option<&Topic>, change: Option<StateChange>) -> Option<StateWrite> {
    let (change, topic) = (change?, topic?);
    Some(StateWrite { key: claim.job.spec.shared_key()?.to_owned(), change, ttl: topic.state_ttl })
}

/// Runs the handler: a native function, a component in a fresh instance, or a component in an instance that its topic reuses.
async fn invoke(entry: &TopicHandler, handler: &Handler, attempt: Arc<Attempt>, topic: &TopicSlots) -> Report {
    match (&handler.code, &entry.instances) {
        (Code::Component(component), None) => component.invoke(attempt).await,
        // In boxes: the usual attempt does not carry the others around.
        (Code::Component(component), Some(instances)) => Box::pin(instances.invoke(component, attempt)).await,
        (Code::Native(function), _) if topic.is_brief() => Box::pin(function.invoke_brief(attempt)).await,
        (Code::Native(function), _) => Box::pin(function.invoke(attempt)).await,
    }
}

fn attempt(
    claim: &Arc<Claim>,
    entry: &TopicHandler,
    clock_offset_ms: i64,
    context: &ExecutorContext,
    cancellation: Cancellation,
) -> Attempt {
    let topic = &entry.topic;
    Attempt {
        job: Arc::clone(&claim.job),
        attempt: claim.attempt,
        max_attempts: claim.job.spec.options.max_attempts.unwrap_or(topic.retry.attempts),
        checkpoint: claim.checkpoint.clone(),
        adapter: topic.adapter.clone(),
        limits: topic.limits,
        grants: Arc::clone(&topic.grants),
        targets: Arc::clone(&entry.targets),
        clock_offset_ms,
        cancellation,
        checkpoints: Some(CheckpointSender { claim: Arc::clone(claim), requests: Arc::clone(&context.checkpoints) }),
        states: topic.grants.has(Capability::State).then(|| context.states.clone()),
        logs: LogSink::Trace,
        trace: None,
        requests: None,
        record: recordings::record(topic.record, claim),
    }
}
