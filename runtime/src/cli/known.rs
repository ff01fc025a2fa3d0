//! Whether anything does the jobs of a topic, as far as a command knows: the note for an operator who got its name or the folder wrong.

use super::global::Global;
use super::store::Reached;
use super::topic_line::{TopicLine, Topics};
use super::{folder, screen};
use gristmill_config::Manifest;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::units::{hint, nearest};
use gristmill_runner::why::IdleReason;
use gristmill_store::StoreError;

/// Notes that there is no such topic, if neither manifest, folder, store nor server has it. Prints nothing for a client that may not read.
pub(super) async fn note_unknown(global: &Global, topic: &TopicId) -> anyhow::Result<()> {
    let Some(known) = known(global, &topic.tenant).await? else { return Ok(()) };
    let names = known.iter().map(|line| line.seen.counts.topic.topic.as_str());
    if names.clone().all(|name| name != topic.topic.as_str()) {
        let hint = hint(nearest(topic.topic.as_str(), names));
        screen::note(&format!("there is no topic `{topic}`{hint}; see `gristmill topics`"));
    }
    Ok(())
}

/// Notes how a topic is searched for, if a word of the query that found nothing is the name of one.
pub(super) async fn note_topics(global: &Global, tenant: &Name, query: &str) -> anyhow::Result<()> {
    let Some(known) = known(global, tenant).await? else { return Ok(()) };
    let names = known.iter().map(|line| line.seen.counts.topic.topic.as_str());
    for name in names.filter(|name| query.split_whitespace().any(|word| word == *name)) {
        screen::note(&format!("`topic:{name}` finds the jobs of the topic `{name}`"));
    }
    Ok(())
}

/// The topics of a tenant; `None` for a client that may not read.
async fn known(global: &Global, tenant: &Name) -> anyhow::Result<Option<Vec<TopicLine>>> {
    let manifest = global.manifest_without_secrets()?;
    let reached = global.reach_if_any(&manifest).await?;
    match Topics::find(global, &manifest, reached.as_ref()).await?.of(std::slice::from_ref(tenant)).await {
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::Refused { .. })) => Ok(None),
        known => Ok(Some(known?.read)),
    }
}

/// Why no runner does the jobs of a topic until an operator acts.
const UNSERVED: [IdleReason; 4] =
    [IdleReason::NoHandler, IdleReason::NoHandlerHere, IdleReason::Refused, IdleReason::LacksGrants];

/// Says to people that nothing does the jobs that they have just pushed, if that is so.
/// `is_warned`: a warning says so already.
pub(super) async fn note_idle(global: &Global, reached: &Reached, topic: &TopicId, is_warned: bool) {
    if global.json || global.quiet {
        return;
    }
    let Ok(manifest) = global.manifest_without_secrets() else { return };
    // The warning says of an unknown topic what makes it one.
    let missing = if is_warned { None } else { missing_handler(global, &manifest, topic) };
    let store = &manifest.store.address;
    let (idle, missing) = match &reached.server {
        // A function may be its handler, and a file may be refused, so the files alone do not say.
        Some(server) => match server.topic_why(topic).await.ok().and_then(|why| why.idle) {
            Some(idle) if UNSERVED.contains(&idle.reason) && !is_warned => {
                (Some(format!("`{topic}` begins no job: {}", idle.detail)), None)
            }
            _ => (None, None),
        },
        None if reached.is_ours_alone => (Some(format!("no server has {store}")), missing),
        None if reached.store.heartbeats().await.is_ok_and(|alive| alive.is_empty()) => {
            (Some(format!("no runner works on {store}")), missing)
        }
        None => (None, None),
    };
    if let Some(idle) = idle {
        let missing = missing.map(|missing| format!(", and {missing}")).unwrap_or_default();
        let waits = match &reached.server {
            Some(_) => "; what was pushed waits",
            None => ": what was pushed waits until `gristmill run` does it",
        };
        screen::note(&format!("note: {idle}{missing}{waits}"));
    }
}

/// Why a server that is started here would not do the topic's jobs.
fn missing_handler(global: &Global, manifest: &Manifest, id: &TopicId) -> Option<String> {
    if global.names_server() {
        return None;
    }
    let topic = manifest.topics.get(id).cloned().unwrap_or_else(|| manifest.auto_topic(&id.topic));
    if topic.external {
        return None;
    }
    let files = folder::scan(&manifest.handlers).ok()?;
    if files.iter().any(|file| file.name.as_ref() == Ok(&topic.handler)) {
        return None;
    }
    // Files make topics of the default tenant alone.
    if topic.id != *id {
        return (!global.has_manifest()).then(|| "here is no gristmill.toml".into());
    }
    let file = manifest.handlers.folder.join(format!("{}.wasm", topic.handler));
    Some(if global.has_manifest() {
        format!("there is no {}", file.display())
    } else {
        format!("here is neither a gristmill.toml nor {}", file.display())
    })
}
