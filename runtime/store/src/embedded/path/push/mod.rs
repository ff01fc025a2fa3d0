//! Push: new jobs, in bounded chunks.

pub(in crate::embedded) mod insert;

use std::time::Duration;

use async_trait::async_trait;

use crate::batch::{STEP, parts};
use crate::clock::wait_ms;
use crate::embedded::fault::Done;
use crate::embedded::file::request::Weight;
use crate::embedded::results;
use crate::embedded::row::{Columns, Written};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::{Push, Pushed, StoreError};
use gristmill_core::job::{Due, JobId, NewJob};
use insert::{JobRow, RowPlace};

const DOING: &str = "push jobs";

/// What one chunk of settlements or of moved jobs may hold: the writer does nothing else meanwhile. A single job may be larger.
pub(in crate::embedded) const CHUNK: Weight = Weight { jobs: 1000, bytes: 4 << 20 };

/// How many chunks wait for the writer at once.
const CHUNKS_AT_ONCE: usize = 8;

#[async_trait]
impl Push for EmbeddedStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let mut answers = Vec::with_capacity(jobs.len());
        let parts = parts(jobs, STEP, |job| Weight::of_new(job));
        for parts in parts.chunks(CHUNKS_AT_ONCE) {
            let mut asked = Vec::with_capacity(parts.len());
            for (part, weight) in parts {
                let packed = pack(part.iter().copied()).map_err(|fault| self.error(fault, DOING))?;
                asked.push(
                    self.ask(*weight, move |work| packed.iter().map(|job| work.push(job, false)).collect()).await,
                );
            }
            for answer in asked {
                let pushed: Vec<Pushed> = self.answer(DOING, answer).await?;
                answers.extend(pushed);
            }
        }
        Ok(answers)
    }
}

/// A new job with what can be made ready outside the writer.
#[derive(Debug)]
pub(in crate::embedded) struct Packed {
    job: NewJob,
    written: Written,
}

impl Packed {
    pub(in crate::embedded) const fn id(&self) -> &JobId {
        &self.job.spec.id
    }

    /// It waits for other jobs, or is a member of a batch.
    pub(in crate::embedded) const fn is_linked(&self) -> bool {
        self.job.spec.options.is_linked()
    }
}

pub(in crate::embedded) fn pack<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Done<Vec<Packed>> {
    let pack = |job: &NewJob| Ok(Packed { written: Written::of(&job.spec)?, job: job.clone() });
    jobs.into_iter().map(pack).collect()
}

impl Work<'_> {
    /// Stores a new job, unless its id is known or another job holds its unique value, or it cannot wait for what it is to wait for. A job that
    /// `follows` an attempt is not refused.
    pub(in crate::embedded) fn push(&mut self, Packed { job, written }: &Packed, follows: bool) -> Done<Pushed> {
        let spec = &job.spec;
        if self.exists(spec)? || self.is_unfinished(&spec.topic.tenant, &spec.id)? {
            return Ok(Pushed::Exists);
        }
        let topic = self.topics.find_or_add(self.connection, &spec.topic)?;
        let unique = spec.options.unique.as_ref().filter(|unique| !unique.value.is_empty());
        if let Some(unique) = unique
            && let Some(holder) = self.holder(topic, &unique.value)?
        {
            self.topics.count(topic, "duplicate", 1);
            return Ok(Pushed::Duplicate(holder));
        }
        let found = match spec.options.is_linked().then(|| self.find_links(spec, follows)).transpose()? {
            Some(Err(no)) => return Ok(Pushed::Refused(no)),
            Some(Ok(found)) => Some(found),
            None => None,
        };
        if let Some(unique) = unique {
            let until = unique.window.map(|window| self.now().plus(Duration::from_millis(wait_ms(window))));
            self.hold(topic, &unique.value, &spec.id, until)?;
        }
        let due_at = self.due(job.due);
        let stands_by = match &found {
            Some(found) => self.add_links(spec, found)?,
            None => false,
        };
        let place = if stands_by {
            self.stand_by(topic)?
        } else {
            self.wait(topic, spec.options.priority, due_at, spec.shared_key())?
        };
        let row = JobRow {
            id: &spec.id,
            columns: Columns::of(spec, written, (self.now(), due_at)),
            place: RowPlace::Waiting(place),
            attempts: 0,
            deliveries: 0,
            failure: None,
            checkpoint: None,
            holds_slot: false,
            fixed: matches!(job.due, Due::At(_)),
        };
        self.insert(topic, &row)?;
        if !follows && !spec.id.is_fresh() {
            // What is kept of an earlier job with the id is not what becomes of this one.
            results::forget(self.connection, &spec.topic.tenant, &spec.id)?;
        }
        self.topics.count(topic, "pushed", 1);
        Ok(Pushed::Stored)
    }
}
