//! `gristmill job why` and `gristmill topics why`: what keeps a job or a topic waiting.
//!
//! A server answers by the handlers that it has loaded. Without one, the manifest and the files in the handlers folder say who would
//! do the jobs.

use anyhow::bail;
use serde::Serialize;

use super::exit::Exit;
use super::folder;
use super::global::Global;
use super::screen;
use super::store::Reached;
use gristmill_config::Manifest;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::topic::{Demands, Topic};
use gristmill_runner::why::{Serving, TopicWhy, Why, topic_why, why};
use gristmill_store::StoreError;

pub(super) async fn job(global: &Global, tenant: &Name, id: &JobId) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let answer = of_job(&manifest, &global.reach(&manifest).await?, tenant, id).await?;
    let Some(Why { detail, .. }) = &answer else {
        bail!("job {id} is not known to tenant `{tenant}`: it never was, or it is over and its result was not kept");
    };
    show(global, &answer, detail)
}

/// `None`: the job is not known.
pub(super) async fn of_job(
    manifest: &Manifest,
    Reached { store, server, .. }: &Reached,
    tenant: &Name,
    id: &JobId,
) -> Result<Option<Why>, StoreError> {
    match server {
        Some(server) => server.why(tenant, id).await,
        None => why(&**store, tenant, id, |topic| serving(manifest, topic), |_| None).await,
    }
}

pub(super) async fn topic(global: &Global, topic: TopicId) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let Reached { store, server, .. } = global.reach(&manifest).await?;
    let answer = match server {
        Some(server) => server.topic_why(&topic).await?,
        None => topic_why(&*store, topic.clone(), &serving(&manifest, &topic)).await?,
    };
    let TopicWhy { detail, .. } = &answer;
    show(global, &answer, detail)
}

fn show(global: &Global, answer: &impl Serialize, detail: &str) -> anyhow::Result<Exit> {
    if global.json {
        screen::document(&serde_json::to_value(answer)?)?;
    } else {
        screen::line(&screen::clean(detail))?;
    }
    Ok(Exit::Done)
}

/// Who does a topic's jobs, by the manifest and the files in the handlers folder. A file that cannot be read is not there.
fn serving(manifest: &Manifest, id: &TopicId) -> Serving {
    let topic = manifest.topics.get(id).cloned().unwrap_or_else(|| manifest.auto_topic(&id.topic));
    if topic.id != *id {
        return Serving::Unknown;
    }
    let files = folder::scan(&manifest.handlers).unwrap_or_default();
    let file = files.into_iter().find(|file| !topic.external && file.name.as_ref() == Ok(&topic.handler));
    let version = file.and_then(|file| file.version(manifest.handlers.component_bytes).ok());
    let is_made = manifest.topics.contains_key(id) || version.is_some() && manifest.makes_topic(&topic.handler);
    by_file(&topic, is_made, version.as_ref().map(|(_, demands)| demands))
}

/// The same of a topic whose handler's file needs this. `is_made`: the manifest or a component makes it a topic.
pub(super) fn by_file(topic: &Topic, is_made: bool, demands: Option<&Demands>) -> Serving {
    let handler = || topic.handler.clone();
    match demands {
        _ if !is_made => Serving::Unknown,
        _ if topic.external => Serving::PullWorkers,
        None => Serving::Missing(handler()),
        Some(demands) => match topic.lacks(demands) {
            lacking if lacking.is_empty() => Serving::Handler { concurrency: topic.concurrency },
            lacking => Serving::LacksGrants { handler: handler(), lacking },
        },
    }
}
