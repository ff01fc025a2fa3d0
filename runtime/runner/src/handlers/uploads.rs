//! Takes in components that a client uploads, instead of copying them into the folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::handler::Handler;
use super::listing;
use super::load::load;
use super::registry::HandlerRegistry;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::{Limits, Topic};
use gristmill_sandbox::{Sandbox, Version};

/// How long the reloader may take to serve what lies in the folder: it was compiled before.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// Components in the folder beyond which uploads make no further topics. A user who can write to the folder may add more.
const HANDLERS_MAX: usize = 1000;

/// After this time the writer of a file that has no name of a handler yet is dead.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3600);

/// The way into the handlers folder, beside the one over the file system. Clones share it.
#[derive(Debug, Clone)]
pub struct ComponentUploads {
    sandbox: Sandbox,
    folder: PathBuf,
    registry: watch::Receiver<Arc<HandlerRegistry>>,
    /// One at a time, in the order in which they came: each is compiled and waited for.
    turn: Arc<Semaphore>,
    /// The tenants whose uploads have a turn or wait for one.
    tenants: Arc<Mutex<BTreeSet<Name>>>,
}

/// A tenant's turn. The next tenant has its own when this is dropped.
struct Turn<'a> {
    uploads: &'a ComponentUploads,
    tenant: &'a Name,
    /// None until the turn comes.
    permit: Option<SemaphorePermit<'a>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.uploads.tenants.lock().remove(self.tenant);
    }
}

/// Why a component was not taken, or not taken away.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum UploadError {
    #[error("another component of this tenant is being taken in: try again in a moment")]
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
    #[error("it is there, but does not serve after {} s: see the server's log", SERVED_WITHIN.as_secs())]
    NotServed,
}

impl ComponentUploads {
    pub(super) fn new(sandbox: Sandbox, folder: &Path, registry: watch::Receiver<Arc<HandlerRegistry>>) -> Self {
        Self {
            sandbox,
            folder: folder.to_owned(),
            registry,
            turn: Arc::new(Semaphore::new(1)),
            tenants: Arc::default(),
        }
    }

    /// Makes this the component of `topic`'s handler. It passes the checks of a file that is dropped in, and starts within
    /// the limits and the grants of every topic that it would serve; then `decide` says which share of their jobs it does, and returns the generation of
    /// what it decided about each. It returns once the file is in the folder, does its first jobs, and this runner goes by those decisions.
    ///
    /// Cancel-safe: the file is in its place whole or not at all.
    ///
    /// # Errors
    /// [`UploadError`]; only after [`UploadError::NotServed`] has anything changed. Those of `decide`.
    pub async fn put<E: From<UploadError>>(
        &self,
        topic: &Topic,
        wasm: &[u8],
        decide: impl AsyncFnOnce(Version, &[Topic]) -> Result<Vec<(TopicId, u64)>, E>,
    ) -> Result<Version, E> {
        self.sandbox.check_size(wasm.len() as u64).map_err(|error| UploadError::TooLarge(error.to_string()))?;
        let _turn = self.turn(&topic.id.tenant).await?;
        self.check_number(topic)?;
        self.check(topic, wasm).await?;
        let version = Version::of(wasm);
        let served = self.registry.borrow().topics_of(&topic.handler);
        // First: nothing is decided about a component that the disk does not take.
        let aside = self.write_aside(&topic.handler, wasm).await?;
        let decided = decide(version, &served).await?;
        aside.put(&self.path(&topic.handler)).await?;
        self.until_served(&topic.id, version).await?;
        // What served before serves still, and what was tried before is, but for another share.
        for (topic, generation) in decided {
            self.until_decided(&topic, generation).await?;
        }
        Ok(version)
    }

    /// Waits until this runner goes by a decision about the topic's versions, or a later one. Cancel-safe.
    ///
    /// # Errors
    /// [`UploadError::NotServed`]: it does not in time.
    pub async fn until_decided(&self, topic: &TopicId, generation: u64) -> Result<(), UploadError> {
        let decided = |registry: &HandlerRegistry| {
            let known = registry.get(topic).and_then(|entry| entry.deployment.as_ref());
            known.is_some_and(|known| known.generation >= generation)
        };
        self.until(decided).await
    }

    /// Waits until this version does the topic's jobs here, or a share of them. Cancel-safe.
    ///
    /// # Errors
    /// [`UploadError::NotServed`]: it does not in time.
    async fn until_served(&self, topic: &TopicId, version: Version) -> Result<(), UploadError> {
        let serves = |registry: &HandlerRegistry| {
            registry.get(topic).is_some_and(|entry| {
                entry.handler.as_ref().and_then(Handler::version) == Some(version)
                    || entry.candidate.as_ref().is_some_and(|candidate| candidate.version == version)
            })
        };
        self.until(serves).await
    }

