//! Waits for the end of a job: told by a signal, and looking for itself now and then.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::exit::Exit;
use super::global::Global;
use super::{document, screen};
use crate::job::{JobId, Name, Payload, TopicId};
use crate::outcome::Failure;
use crate::store::{JobState, ResultView, Signal, Store, StoreError};

/// A lost signal costs at most this long.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How the wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Complete(Option<Payload>),
    /// Without a failure: the store does not know it any more.
    Dead(Option<Failure>),
    Expired,
    /// The job is over and nothing was kept of it.
    Gone,
    /// Not over yet.
    TimedOut,
}

/// Waits at most `patience`. `signals` must have been asked for before the job was pushed.
pub(super) async fn for_end(
    store: &dyn Store,
    tenant: &Name,
    id: &JobId,
    signals: Receiver<Signal>,
    patience: Duration,
) -> Result<End, StoreError> {
    match tokio::time::timeout(patience, end(store, tenant, id, signals)).await {
        Ok(end) => end,
        // The very last chance: the signal may have been lost a moment ago.
        Err(_) => Ok(look(store, tenant, id).await?.unwrap_or(End::TimedOut)),
    }
}

async fn end(store: &dyn Store, tenant: &Name, id: &JobId, mut signals: Receiver<Signal>) -> Result<End, StoreError> {
    loop {
        if let Some(end) = look(store, tenant, id).await? {
            return Ok(end);
        }
        let told = async { while signals.recv().await.is_some_and(|signal| !is_about(&signal, tenant, id)) {} };
        if tokio::time::timeout(LOOK_EVERY, told).await.is_ok() && signals.is_closed() {
            // Nobody will tell us anything any more.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn is_about(signal: &Signal, tenant: &Name, id: &JobId) -> bool {
    match signal {
        Signal::Finished(whose, which) => whose == tenant && which == id,
        Signal::Lost => true,
        Signal::Ready(_) | Signal::Due(..) => false,
    }
}

async fn look(store: &dyn Store, tenant: &Name, id: &JobId) -> Result<Option<End>, StoreError> {
    let Some(view) = store.job(tenant, id).await? else { return Ok(Some(End::Gone)) };
    Ok(match (view.result, view.state) {
        (Some(ResultView::Complete(output)), _) => Some(End::Complete(output)),
        (Some(ResultView::Dead(failure)), _) => Some(End::Dead(Some(failure))),
        (Some(ResultView::Expired), _) => Some(End::Expired),
        (None, JobState::Dead { .. }) => Some(End::Dead(view.last_failure)),
        (None, JobState::Finished) => Some(End::Gone),
        (None, JobState::Ready | JobState::Delayed { .. } | JobState::Running { .. }) => None,
    })
}

/// The result to standard output, anything else to standard error.
pub(super) fn tell(global: &Global, topic: &TopicId, id: &JobId, end: &End) -> anyhow::Result<Exit> {
    if global.json {
        screen::document(&as_document(topic, id, end))?;
        return Ok(end.exit());
    }
    match end {
        End::Complete(output) => screen::bytes(output.as_ref().map_or(&[], |output| output.data.as_slice()))?,
        End::Dead(failure) => screen::note(&format!("job {id} is dead: {}", about(failure.as_ref()))),
        End::Expired => screen::note(&format!("job {id} expired before it could start")),
        End::Gone => screen::note(&format!("job {id} is over, and what became of it was not kept")),
        End::TimedOut => {
            let tenant = if topic.tenant.as_str() == crate::job::DEFAULT_TENANT {
                String::new()
            } else {
                format!(" --tenant {}", topic.tenant)
            };
            screen::note(&format!("job {id} is not done yet; ask again with `gristmill job show {id}{tenant}`"));
        }
    }
    Ok(end.exit())
}

/// A failure in words, with its backtrace below.
pub(super) fn about(failure: Option<&Failure>) -> String {
    let Some(Failure { reason, detail, backtrace }) = failure else { return "nobody knows why any more".into() };
    let mut text = reason.to_string();
    if detail.code != reason.as_str() && !detail.code.is_empty() {
        text.push_str(&format!(" ({})", screen::clean(&detail.code)));
    }
    if !detail.message.is_empty() {
        text.push_str(&format!(": {}", screen::clean(&detail.message)));
    }
    for line in backtrace.iter().flat_map(|backtrace| backtrace.lines()) {
        text.push_str(&format!("\n  {}", screen::clean(line)));
    }
    text
}

fn as_document(topic: &TopicId, id: &JobId, end: &End) -> Value {
    let (outcome, output, failure) = match end {
        End::Complete(output) => ("complete", output.as_ref(), None),
        End::Dead(failure) => ("dead", None, failure.as_ref()),
        End::Expired => ("expired", None, None),
        End::Gone => ("gone", None, None),
        End::TimedOut => ("timed-out", None, None),
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

impl End {
    const fn exit(&self) -> Exit {
        match self {
            Self::Complete(_) => Exit::Done,
            Self::Dead(_) | Self::Expired => Exit::NotCompleted,
            Self::Gone => Exit::Failed,
            Self::TimedOut => Exit::TimedOut,
        }
    }
}
