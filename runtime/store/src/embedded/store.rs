//! [`EmbeddedStore`]: what it holds, and which file does what of the contract.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::fault::{Done, Fault};
use super::file::health::{Health, Watch};
use super::file::open::{self, Durability, Opened};
use super::file::owner::Lock;
use super::file::reader::{self, Question};
use super::file::request::{Request, Weight};
use super::file::start::{self, Readers};
use super::file::threads::Threads;
use super::path::lease::progress::AttemptsProgress;
use super::path::settle::kept_answers::KeptAnswers;
use super::signals::Listeners;
use super::work::Work;
use crate::{Clock, ServerName, Shards, Signal, Signals, StoreError, WaitingClaims};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::token::TokenId;

/// How many requests may wait for the writer; then the caller also waits.
const QUEUE: usize = 1024;

/// How often a lock that is taken is tried again, and after which pause.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(20);

/// Jobs in a SQLite file, or in memory, that belongs to this process. Clones share one writer.
///
/// Dropping the last clone waits until everything that was asked is done and the file is closed; then the next owner can
/// open it. That takes as long as what is queued, and blocks the thread.
#[derive(Debug, Clone)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    pub(super) clock: Clock,
}

#[derive(Debug)]
struct Shared {
    /// The file, for people.
    name: String,
    /// None only while this is dropped.
    writer: Option<Threads<Request>>,
    /// None in memory: there the writer also answers questions.
    readers: Option<Readers>,
    listeners: Arc<Listeners>,
    lock: Option<Arc<Lock>>,
    health: Arc<Health>,
    watch: Option<Watch>,
    kept_answers: KeptAnswers,
    attempts_progress: AttemptsProgress,
    /// The tenants that have as much in the file as they may.
    full: Mutex<HashSet<Name>>,
}

impl Drop for Shared {
    /// Waits for all threads: once the last clone is gone, so is the lock. The readers go first, so that the writer's
    /// connection is the last one and clears the log away.
    fn drop(&mut self) {
        self.watch.take().into_iter().for_each(Watch::end);
        for reader in self.readers.take().into_iter().flat_map(|Readers { short, long }| [short, long]) {
            reader.close();
        }
        self.writer.take().into_iter().for_each(Threads::close);
    }
}

impl EmbeddedStore {
    /// Opens the file at `path` and takes ownership of it. Creates it if it is missing, but not its folder; brings an
    /// older one into the present format.
    ///
    /// # Errors
    /// - [`StoreError::Owned`]: another process, or another part of this one, has it open.
    /// - [`StoreError::Refused`]: the folder is missing, file or folder may not be written, it is no file of ours, it is
    ///   damaged, or a newer version wrote it. It is left as it is.
    /// - [`StoreError::Unavailable`]: the disk failed or is full, or another process holds a lock on the file for too long.
    pub async fn open(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        let mut tries = 0;
        loop {
            let path = path.to_owned();
            let task = tokio::task::spawn_blocking(move || {
                let name = open::name(&path);
                open::open_file(&path, durability).and_then(|opened| Self::start(name, opened))
            });
            let opened = task
                .await
                .unwrap_or_else(|error| Err(Fault::Refused(error.to_string()).into_error("SQLite", "open the file")));
            match opened {
                Err(error) if open::is_taken(&error) && tries < TRIES => tries += 1,
                opened => return opened,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A store that is gone with its last clone.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: there is no memory left.
    pub async fn in_memory() -> Result<Self, StoreError> {
        open::open_memory().and_then(|opened| Self::start(":memory:".into(), opened))
    }

    /// The same store by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Writes down for other processes where this one answers, as which server, and by what `secret` it knows them; see `file/owner.rs`. In
    /// memory there is no file for that; see [`Announcement::of_memory`](super::Announcement::of_memory).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the file beside the database cannot be written.
    pub fn announce(&self, http: SocketAddr, secret: &str, server: &ServerName) -> Result<(), StoreError> {
        self.shared.lock.as_ref().map_or(Ok(()), |lock| lock.announce(http, secret, server))
    }

    fn start(name: String, opened: Opened) -> Result<Self, StoreError> {
        let started = start::start(&name, opened, QUEUE)?;
        let shared = Shared {
            name,
            writer: Some(started.writer),
            readers: started.readers,
            listeners: started.listeners,
            lock: started.lock,
            health: started.health,
            watch: started.watch,
            kept_answers: KeptAnswers::default(),
            attempts_progress: AttemptsProgress::default(),
            full: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), clock: Clock::Own })
    }

    /// Queues work for the writer. It is done even if the caller no longer waits for the answer.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl Fn(&mut Work<'_>) -> Done<T> + Send + 'static,
    ) -> oneshot::Receiver<Done<T>> {
        let (request, answer) = Request::new(self.clock.clone(), weight, work);
        if let Some(writer) = &self.shared.writer {
            // A writer that is gone drops the request, and the answer says so.
            let _ = writer.queue.send(request).await;
        }
        answer
    }

