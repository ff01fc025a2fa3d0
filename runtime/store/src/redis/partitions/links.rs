//! Jobs that wait for other jobs. A job is in the partition of those that it waits for, because the step that ends one of them lets it
//! start.

use super::{PartitionMap, RedisStore};
use crate::StoreError;
use crate::composite::{Asking, CompositeStore};
use gristmill_core::job::{NewJob, NoLink};
use gristmill_core::time::Timestamp;

impl RedisStore {
    /// The partition of a new job that waits for others, given those before it in the same push; or which of the jobs that it names is in
    /// another one. If none of them is known, it is the usual one, which refuses the job.
    pub(super) async fn place_of_linked(
        &self,
        (map, now): (&PartitionMap, Timestamp),
        job: &NewJob,
        before: &[(&NewJob, u32)],
    ) -> Result<Result<u32, NoLink>, StoreError> {
        let (tenant, usual) = (&job.spec.topic.tenant, map.of_job(&job.spec, now));
        let mut place = None;
        for id in job.spec.options.named() {
            let pushed = before.iter().rev().find(|(before, _)| before.spec.id == *id);
            let found = match pushed {
                Some((_, number)) => Some(*number),
                None => {
                    let ask = |partition: super::Partition| async move { partition.knows(tenant, id).await };
                    let known = self.ask(Asking::Answer, tenant, ask).await?;
                    known.into_iter().position(|known| known).and_then(|number| u32::try_from(number).ok())
                }
            };
            let Some(found) = found else { return Ok(Ok(usual)) };
            if *place.get_or_insert(found) != found || !map.may_hold(&job.spec, found, now) {
                return Ok(Err(NoLink::Elsewhere(id.clone())));
            }
        }
        Ok(Ok(place.unwrap_or(usual)))
    }
}
