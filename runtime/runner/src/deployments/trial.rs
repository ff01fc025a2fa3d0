//! Compares a version that does a share of a topic's jobs with the one that does the rest, on this runner; and has the gated topics' new
//! versions tried.

use std::time::Duration;

use crate::context::Context;
use crate::handlers::{Handler, TopicHandler};
use gristmill_core::deployment::Deployment;
use gristmill_core::trial::{GATE_SHARE, Judgement};
use gristmill_metrics::{Event, EventKind};
use gristmill_sandbox::Version;
use gristmill_store::StoreError;

/// How often the attempts of both are compared while a version is tried.
const JUDGE_EVERY: Duration = Duration::from_millis(250);
/// After the store has refused a decision.
const AFTER_REFUSAL: Duration = Duration::from_secs(10);

/// Decides, until stopped, about the versions that are tried here, and has tried what is to be.
pub(crate) async fn run(mut context: Context) {
    loop {
        let registry = context.registry.borrow_and_update().clone();
        let mut look_again = None;
        for entry in registry.entries() {
            look_again = look_again.or_else(|| entry.candidate.is_some().then_some(JUDGE_EVERY));
            let next = judged(entry).or_else(|| to_try(entry));
            let Some((next, event)) = next else { continue };
            let decided = tokio::select! {
                biased;
                () = context.stop.cancelled() => return,
                decided = decide(&context, entry, &next, event) => decided,
            };
            if let Err(error) = decided {
                let (topic, error) = (&entry.topic.id, anyhow::Error::from(error));
                tracing::error!(%topic, "failed to write which version serves, trying again: {error:#}");
                look_again = Some(AFTER_REFUSAL);
            }
        }
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            changed = context.registry.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(look_again.unwrap_or_default()), if look_again.is_some() => {}
        }
    }
}

/// What is decided of a topic's handler, and how people learn of it.
struct Decided {
    kind: EventKind,
    version: Version,
    reason: String,
}

/// What follows for a version that is tried.
fn judged(entry: &TopicHandler) -> Option<(Deployment, Decided)> {
    let (candidate, before) = (entry.candidate.as_ref()?, entry.deployment.as_ref()?);
    let version = candidate.version;
    Some(match candidate.trial.judge()? {
        Judgement::Promote(numbers) => {
            let decided = Decided { kind: EventKind::HandlerPromoted, version, reason: numbers };
            (Deployment::serving(version, Some(before)), decided)
        }
        Judgement::RollBack(rule, numbers) => {
            let reason = format!("{rule}: {numbers}");
            let next = Deployment::rolling_back(version, before.stable, reason.clone(), Some(before));
            (next, Decided { kind: EventKind::HandlerRolledBack, version: before.stable, reason })
        }
    })
}

/// The first version of a gated topic is taken as it is; each later one is tried.
fn to_try(entry: &TopicHandler) -> Option<(Deployment, Decided)> {
    if !entry.topic.gate {
        return None;
    }
    let (kind, before) = (EventKind::HandlerTried, entry.deployment.as_ref());
    match (before, entry.untried) {
        (Some(before), Some(version)) => {
            let reason = format!("{} % of the jobs, since the topic is gated", GATE_SHARE / 100);
            let next = Deployment::trying(version, GATE_SHARE, before.stable, Some(before));
            Some((next, Decided { kind, version, reason }))
        }
        (None, _) => {
            let version = entry.handler.as_ref().and_then(Handler::version)?;
            let decided =
                Decided { kind: EventKind::HandlerPromoted, version, reason: "the first of a gated topic".into() };
            Some((Deployment::serving(version, None), decided))
        }
        _ => None,
    }
}

async fn decide(
    context: &Context,
    entry: &TopicHandler,
    next: &Deployment,
    Decided { kind, version, reason }: Decided,
) -> Result<(), StoreError> {
    let (topic, handler) = (&entry.topic.id, &entry.topic.handler);
    // Another runner may have decided at the same time: then its record comes.
    let written = context.retry.call(|| context.store.write_deployment(topic, next)).await.transpose()?;
    if written != Some(true) {
        return Ok(());
    }
    if kind == EventKind::HandlerRolledBack {
        tracing::error!(%topic, %handler, %version, "handler-rolled-back: {reason}");
    } else {
        tracing::info!(%topic, %handler, %version, "{}: {reason}", kind.as_str());
    }
    context.metrics.emit(|| Event {
        handler: Some(handler.clone()),
        version: Some(version.to_string()),
        reason: Some(reason.clone()),
        ..Event::of_topic(kind, topic)
    });
    Ok(())
}