    pub(super) async fn answer<T>(
        &self,
        doing: &'static str,
        answer: oneshot::Receiver<Done<T>>,
    ) -> Result<T, StoreError> {
        answer.await.unwrap_or(Err(Fault::Closed)).map_err(|fault| self.error(fault, doing))
    }

    /// Has work done in a transaction that others may share, and waits until it is committed.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        doing: &'static str,
        weight: Weight,
        work: impl Fn(&mut Work<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.ask(weight, work).await;
        self.answer(doing, answer).await
    }

    /// Looks at what is committed, at one moment. For questions that take next to no time.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        look: impl Fn(&Connection, Timestamp) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_by(|readers| &readers.short, doing, look).await
    }

    /// The same for lists: others that are wanted at once have to wait.
    pub(super) async fn read_list<T: Send + 'static>(
        &self,
        doing: &'static str,
        look: impl Fn(&Connection, Timestamp) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_by(|readers| &readers.long, doing, look).await
    }

    async fn read_by<T: Send + 'static>(
        &self,
        reader: fn(&Readers) -> &Threads<Question>,
        doing: &'static str,
        look: impl Fn(&Connection, Timestamp) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(readers) = &self.shared.readers else {
            let look = move |work: &mut Work<'_>| {
                let now = work.now();
                // Those before it in the same transaction have changed topics.
                work.topics.save(work.connection, now)?;
                look(work.connection, now)
            };
            return self.write(doing, Weight::default(), look).await;
        };
        let (reply, answer) = oneshot::channel();
        let clock = self.clock.clone();
        let question = Question::new(move |connection, own| {
            reader::while_wanted(connection, reply, |connection| {
                reader::at_one_moment(connection, || look(connection, own.moment(&clock).now))
            });
        });
        // A reader that is gone drops the question, and the answer says so.
        let _ = reader(readers).queue.send(question).await;
        self.answer(doing, answer).await
    }

    pub(super) fn full(&self) -> &Mutex<HashSet<Name>> {
        &self.shared.full
    }

    pub(super) fn health(&self) -> &Health {
        &self.shared.health
    }

    pub(super) fn attempts_progress(&self) -> &AttemptsProgress {
        &self.shared.attempts_progress
    }

    pub(super) fn kept_answers(&self) -> &KeptAnswers {
        &self.shared.kept_answers
    }

    pub(super) fn waiting_claims(&self) -> &WaitingClaims<Request> {
        &self.shared.listeners.claims
    }

    /// `is_worker`: see [`Listeners::send`].
    pub(super) fn listen(&self, tenants: &[Name], is_worker: bool) -> mpsc::Receiver<Signal> {
        self.shared.listeners.add(tenants, is_worker)
    }

    pub(super) fn listen_for_tokens(&self) -> mpsc::Receiver<TokenId> {
        self.shared.listeners.add_for_tokens()
    }

    pub(super) fn error(&self, fault: Fault, doing: &'static str) -> StoreError {
        if fault.is_damage() {
            self.shared.health.note_damage(&fault);
        }
        fault.into_error(&self.shared.name, doing)
    }
}

/// One file.
impl Shards for EmbeddedStore {}

#[async_trait]
impl Signals for EmbeddedStore {
    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        Ok(self.listen(tenants, false))
    }
}
