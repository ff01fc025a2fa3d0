//! Passes on how far attempts are: to the store, so that every server can show it, and to the streams of events.

use std::time::Duration;

use super::context::Context;
use gristmill_metrics::{Event, EventKind};

/// How often, at most, the progress of an attempt is passed on: what it says in between is replaced by what it says last.
const EVERY: Duration = Duration::from_secs(1);

/// Until the runner stops.
pub(super) async fn run(context: Context) {
    let Context { store, in_flight, metrics, stop, .. } = context;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = in_flight.until_progress() => {}
        }
        let news = in_flight.progress();
        if !news.is_empty() {
            for (lease, progress) in &news {
                metrics.emit(|| Event {
                    delivery: Some(lease.delivery),
                    worker: Some(lease.worker.as_str().to_owned()),
                    basis_points: Some(progress.basis_points),
                    ..Event::of_job(EventKind::JobProgress, &lease.topic, &lease.job)
                });
            }
            // The next one has newer progress; that the store is unavailable is logged elsewhere.
            if let Err(error) = store.note_progress(&news).await {
                tracing::debug!("failed to note the progress of attempts: {:#}", anyhow::Error::from(error));
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
