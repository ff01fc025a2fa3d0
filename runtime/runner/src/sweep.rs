//! Drops dead jobs that are older or more than their topic allows.

use std::time::Duration;

use super::start::Context;
use gristmill_core::topic::{DeadPolicy, Topic};
use gristmill_store::DeadLimits;

/// How often, jittered so that runners do not sweep together. Until then a topic may be over its limits.
const EVERY: Duration = Duration::from_secs(60);
/// Topics in one call.
const AT_ONCE: usize = 500;

/// Sweeps until stopped.
pub(super) async fn run(context: Context) {
    loop {
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(EVERY.mul_f64(0.5 + fastrand::f64())) => {}
        }
        let registry = context.registry.borrow().clone();
        let limits: Vec<DeadLimits> = registry.entries().map(|entry| limits_of(&entry.topic)).collect();
        for limits in limits.chunks(AT_ONCE) {
            tokio::select! {
                () = context.stop.cancelled() => return,
                () = sweep(&context, limits) => {}
            }
        }
    }
}

/// Drops until no topic is over its limits. Cancelled half-way it leaves the rest for the next time.
async fn sweep(context: &Context, limits: &[DeadLimits]) {
    loop {
        let dropped = match context.retry.call(|| context.store.sweep(limits)).await {
            Some(Ok(dropped)) => dropped,
            Some(Err(error)) => {
                tracing::error!("failed to drop old dead jobs: {:#}", anyhow::Error::from(error));
                return;
            }
            None => return,
        };
        for (DeadLimits { topic, .. }, jobs) in limits.iter().zip(&dropped).filter(|(_, jobs)| **jobs > 0) {
            tracing::warn!(%topic, jobs, "discarded dead jobs over the topic's limits of age or number");
        }
        if dropped.iter().all(|jobs| *jobs == 0) {
            return;
        }
    }
}

fn limits_of(topic: &Topic) -> DeadLimits {
    let DeadPolicy { keep, retention } = topic.dead;
    DeadLimits { topic: topic.id.clone(), keep, retention }
}
