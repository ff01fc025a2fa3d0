//! A job with its recording and its component: from a server, or from a file that `--export` wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::super::exit::Usage;
use super::super::global::Global;
use super::super::store::Served;
use gristmill_config::Manifest;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::json::Base64;
use gristmill_sandbox::{
    Component, LogLine, LogSink, Recording, ReplayInput, ReplayRefused, Replayed, Sandbox, Version,
};
use gristmill_store::look_up;

/// What a replay needs, as a file has it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exported {
    /// Of this form.
    gristmill_replay: u8,
    #[serde(with = "Base64")]
    body: Vec<u8>,
    #[serde(with = "Base64")]
    recording: Vec<u8>,
    /// The version that was recorded; `None` if no runner kept its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    component: Option<Component64>,
}

/// A component's bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Component64(#[serde(with = "Base64")] Vec<u8>);

const FORM: u8 = 1;

/// A recorded attempt and the job's body.
pub(super) struct Recorded {
    pub(super) recording: Arc<Recording>,
    body: Vec<u8>,
}

impl Exported {
    /// The file that [`Self::write`] wrote.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let exported: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no file that `gristmill replay --export` wrote", path.display()))?;
        match exported.gristmill_replay {
            FORM => Ok(exported),
            form => bail!("{} has form {form}, and this version reads form {FORM}", path.display()),
        }
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
    }

    /// A job by its id, and the version that was recorded, if its file is here or the server has it.
    pub(super) async fn fetch(global: &Global, manifest: &Manifest, tenant: &Name, of: &str) -> anyhow::Result<Self> {
        let id = of.parse().map_err(|error| Usage(format!("`{of}` is no file, and no job: {error}")))?;
        let server = global.way(&global.manifest_without_secrets()?)?.served().await?;
        let fetch = async {
            let exported = Self::of(&server, tenant, &id, None).await?;
            let component = kept_component(&server, manifest, &exported.recorded()?).await?;
            Ok(Self { component: component.map(Component64), ..exported })
        };
        let fetched = fetch.await;
        server.end().await;
        fetched
    }

    /// The job, without its component. The body comes from the recording, or from the job if the store still has that.
    pub(super) async fn of(
        server: &Served,
        tenant: &Name,
        id: &JobId,
        topic: Option<&TopicId>,
    ) -> anyhow::Result<Self> {
        let none = || {
            anyhow!(
                "no recording of job {id} is kept: its topic's `record` says of which attempts there is one, and the oldest make room for others"
            )
        };
        let recording = match topic {
            Some(topic) => server.recording_in(topic, id).await?,
            None => server.recording(tenant, id).await?,
        };
        let recording = recording.ok_or_else(none)?;
        let Recording { body, incomplete, .. } = Recording::parse(&recording)?;
        let body = match body {
            Some(body) => body.into_vec(),
            None => match (look_up(&**server, tenant, id).await?.and_then(|view| view.job), incomplete) {
                (Some(job), _) => job.spec.body.data,
                (None, Some(reason)) => return Err(ReplayRefused::Incomplete(reason).into()),
                (None, None) => return Err(gone(id)),
            },
        };
        Ok(Self { gristmill_replay: FORM, body, recording, component: None })
    }

    pub(super) fn recorded(&self) -> anyhow::Result<Recorded> {
        Ok(Recorded { recording: Arc::new(Recording::parse(&self.recording)?), body: self.body.clone() })
    }

    /// The version that was recorded: the one that came along, or the topic's file here.
    pub(super) async fn load(
        &self,
        sandbox: &Sandbox,
        manifest: &Manifest,
        recorded: &Recorded,
    ) -> anyhow::Result<Component> {
        if let Some(Component64(wasm)) = &self.component {
            return sandbox.load(wasm).await.context("failed to load the component that was recorded");
        }
        let path = component_of(manifest, &recorded.topic()?);
        let component = super::load(sandbox, &path).await?;
        let version = recorded.version();
        if component.version() != version {
            bail!(
                "the attempt ran version {version}, and {} is version {}\nname the file of that version with --component",
                path.display(),
                component.version(),
            );
        }
        Ok(component)
    }
}

fn gone(id: &JobId) -> anyhow::Error {
    anyhow!(
        "job {id} is over, and its body is gone: only recordings of a topic with `record = \"all\"` or a sample have it, as far as there is room"
    )
}

fn component_of(manifest: &Manifest, topic: &TopicId) -> PathBuf {
    let handler = manifest.topics.get(topic).map_or(&topic.topic, |topic| &topic.handler);
    manifest.handlers.folder.join(format!("{handler}.wasm"))
}

/// The version that was recorded: the file in the handlers folder here, or what the server keeps.
pub(super) async fn kept_component(
    server: &Served,
    manifest: &Manifest,
    recorded: &Recorded,
) -> anyhow::Result<Option<Vec<u8>>> {
    let (topic, version) = (recorded.topic()?, recorded.version());
    let here = std::fs::read(component_of(manifest, &topic)).ok().filter(|wasm| Version::of(wasm) == version);
    match here {
        Some(wasm) => Ok(Some(wasm)),
        None => Ok(server.component(&topic, &version.digest()).await?.filter(|wasm| Version::of(wasm) == version)),
    }
}

impl Recorded {
    /// Of its component.
    pub(super) fn version(&self) -> Version {
        Version(self.recording.head.component)
    }

    pub(super) fn topic(&self) -> anyhow::Result<TopicId> {
        let head = &self.recording.head;
        Ok(TopicId { tenant: head.tenant.parse()?, topic: head.topic.parse()? })
    }

    pub(super) async fn replay(
        &self,
        component: &Component,
        manifest: &Manifest,
        topic: &TopicId,
    ) -> anyhow::Result<(Replayed, Vec<LogLine>)> {
        let (input, lines) = self.input(manifest, topic);
        let replayed = component.replay(&self.recording, input).await?;
        let lines = std::mem::take(&mut *lines.lock());
        Ok((replayed, lines))
    }

    /// What the recording does not have, and where the log lines go.
    pub(super) fn input(&self, manifest: &Manifest, topic: &TopicId) -> (ReplayInput, Arc<Mutex<Vec<LogLine>>>) {
        let grants = manifest.topics.get(topic).map(|topic| Arc::clone(&topic.grants)).unwrap_or_default();
        let lines = Arc::<Mutex<Vec<LogLine>>>::default();
        let input = ReplayInput {
            body: self.body.clone(),
            secrets: grants
                .all_secrets()
                .into_iter()
                .map(|(name, secret)| (name.to_owned(), secret.to_vec()))
                .collect(),
            env: grants.all_env().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            logs: LogSink::Collect(Arc::clone(&lines)),
        };
        (input, lines)
    }
}
