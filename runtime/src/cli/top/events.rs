//! What happens on the server, as it comes.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::view::{Row, View};
use crate::cli::describe;
use gristmill_config::units;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_server::{RemoteStore, StreamedEvent};

/// Events that are kept.
const KEPT: usize = 500;

/// The latest events, from when they were listened to first until the end of the program.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    coming: Option<mpsc::Receiver<StreamedEvent>>,
    latest: VecDeque<StreamedEvent>,
}

impl EventLog {
    /// Listens, if it does not yet, or if the stream has ended.
    ///
    /// # Errors
    /// There is no server, or it is unavailable, or refuses.
    pub(super) async fn listen(&mut self, server: Option<&RemoteStore>, tenants: &[Name]) -> anyhow::Result<()> {
        self.take();
        if self.coming.as_ref().is_some_and(|coming| !coming.is_closed()) {
            return Ok(());
        }
        let server = server.context("events are streamed by a server: name it with --server")?;
        // More than one tenant is seen only with a token for all of them.
        let tenant = if let [tenant] = tenants { Some(tenant) } else { None };
        self.coming = Some(server.events(tenant).await?);
        Ok(())
    }

    /// Takes what has come. Returns whether that was anything.
    pub(super) fn take(&mut self) -> bool {
        let Some(coming) = &mut self.coming else { return false };
        let new: Vec<_> = std::iter::from_fn(|| coming.try_recv().ok()).take(KEPT).collect();
        let any = !new.is_empty();
        new.into_iter().for_each(|event| self.latest.push_front(event));
        self.latest.truncate(KEPT);
        any
    }

    /// The latest first.
    pub(super) fn latest(&self) -> Vec<StreamedEvent> {
        self.latest.iter().cloned().collect()
    }
}

/// An event in one row, and what it is about.
pub(super) fn row(event: &StreamedEvent, now: Timestamp) -> (Vec<String>, Row) {
    let StreamedEvent { kind, at_ms, tenant, topic, job, missed, more } = event;
    let of_topic = |topic: &Name| Some(TopicId { tenant: tenant.clone()?, topic: topic.clone() });
    let topic = topic.as_ref().and_then(of_topic);
    let cells = vec![
        at_ms.map(|at| describe::distance(at, now)).unwrap_or_default(),
        missed.map_or_else(|| kind.clone(), |missed| format!("{} missed", units::grouped(missed))),
        topic.as_ref().map(TopicId::to_string).unwrap_or_default(),
        job.as_ref().map(ToString::to_string).unwrap_or_default(),
        details(more),
    ];
    let view = match (tenant, job, topic) {
        (Some(tenant), Some(id), _) => Some(View::Job { tenant: tenant.clone(), id: id.clone() }),
        (_, None, Some(topic)) => Some(View::jobs_of(&topic)),
        _ => None,
    };
    (cells, view.map_or(Row::Nothing, Row::Event))
}

/// Names and values; the end of a name says in what unit its value is.
fn details(of: &Map<String, Value>) -> String {
    let pair = |(name, value): (&String, &Value)| {
        let value = match (value, value.as_u64()) {
            (Value::Object(inner), _) => return details(inner),
            (Value::String(text), _) => text.clone(),
            (_, Some(ms)) if name.ends_with("_ms") => units::about_duration(Duration::from_millis(ms)),
            (_, Some(bytes)) if name.ends_with("_bytes") => units::SIZE.about(bytes),
            (_, Some(number)) => units::grouped(number),
            _ => value.to_string(),
        };
        let name = name.trim_end_matches("_ms").trim_end_matches("_bytes");
        format!("{} {value}", name.replace('_', " "))
    };
    of.iter().map(pair).collect::<Vec<_>>().join("  ")
}
