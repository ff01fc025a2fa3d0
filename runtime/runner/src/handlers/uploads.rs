//! Takes components in that somebody brings, instead of copying them into the folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::folder;
use super::registry::{Handler, HandlerRegistry};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::Topic;
use gristmill_sandbox::{Sandbox, Version};

/// How long the reloader may take to serve what lies in the folder: it was compiled before.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// The way into the handlers folder, beside the one over the file system. Clones share it.
#[derive(Debug, Clone)]
pub struct ComponentUploads {
    sandbox: Sandbox,
    folder: PathBuf,
    registry: watch::Receiver<Arc<HandlerRegistry>>,
    /// One at a time: each is held in memory, compiled, and waited for.
    turn: Arc<Semaphore>,
}

/// Why a component was not taken, or not taken away.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum UploadError {
    #[error("another component is being taken in: try again in a moment")]
    Busy,
    #[error("{0}")]
    TooLarge(String),
    /// It fails a check; what served before keeps serving.
    #[error("{0}")]
    Refused(String),
    #[error("the handlers folder has no {0}.wasm")]
    Unknown(Name),
    #[error("failed to {doing} {}", path.display())]
    Folder {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("it lies in the folder, but does not serve after {} s: see the server's log", SERVED_WITHIN.as_secs())]
    NotServed,
}

impl ComponentUploads {
    pub(super) fn new(sandbox: Sandbox, folder: &Path, registry: watch::Receiver<Arc<HandlerRegistry>>) -> Self {
        Self { sandbox, folder: folder.to_owned(), registry, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Makes this the component of `topic`'s handler. It passes the checks of a file that is dropped in, and starts within
    /// the limits and the grants of every topic that it would serve; then it is in the folder and does its first jobs.
    ///
    /// Cancel-safe: the file is in its place whole or not at all.
    ///
    /// # Errors
    /// [`UploadError`]; only after [`UploadError::NotServed`] has anything changed.
    pub async fn put(&self, topic: &Topic, wasm: &[u8]) -> Result<Version, UploadError> {
        let _turn = self.turn.try_acquire().map_err(|_| UploadError::Busy)?;
        self.sandbox.check_size(wasm.len() as u64).map_err(|error| UploadError::TooLarge(error.to_string()))?;
        self.check(topic, wasm).await?;
        let version = Version::of(wasm);
        self.write(&topic.handler, wasm).await?;
        let serves = |registry: &HandlerRegistry| {
            let handler = registry.get(&topic.id).and_then(|entry| entry.handler.as_ref());
            handler.and_then(Handler::version) == Some(version)
        };
        self.until(serves).await?;
        Ok(version)
    }

    /// Takes a topic's handler out of the folder. Its topics stop, and their jobs wait.
    ///
    /// # Errors
    /// [`UploadError`]; only after [`UploadError::NotServed`] has anything changed.
    pub async fn remove(&self, topic: &Topic) -> Result<(), UploadError> {
        let _turn = self.turn.try_acquire().map_err(|_| UploadError::Busy)?;
        let path = self.path(&topic.handler);
        tokio::fs::remove_file(&path).await.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => UploadError::Unknown(topic.handler.clone()),
            _ => UploadError::Folder { doing: "remove", path, source },
        })?;
        let id: &TopicId = &topic.id;
        self.until(|registry| registry.get(id).is_none_or(|entry| entry.handler.is_none())).await
    }

    async fn check(&self, topic: &Topic, wasm: &[u8]) -> Result<(), UploadError> {
        if self
            .registry
            .borrow()
            .get(&topic.id)
            .is_some_and(|entry| entry.handler.as_ref().is_some_and(Handler::is_native))
        {
            let handler = &topic.handler;
            return Err(UploadError::Refused(format!("`{handler}` is a native handler of this server's program")));
        }
        let loaded = folder::load(&topic.handler, wasm, None, &self.sandbox).await;
        let loaded = loaded.map_err(|not_taken| UploadError::Refused(not_taken.reason))?;
        let Some(prepared) = loaded else { return Ok(()) };
        let component = prepared.component();
        let mut served = self.registry.borrow().topics_of(&topic.handler);
        // The one that was named is told of first.
        served.sort_by_key(|served| (served.id != topic.id, served.id.clone()));
        for topic in &served {
            let lacking = topic.grants.lack(component.capabilities());
            if !lacking.is_empty() {
                let names: Vec<_> = lacking.iter().map(|lacking| format!("`{lacking}`")).collect();
                let names = names.join(", ");
                let id = &topic.id;
                return Err(UploadError::Refused(format!(
                    "it imports what topic `{id}` does not grant: {names}; if it may have that, say so in the manifest"
                )));
            }
        }
        let limits = served.iter().map(|topic| topic.limits).min_by_key(|limits| limits.fuel);
        component.try_start(&limits.unwrap_or(topic.limits)).await.map_err(UploadError::Refused)?;
        // For the reloader, which finds the file in the folder.
        prepared.keep().await;
        Ok(())
    }

    /// Beside its place, and then into it: nobody reads half a file.
    async fn write(&self, handler: &Name, wasm: &[u8]) -> Result<(), UploadError> {
        let aside = self.folder.join(format!(".{handler}.{}.new", ulid::Ulid::generate()));
        let path = self.path(handler);
        let written = tokio::fs::write(&aside, wasm).await;
        let renamed = match written {
            Ok(()) => tokio::fs::rename(&aside, &path).await,
            Err(error) => Err(error),
        };
        if renamed.is_err() {
            // What was written of it is of no use; where it cannot be removed either, the first error says why.
            tokio::fs::remove_file(&aside).await.ok();
        }
        renamed.map_err(|source| UploadError::Folder { doing: "write", path, source })
    }

    async fn until(&self, reached: impl Fn(&HandlerRegistry) -> bool) -> Result<(), UploadError> {
        let mut registry = self.registry.clone();
        let wait = registry.wait_for(|registry| reached(registry));
        match tokio::time::timeout(SERVED_WITHIN, wait).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(UploadError::NotServed),
        }
    }

    fn path(&self, handler: &Name) -> PathBuf {
        self.folder.join(format!("{handler}.wasm"))
    }
}
