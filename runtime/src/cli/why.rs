//! `gristmill job why` and `gristmill topics why`: what keeps a job or a topic waiting.
//!
//! A server answers by the handlers that it has loaded. Without one, the manifest and the files in the handlers folder say who would
//! do the jobs.

use std::sync::Arc;

use anyhow::bail;
use serde::Serialize;

use super::describe::UNKNOWN;
use super::exit::Exit;
use super::folder;
use super::global::Global;
use super::screen;
use super::store::Reached;
use gristmill_config::Manifest;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::topic::{Demands, Topic};
use gristmill_runner::why::{ProcessRole, Served, Serving, TopicWhy, Why, topic_why, why};
use gristmill_server::RemoteStore;
use gristmill_store::{Produce, StoreError};

pub(super) async fn job(global: &Global, tenant: &Name, id: &JobId) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let answer = answerer(global, &manifest).await?.of_job(&manifest, tenant, id).await?;
    let Some(Why { detail, .. }) = &answer else {
        bail!("job {id} is not known to tenant `{tenant}`: {UNKNOWN}");
    };
    show(global, &answer, detail)
}

pub(super) async fn topic(global: &Global, topic: TopicId) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let answer = match answerer(global, &manifest).await? {
        Answerer::Server(server) => server.topic_why(&topic).await?,
        Answerer::Store(store, asked) => topic_why(&*store, topic.clone(), asked, &served(&manifest, &topic)).await?,
    };
    let TopicWhy { detail, .. } = &answer;
    show(global, &answer, detail)
}

/// What a question goes to.
pub(super) enum Answerer {
    Server(RemoteStore),
    Store(Arc<dyn Produce>, ProcessRole),
}

impl Answerer {
    pub(super) fn of(Reached { store, server, is_ours_alone, .. }: &Reached) -> Self {
        match server {
            Some(server) => Self::Server(server.clone()),
            None if *is_ours_alone => Self::Store(Arc::clone(store), ProcessRole::OnlyProcess),
            None => Self::Store(Arc::clone(store), ProcessRole::Onlooker),
        }
    }

    /// `None`: the job is not known.
    pub(super) async fn of_job(
        &self,
        manifest: &Manifest,
        tenant: &Name,
        id: &JobId,
    ) -> Result<Option<Why>, StoreError> {
        match self {
            Self::Server(server) => server.why(tenant, id).await,
            Self::Store(store, asked) => {
                why(&**store, tenant, id, *asked, |topic| served(manifest, topic), |_| None).await
            }
        }
    }
}

/// The server that has the store; of a Redis that of this machine, if it answers: it knows its handlers, and how fast jobs end.
async fn answerer(global: &Global, manifest: &Manifest) -> anyhow::Result<Answerer> {
    let way = global.way(manifest)?;
    let answerer = Answerer::of(&way.reach().await?);
    if !matches!(answerer, Answerer::Store(_, ProcessRole::Onlooker)) {
        return Ok(answerer);
    }
    // One that wants another token is left alone: the store answers as well.
    let server = way.find_server().await.ok().flatten();
    Ok(server.map_or(answerer, Answerer::Server))
}

fn show(global: &Global, answer: &impl Serialize, detail: &str) -> anyhow::Result<Exit> {
    global.say(&serde_json::to_value(answer)?, true, &screen::clean(detail))?;
    Ok(Exit::Done)
}

/// What does a topic's jobs and by which limits, by the manifest and the files in the handlers folder.
fn served(manifest: &Manifest, id: &TopicId) -> Served {
    let limits = manifest.topics.get(id).map_or_else(|| manifest.auto_topic(&id.topic).fleet, |topic| topic.fleet);
    Served { serving: serving(manifest, id), limits, trial: None }
}

/// What does a topic's jobs, by the same. A file that cannot be read is not there.
fn serving(manifest: &Manifest, id: &TopicId) -> Serving {
    let topic = manifest.topics.get(id).cloned().unwrap_or_else(|| manifest.auto_topic(&id.topic));
    if topic.id != *id {
        return Serving::Unknown { used_by: None };
    }
    let files = folder::scan(&manifest.handlers).unwrap_or_default();
    let file = files.into_iter().find(|file| !topic.external && file.name.as_ref() == Ok(&topic.handler));
    let version = file.and_then(|file| file.version(manifest.handlers.component_bytes).ok());
    let is_made = manifest.topics.contains_key(id) || version.is_some() && manifest.makes_topic(&topic.handler);
    let used_by = if is_made { None } else { folder::known_topics(manifest).used_by(id).cloned() };
    by_file(&topic, is_made, used_by, version.as_ref().map(|(_, demands)| demands))
}

/// The same of a topic whose handler's file needs this. `is_made`: the manifest or a component makes it a topic.
/// `used_by`: the topic whose section names the file that would make it one.
pub(super) fn by_file(topic: &Topic, is_made: bool, used_by: Option<TopicId>, demands: Option<&Demands>) -> Serving {
    let handler = || topic.handler.clone();
    match demands {
        _ if !is_made => Serving::Unknown { used_by },
        _ if topic.external => Serving::PullWorkers,
        None => Serving::Missing(handler()),
        Some(demands) => match topic.lacks(demands) {
            lacking if lacking.is_empty() => Serving::Handler { concurrency: topic.concurrency },
            lacking => Serving::LacksGrants { handler: handler(), lacking },
        },
    }
}
