//! The one way in which jobs move from a store to another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::counts::Pause;
use super::error::StoreError;
use super::inspect::Control;
use super::transfer::{Imported, StoredJob, StoredPlace, Transfer};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_metrics::as_actor;

/// Jobs of a batch.
const BATCH: usize = 200;
/// How old an exported batch may be when it is imported. An older one is dropped: another process may have moved it
/// meanwhile.
const FRESH: Duration = Duration::from_secs(5);

/// The move of one topic's waiting and dead jobs, batch by batch; see [`Transfer`] for the steps. The topic should be paused
/// in the old store.
#[derive(Debug)]
pub struct TopicMove<'a, T: ?Sized> {
    /// The store that has the jobs.
    pub from: &'a T,
    /// The store that gets them.
    pub to: &'a T,
    /// The topic that is moved.
    pub topic: &'a TopicId,
    /// The jobs that stay in the old store.
    pub kept: BTreeMap<JobId, Unmoved>,
}

/// Moves the states of these keys of topics, as [`Transfer::keys_with_state`] has them. A key that has one in the new store keeps that, and the
/// one in the old store is dropped. Returns how many moved.
///
/// Interrupted, it can be repeated: a state is in one of the stores at any time.
///
/// # Errors
/// A store is unavailable or refuses.
pub async fn move_states<'a, T: Transfer + ?Sized>(
    from: &T,
    to: &T,
    keys: impl IntoIterator<Item = &'a (TopicId, String)>,
) -> Result<u64, StoreError> {
    let mut moved = 0;
    for (topic, key) in keys {
        let Some(state) = from.export_state(topic, key).await? else { continue };
        moved += u64::from(to.import_state(topic, key, &state).await?);
        from.delete_state(topic, key, None).await?;
    }
    Ok(moved)
}

/// Moves the unique values that jobs of a topic which are over hold for some more time. A value that another job holds in the new store stays that
/// job's. Returns how many moved.
///
/// Interrupted, it can be repeated: a value is held in one of the stores at any time.
///
/// # Errors
/// A store is unavailable or refuses.
pub async fn move_windows<T: Transfer + ?Sized>(from: &T, to: &T, topic: &TopicId) -> Result<u64, StoreError> {
    let mut moved = 0;
    loop {
        let windows = from.export_windows(topic, BATCH).await?;
        if windows.is_empty() {
            return Ok(moved);
        }
        to.import_windows(topic, &windows).await?;
        from.remove_windows(topic, &windows).await?;
        moved += windows.len() as u64;
    }
}

/// Copies the results of a tenant's jobs that are still kept; in the old store they expire. Returns how many the new store did not have.
///
/// # Errors
/// A store is unavailable or refuses.
pub async fn copy_results<T: Transfer + ?Sized>(from: &T, to: &T, tenant: &Name) -> Result<u64, StoreError> {
    let mut copied = 0;
    for jobs in from.jobs_with_result(tenant).await?.chunks(BATCH) {
        let results = from.export_results(tenant, jobs).await?;
        copied += to.import_results(tenant, &results).await?;
    }
    Ok(copied)
}

/// Pauses a topic in a store as it is paused in another one: by the same actor, and if that is not known by the one for whom this is done. Since
/// when it is paused begins anew.
///
/// # Errors
/// The store is unavailable or refuses.
pub async fn pause_alike<T: Control + ?Sized>(
    store: &T,
    topic: &TopicId,
    pause: Option<Pause>,
) -> Result<(), StoreError> {
    let pausing = store.set_paused(topic, true);
    match pause.and_then(|pause| pause.by) {
        Some(by) => as_actor(by, pausing).await?,
        None => pausing.await?,
    };
    Ok(())
}

/// Why a job stays in the old store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmoved {
    /// The new store has another job with its id, or both stores are one.
    IdTaken,
    /// It cannot be read, which is why, and the new store cannot keep its stored form.
    Unreadable(String),
}

/// A job that is in the new store.
#[derive(Debug)]
pub struct MovedJob {
    /// Its id.
    pub id: JobId,
    /// Where it was, and is again.
    pub place: StoredPlace,
    /// An earlier try had stored it already.
    pub was_there: bool,
    /// It was removed from the old store. If not, it was claimed there, changed or removed meanwhile.
    pub removed: bool,
}

impl<'a, T: Transfer + ?Sized> TopicMove<'a, T> {
    /// A move of the topic's jobs, which has not begun.
    pub const fn new(from: &'a T, to: &'a T, topic: &'a TopicId) -> Self {
        Self { from, to, topic, kept: BTreeMap::new() }
    }

    /// Moves the next batch: exports it from the old store, imports it into the new one, and removes it from the old one.
    /// Returns the jobs that are in the new store now: none if the export took too long, or if all of them are kept. Returns
    /// `None` if nothing is left but jobs that are kept.
    ///
    /// The new store keeps a mark of each job until [`Self::clear_marks`]. A dropped call may have imported jobs that are not
    /// removed yet; the next call recognises them by their marks.
    ///
    /// # Errors
    /// A store is unavailable or refuses.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<MovedJob>>, StoreError> {
        let begun = Instant::now();
        let mut batch = self.from.export(self.topic, BATCH + self.kept.len()).await?;
        batch.retain(|stored| !self.kept.contains_key(&stored.job.spec.id));
        if batch.is_empty() {
            return Ok(None);
        }
        if begun.elapsed() > FRESH {
            return Ok(Some(Vec::new()));
        }
        let mut moved = Vec::with_capacity(batch.len());
        for (stored, imported) in batch.iter().zip(self.to.import(&batch).await?) {
            let StoredJob { job, sealed, place, .. } = stored;
            let id = job.spec.id.clone();
            match imported {
                Imported::Stored | Imported::Before => {
                    let was_there = imported == Imported::Before;
                    moved.push(MovedJob { id, place: *place, was_there, removed: false });
                }
                Imported::IdTaken => drop(self.kept.insert(id, Unmoved::IdTaken)),
                Imported::Unreadable => {
                    let problem = sealed.as_ref().map(|sealed| sealed.problem.clone());
                    self.kept.insert(id, Unmoved::Unreadable(problem.unwrap_or_default()));
                }
            }
        }
        let ids: Vec<JobId> = moved.iter().map(|job| job.id.clone()).collect();
        for (job, removed) in moved.iter_mut().zip(self.from.remove_exported(self.topic, &ids).await?) {
            job.removed = removed;
        }
        Ok(Some(moved))
    }

    /// Clears the marks of moved jobs in the new store. Not before every other process that might be moving the same batch
    /// has ended.
    ///
    /// # Errors
    /// The new store is unavailable or refuses.
    pub async fn clear_marks(&self, moved: &[MovedJob]) -> Result<(), StoreError> {
        let ids: Vec<JobId> = moved.iter().map(|job| job.id.clone()).collect();
        self.to.clear_move_marks(&self.topic.tenant, &ids).await
    }
}