    /// Takes a topic's handler out of the folder. Its topics stop, and their jobs wait.
    ///
    /// # Errors
    /// [`UploadError`]; only after [`UploadError::NotServed`] has anything changed.
    pub async fn remove(&self, topic: &Topic) -> Result<(), UploadError> {
        let _turn = self.turn(&topic.id.tenant).await?;
        let path = self.path(&topic.handler);
        tokio::fs::remove_file(&path).await.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => UploadError::Unknown(topic.handler.clone()),
            _ => UploadError::Folder { doing: "remove", path, source },
        })?;
        let id: &TopicId = &topic.id;
        self.until(|registry| registry.get(id).is_none_or(|entry| entry.handler.is_none())).await
    }

    /// Waits for the uploads of other tenants, of which each has one at most.
    async fn turn<'a>(&'a self, tenant: &'a Name) -> Result<Turn<'a>, UploadError> {
        if !self.tenants.lock().insert(tenant.clone()) {
            return Err(UploadError::Busy);
        }
        let mut turn = Turn { uploads: self, tenant, permit: None };
        // Never closed, so it never fails; if it did, two at once would be no harm.
        turn.permit = self.turn.acquire().await.ok();
        Ok(turn)
    }

    /// A topic that the upload would make is one too many. Those of the manifest are the operator's choice.
    fn check_number(&self, topic: &Topic) -> Result<(), UploadError> {
        let doing = |source| UploadError::Folder { doing: "read", path: self.folder.clone(), source };
        if self.registry.borrow().get(&topic.id).is_some()
            || listing::list(&self.folder).map_err(doing)?.files.len() < HANDLERS_MAX
        {
            return Ok(());
        }
        Err(UploadError::Refused(format!(
            "the handlers folder has {HANDLERS_MAX} components, and uploads make no further topics: remove one, or name this one in the manifest"
        )))
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
        let loaded = load(&topic.handler, wasm, None, &self.sandbox).await;
        let loaded = loaded.map_err(|not_taken| UploadError::Refused(not_taken.reason))?;
        let Some(prepared) = loaded else { return Ok(()) };
        let component = prepared.component();
        let mut served = self.registry.borrow().topics_of(&topic.handler);
        // The report names the given topic first.
        served.sort_by_key(|served| (served.id != topic.id, served.id.clone()));
        for topic in &served {
            let lacking = topic.lacks(component.demands());
            if !lacking.is_empty() {
                let names: Vec<_> = lacking.iter().map(|lacking| format!("`{lacking}`")).collect();
                let names = names.join(", ");
                let id = &topic.id;
                return Err(UploadError::Refused(format!(
                    "it needs what topic `{id}` does not grant: {names}; if it may have that, say so in the manifest"
                )));
            }
        }
        let limits = served.iter().map(|topic| topic.limits).reduce(Limits::narrowest);
        component.try_start(&limits.unwrap_or(topic.limits)).await.map_err(UploadError::Refused)?;
        // For the reloader, which finds the file in the folder.
        prepared.keep().await;
        Ok(())
    }

    /// Beside its place, into which [`WrittenAside::put`] puts it: a reader never sees half a file.
    async fn write_aside(&self, handler: &Name, wasm: &[u8]) -> Result<WrittenAside, UploadError> {
        let aside = WrittenAside(self.folder.join(format!(".{handler}.{}.new", ulid::Ulid::generate())));
        let written = write_private(&aside.0, wasm).await;
        written.map_err(|source| UploadError::Folder { doing: "write", path: self.path(handler), source })?;
        Ok(aside)
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

/// A component beside its place. Dropped, it goes, unless it was put there.
#[derive(Debug)]
struct WrittenAside(PathBuf);

impl WrittenAside {
    async fn put(self, path: &Path) -> Result<(), UploadError> {
        let renamed = tokio::fs::rename(&self.0, path).await;
        renamed.map_err(|source| UploadError::Folder { doing: "write", path: path.to_owned(), source })
    }
}

impl Drop for WrittenAside {
    fn drop(&mut self) {
        // Where it cannot be removed, an error before this one says why.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Removes what uploads left behind that were cut short: old files with names as [`ComponentUploads::write_aside`] makes them.
pub(super) fn remove_leftovers(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let stem = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".new")?.rsplit_once('.'));
        let is_upload =
            stem.is_some_and(|(handler, id)| handler.parse::<Name>().is_ok() && id.parse::<ulid::Ulid>().is_ok());
        let age =
            entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|written| written.elapsed().ok());
        if is_upload && age.is_some_and(|age| age > WRITTEN_WITHIN) {
            match std::fs::remove_file(&path) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "removed what an upload left behind that was cut short")
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "failed to remove what an upload left behind")
                }
            }
        }
    }
}

