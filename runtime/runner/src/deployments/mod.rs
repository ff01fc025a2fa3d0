//! Which versions of handlers do topics' jobs: read from the store, and decided there.

pub(crate) mod parked;
pub(crate) mod trap_streaks;
pub(crate) mod trial;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::context::Context;
use crate::handlers::{DeploymentRecords, Handler, HandlerRegistry, TopicHandler};
use gristmill_core::deployment::{Deployment, WHOLE};
use gristmill_core::job::{Name, TopicId};
use gristmill_sandbox::Version;
use gristmill_store::{Store, StoreError};

/// How often the records are read without a signal, in case one was lost.
const READ_EVERY: Duration = Duration::from_secs(10);

/// Reads the records when the store says that they have changed, and now and then, until stopped.
pub(super) async fn follow(context: Context, records: DeploymentRecords) {
    loop {
        let next = Instant::now() + READ_EVERY;
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            () = records.changed() => {}
            () = sleep_until(next) => {}
        }
        let read = tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            read = context.retry.call(|| records.read(&*context.store)) => read,
        };
        if let Some(Err(error)) = read {
            let error = anyhow::Error::from(error);
            tracing::error!("failed to read which versions of handlers serve, they stay as they are: {error:#}");
        }
    }
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum NotDecided {
    #[error(
        "no component does the jobs of topic `{0}` here: `gristmill topic why {0}` says why, unless pull workers or a native handler do them"
    )]
    NoComponent(TopicId),
    #[error(
        "version {version} of handler `{handler}` is not on this machine, which has {kept}: name one of these, or deploy its file"
    )]
    NotKept { handler: String, version: String, kept: String },
    #[error("there is no version before {0} on this machine to go back to: deploy the file")]
    NothingBefore(Version),
    #[error("topic `{0}` tries no version at the moment: deploy one with a share, or set `gate = true`")]
    NoCandidate(TopicId),
    #[error("someone else has decided about topic `{0}` at the same time: look, and try again")]
    Conflict(TopicId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NotDecided {
    /// [`NotDecided::NotKept`] of the version of a handler that begins with these digits.
    pub fn not_kept(registry: &HandlerRegistry, handler: &Name, digits: &str) -> Self {
        let kept: Vec<_> = registry.kept(handler).iter().map(Version::to_string).collect();
        let kept = if kept.is_empty() { "none".into() } else { kept.join(", ") };
        Self::NotKept { handler: handler.to_string(), version: digits.to_owned(), kept }
    }
}

/// What an operator decides about the versions of a topic's handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The version before does all jobs: the one that serves while another is tried, or else the last one that served here; or this one, named by
    /// the first digits of its SHA-256, at least 4.
    RollBack {
        /// The version to go back to.
        to: Option<String>,
        /// Why, and by whom.
        reason: String,
    },
    /// The version that is tried does all jobs.
    Promote,
}

impl Decision {
    /// Writes the decision into the store, for all runners. Returns the record, whose stable version does all jobs from now on. The runners follow within
    /// milliseconds; a running attempt ends on the version it began with.
    ///
    /// # Errors
    /// See [`NotDecided`]; nothing was changed.
    pub async fn carry_out(
        self,
        topic: &TopicId,
        registry: &HandlerRegistry,
        store: &(impl Store + ?Sized),
    ) -> Result<Deployment, NotDecided> {
        let none = || NotDecided::NoComponent(topic.clone());
        let entry = registry.get(topic).ok_or_else(none)?;
        let before = store.deployments().await?.remove(topic);
        let candidate = before.as_ref().and_then(Deployment::candidate).map(|other| other.version);
        let next = match self {
            Self::Promote => {
                let version = candidate.ok_or_else(|| NotDecided::NoCandidate(topic.clone()))?;
                Deployment::serving(version, before.as_ref())
            }
            Self::RollBack { to, reason } => {
                let serves = entry.handler.as_ref().and_then(Handler::version).ok_or_else(none)?;
                // What the folder has is what would serve again without a record.
                let folder = entry.folder.unwrap_or(serves);
                let (leaves, stable) = match (&to, candidate) {
                    (Some(digits), _) => (folder, kept(entry, registry, digits)?),
                    (None, Some(candidate)) => (candidate, serves),
                    (None, None) => (folder, version_before(entry, registry, serves)?),
                };
                if leaves == stable {
                    Deployment::serving(stable, before.as_ref())
                } else {
                    Deployment::rolling_back(leaves, stable, reason, before.as_ref())
                }
            }
        };
        write(topic, next, store).await
    }
}

/// Has a version, whose file comes into the handlers folder next, do this share of a topic's jobs, of ten thousand: all of them is to serve at once, also of a
/// gated topic. Returns the record.
///
/// # Errors
/// See [`NotDecided`]; nothing was changed.
pub async fn share_jobs(
    topic: &TopicId,
    version: Version,
    share: u16,
    registry: &HandlerRegistry,
    store: &(impl Store + ?Sized),
) -> Result<Deployment, NotDecided> {
    let serves = registry.get(topic).and_then(|entry| entry.handler.as_ref()).and_then(Handler::version);
    let before = store.deployments().await?.remove(topic);
    let next = match serves {
        Some(stable) if stable != version && share < WHOLE => {
            Deployment::trying(version, share, stable, before.as_ref())
        }
        Some(stable) => Deployment::serving(version, before.as_ref()).after(stable),
        None => Deployment::serving(version, before.as_ref()),
    };
    write(topic, next, store).await
}

async fn write(topic: &TopicId, next: Deployment, store: &(impl Store + ?Sized)) -> Result<Deployment, NotDecided> {
    if store.write_deployment(topic, &next).await? { Ok(next) } else { Err(NotDecided::Conflict(topic.clone())) }
}

/// The version that the topic's jobs ran by before this one.
fn version_before(entry: &TopicHandler, registry: &HandlerRegistry, serves: Version) -> Result<Version, NotDecided> {
    let decision = entry.deployment.as_ref();
    let is_rolled_back = |version: Version| {
        decision.and_then(Deployment::rolled_back).is_some_and(|other| other.version == version)
            || decision.and_then(|decision| decision.former(version)).is_some_and(|former| !former.served)
    };
    let kept = registry.kept(&entry.topic.handler);
    let before = kept.into_iter().find(|version| *version != serves && !is_rolled_back(*version));
    before.ok_or(NotDecided::NothingBefore(serves))
}

/// The version whose digits begin so.
fn kept(entry: &TopicHandler, registry: &HandlerRegistry, digits: &str) -> Result<Version, NotDecided> {
    let handler = &entry.topic.handler;
    registry.kept_version(handler, digits).ok_or_else(|| NotDecided::not_kept(registry, handler, digits))
}
