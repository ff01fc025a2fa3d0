//! Drops what has outlived its limits, in every topic of the store: dead jobs that are older or more than their topic allows,
//! and topics that are not in use any more and that only a push made.

use std::time::Duration;

use crate::context::Context;
use crate::handlers::HandlerRegistry;
use crate::tenants;
use gristmill_core::job::{Name, TopicId};
use gristmill_store::{DeadLimits, StoreError, Sweepable};

/// How often, jittered so that runners do not sweep together. Until then a topic may be over its limits.
const EVERY: Duration = Duration::from_secs(60);
/// Topics in one call.
const AT_ONCE: usize = 500;
/// The runner forgets a topic that was not in use for this long, and that neither the manifest nor a component makes.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Sweeps until stopped.
pub(crate) async fn run(context: Context) {
    let outside = context.tenants.outside();
    loop {
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(EVERY.mul_f64(0.5 + fastrand::f64())) => {}
        }
        let registry = context.registry.borrow().clone();
        let all = tenants::all(&registry, &outside);
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = sweep_all(&context, &registry, all) => {}
        }
    }
}

/// Cancelled half-way it leaves the rest for the next time.
async fn sweep_all(context: &Context, registry: &HandlerRegistry, tenants: impl IntoIterator<Item = Name>) {
    for tenant in tenants {
        let look = || context.store.sweepable(&tenant, FORGET_AFTER);
        let Some(Sweepable { perishable, idle }) = done(context.retry.call(look).await) else { continue };
        let limits: Vec<_> = perishable.into_iter().filter_map(|topic| limits_of(registry, topic)).collect();
        for limits in limits.chunks(AT_ONCE) {
            sweep(context, limits).await;
        }
        for topic in idle.iter().filter(|topic| registry.topic(topic).is_none()) {
            if done(context.retry.call(|| context.store.forget_topic(topic)).await) == Some(true) {
                tracing::debug!(%topic, "forgot a topic without jobs");
            }
        }
    }
    // What belongs to no topic.
    sweep(context, &[]).await;
}

/// Drops until no topic is over its limits.
async fn sweep(context: &Context, limits: &[DeadLimits]) {
    while let Some(dropped) = done(context.retry.call(|| context.store.sweep(limits)).await) {
        for (DeadLimits { topic, .. }, jobs) in limits.iter().zip(&dropped).filter(|(_, jobs)| **jobs > 0) {
            tracing::warn!(%topic, jobs, "discarded dead jobs over the topic's limits of age or number");
        }
        if dropped.iter().all(|jobs| *jobs == 0) {
            return;
        }
    }
}

/// What came of a call; `None` if it failed, which is logged, or if the runner stops.
fn done<T>(outcome: Option<Result<T, StoreError>>) -> Option<T> {
    let failed = |error| tracing::error!("failed to sweep: {:#}", anyhow::Error::from(error));
    outcome?.map_err(failed).ok()
}

fn limits_of(registry: &HandlerRegistry, topic: TopicId) -> Option<DeadLimits> {
    let policy = registry.dead_policy(&topic)?;
    Some(DeadLimits { topic, keep: policy.keep, retention: policy.retention })
}