/// Writes a file that no other user reads: a component may have keys in it.
async fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = tokio::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await?;
    file.write_all(bytes).await?;
    file.flush().await
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use tokio::time::timeout;

    use super::super::available::Available;
    use super::*;
    use gristmill_config::Manifest;
    use gristmill_sandbox::{CompilerSettings, SandboxSettings};

    #[test]
    fn what_an_upload_left_behind_goes_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let id = ulid::Ulid::generate();
        let (old, new) = (format!(".resize.v2.{id}.new"), format!(".other.{id}.new"));
        for (name, age) in
            [(old.as_str(), 2 * WRITTEN_WITHIN), (&new, Duration::ZERO), (".resize.new", 2 * WRITTEN_WITHIN)]
        {
            let file = File::create(place.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH.max(file.metadata().unwrap().modified().unwrap() - age)).unwrap();
        }
        remove_leftovers(place.path());
        let mut remaining: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        remaining.sort();
        assert_eq!(remaining, [new.as_str(), ".resize.new"]);
    }

    fn uploads(place: &Path) -> ComponentUploads {
        let (cache, compiler) = (place.join("cache"), CompilerSettings::default());
        let sandbox = Sandbox::new(&SandboxSettings { concurrency: 1, cache, compiler }).unwrap();
        ComponentUploads::new(sandbox, place, watch::Sender::default().subscribe())
    }

    #[tokio::test]
    async fn a_component_is_on_the_disk_before_anything_is_decided_about_it() {
        let place = tempfile::tempdir().unwrap();
        let (uploads, name): (_, Name) = (uploads(place.path()), "echo".parse().unwrap());
        let files = || std::fs::read_dir(place.path()).unwrap().filter(|file| file.as_ref().unwrap().path().is_file());
        let aside = uploads.write_aside(&name, b"wasm").await.unwrap();
        assert_eq!((files().count(), listing::list(place.path()).unwrap().files.len()), (1, 0));
        drop(aside);
        assert_eq!(files().count(), 0, "nothing stays of what was decided against");
        let path = uploads.path(&name);
        uploads.write_aside(&name, b"wasm").await.unwrap().put(&path).await.unwrap();
        assert_eq!((files().count(), std::fs::read(path).unwrap()), (1, b"wasm".to_vec()));
        let gone = ComponentUploads { folder: place.path().join("gone"), ..uploads };
        assert!(matches!(gone.write_aside(&name, b"wasm").await, Err(UploadError::Folder { .. })));
    }

    #[tokio::test]
    async fn a_tenant_waits_for_others_and_may_not_come_twice() {
        let place = tempfile::tempdir().unwrap();
        let uploads = uploads(place.path());
        let (acme, other): (Name, Name) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let first = uploads.turn(&acme).await.unwrap();
        assert!(matches!(uploads.turn(&acme).await, Err(UploadError::Busy)));
        let mut second = Box::pin(uploads.turn(&other));
        assert!(timeout(Duration::ZERO, &mut second).await.is_err());
        assert!(matches!(uploads.turn(&other).await, Err(UploadError::Busy)));
        drop(first);
        second.await.unwrap();
        // A tenant that gave up may come again.
        let held = uploads.turn(&acme).await.unwrap();
        let mut waits = Box::pin(uploads.turn(&other));
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        drop(waits);
        drop(held);
        uploads.turn(&other).await.unwrap();
    }

    #[test]
    fn uploads_make_a_bounded_number_of_topics() {
        let place = tempfile::tempdir().unwrap();
        let uploads = uploads(place.path());
        let manifest = Manifest::parse("", Path::new("gristmill.toml")).unwrap();
        let new = manifest.auto_topic(&"new".parse().unwrap());
        (1..HANDLERS_MAX).for_each(|number| drop(File::create(place.path().join(format!("h{number}.wasm"))).unwrap()));
        uploads.check_number(&new).unwrap();
        File::create(place.path().join("last.wasm")).unwrap();
        let error = uploads.check_number(&new).unwrap_err().to_string();
        assert!(error.contains("1000 components"), "{error}");
        let manifest = Manifest::parse("[topics.new]", Path::new("gristmill.toml")).unwrap();
        let registry = HandlerRegistry::new(&manifest, &Available::default(), &HandlerRegistry::default());
        let uploads = ComponentUploads { registry: watch::Sender::new(Arc::new(registry)).subscribe(), ..uploads };
        uploads.check_number(&new).unwrap();
    }
}
