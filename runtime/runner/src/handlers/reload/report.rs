//! What a reload logs, counts and emits.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Reloader;
use crate::handlers::changes::{Changes, LoadedFile, Refusal};
use crate::handlers::handler::TopicHandler;
use crate::handlers::registry::HandlerRegistry;
use gristmill_config::Manifest;
use gristmill_core::job::{DEFAULT_TENANT, Name};
use gristmill_metrics::{self as metrics, Event, Reload};
use gristmill_sandbox::Kind;

/// How many handlers are logged by name when they are loaded. More are counted, in a line a second.
const NAMED: usize = 20;
/// How often it is logged how many components are still to be compiled.
const PROGRESS: Duration = Duration::from_secs(1);

/// Handlers that were loaded and not logged by name.
#[derive(Debug, Default)]
pub(super) struct Progress {
    loaded: usize,
    logged_at: Option<Instant>,
}

impl Reloader {
    /// Logs and emits which topics have no handler, or an older one, and why: once, and not with each change of others.
    pub(super) fn say_idle(&mut self, registry: &HandlerRegistry) {
        let handlers = self.handlers();
        let available: Vec<_> = handlers.keys().cloned().collect();
        let mut idle = BTreeMap::new();
        for entry in registry.entries() {
            let TopicHandler { topic, handler, lacking, .. } = &**entry;
            let id = topic.id.clone();
            if !lacking.is_empty() {
                let serving = handler.as_ref().map_or("none".to_owned(), |handler| handler.code.to_string());
                let problem = self.manifest.missing_grants(topic, lacking).to_string();
                if self.idle.get(&id) != Some(&problem) {
                    tracing::error!(topic = %id, %serving, "component refused: {problem}");
                    self.metrics.emit(|| ungranted(entry));
                }
                idle.insert(id, problem);
            } else if handler.is_none() && !topic.external && !registry.is_uncompiled(&topic.handler) {
                // If a refused file alone makes the topic, the refusal is logged.
                if registry.refused(&topic.handler).is_some() && !self.manifest.topics.contains_key(&id) {
                    continue;
                }
                if self.expected.contains(&topic.handler) {
                    continue;
                }
                let problem = self.manifest.missing_handler(&id, &available).to_string();
                if self.idle.get(&id) != Some(&problem) {
                    tracing::warn!("{problem}");
                }
                idle.insert(id, problem);
            }
        }
        self.idle = idle;
    }

    pub(super) fn report(&mut self, changes: &Changes) {
        self.log_loaded(&changes.loaded);
        let Self { manifest, metrics, .. } = self;
        for LoadedFile { handler, component, is_replaced, took } in &changes.loaded {
            let (reload, kind) = if *is_replaced {
                (Reload::Replaced, metrics::EventKind::HandlerReplaced)
            } else {
                (Reload::Loaded, metrics::EventKind::HandlerLoaded)
            };
            metrics.reload(handler, reload, Some(*took));
            let version = Some(component.version().to_string());
            metrics.emit(|| Event { version, ..event(kind, handler, manifest) });
        }
        for name in &changes.removed {
            tracing::warn!(handler = %name, "handler removed: its topics stop, their jobs wait");
            metrics.reload(name, Reload::Removed, None);
            metrics.emit(|| event(metrics::EventKind::HandlerRemoved, name, manifest));
        }
        for (path, problem) in &changes.misnamed {
            tracing::error!(path = %path.display(), "component not used: {problem}; rename the file");
        }
        for Refusal { handler, path, reason } in &changes.refused {
            let serving = self.folder.handlers().get(handler).or_else(|| self.last_good.restored().get(handler));
            let serving = serving.map_or("none".to_owned(), |serving| serving.code.to_string());
            tracing::error!(%handler, path = %path.display(), %serving, "component refused: {reason}");
            metrics.reload(handler, Reload::Refused, None);
            let (reason, kind) = (Some(reason.clone()), metrics::EventKind::HandlerRefused);
            metrics.emit(|| Event { reason, ..event(kind, handler, manifest) });
        }
    }

    /// A line for each handler, or one a second in which they are counted, if they are many.
    fn log_loaded(&mut self, loaded: &[LoadedFile]) {
        let remaining = self.folder.backlog().len();
        let named = loaded.len().max(remaining) <= NAMED;
        for LoadedFile { handler, component, .. } in loaded {
            let (version, made) = (component.version(), made(component.kind()));
            if self.native.contains_key(handler) {
                tracing::warn!(%handler, "a native handler has this name: the component in the folder is not used");
            } else if named {
                tracing::info!(%handler, %version, "handler loaded{made}");
            } else {
                tracing::debug!(%handler, %version, "handler loaded{made}");
            }
        }
        let Progress { loaded: count, logged_at } = &mut self.progress;
        *count += if named { 0 } else { loaded.len() };
        let is_due = logged_at.is_none_or(|logged_at| logged_at.elapsed() >= PROGRESS);
        if (*count > 0 || remaining > NAMED) && (is_due || remaining == 0) {
            tracing::info!(loaded = *count, remaining, "handlers loaded, others remain to be compiled");
            self.progress = Progress { loaded: 0, logged_at: Some(Instant::now()) };
        }
    }
}

fn made(kind: Kind) -> &'static str {
    match kind {
        Kind::Component => "",
        Kind::CoreModule => ": its core module was made a component",
    }
}

/// The handler's component imports what the topic does not grant.
fn ungranted(entry: &TopicHandler) -> Event {
    let lacking: Vec<&str> = entry.lacking.iter().map(|capability| capability.name()).collect();
    Event {
        handler: Some(entry.topic.handler.clone()),
        reason: Some(format!("it needs what the topic does not grant: {}", lacking.join(", "))),
        ..Event::of_topic(metrics::EventKind::HandlerRefused, &entry.topic.id)
    }
}

/// Of a handler, for the tenants that have topics for it.
fn event(kind: metrics::EventKind, handler: &Name, manifest: &Manifest) -> Event {
    let topics = manifest.topics.values().filter(|topic| topic.handler == *handler);
    let mut concerns: Vec<Name> = topics.map(|topic| topic.id.tenant.clone()).collect();
    if manifest.makes_topic(handler) {
        concerns.extend(DEFAULT_TENANT.parse::<Name>());
    }
    Event { handler: Some(handler.clone()), concerns, ..Event::new(kind) }
}
