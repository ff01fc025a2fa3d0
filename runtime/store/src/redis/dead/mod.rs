//! Dead jobs: brought back and deleted.

use redis::pipe;

use super::envelope;
use super::script::{Call, script};
use super::store::{Partition, SCRIPT_JOBS};
use crate::StoreError;
use gristmill_core::job::{JobId, TopicId};

impl Partition {
    pub(super) async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        const DOING: &str = "respawn dead jobs";
        let keys = self.keys(&topic.tenant);
        let mut answers = Vec::with_capacity(ids.len());
        let mut remaining = ids;
        while !remaining.is_empty() {
            let (ids, _) = remaining.split_at(remaining.len().min(SCRIPT_JOBS));
            let mut ask = pipe();
            ask.cmd("HMGET").arg(keys.jobs()).arg(ids.iter().map(JobId::as_str).collect::<Vec<_>>());
            let (stored,): (Vec<Option<Vec<u8>>>,) = self.link.query(DOING, &ask).await?;
            let mut names = keys.with_rows([], [&topic.topic]);
            names.extend([keys.claims(), keys.failures()]);
            names.extend(ids.iter().map(|id| keys.result(id)));
            let mut call = Call::new(
                script!(
                    "keys/line.lua",
                    "keys/waiting.lua",
                    "links/links.lua",
                    "path/push/insert.lua",
                    "dead/respawn.lua"
                ),
                &names,
            );
            call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topic.topic.as_str());
            for (id, stored) in ids.iter().zip(stored) {
                let job = stored.and_then(|stored| envelope::read(&topic.tenant, id.clone(), &stored).ok());
                let unique = job.as_ref().and_then(|job| job.spec.options.unique.as_ref()?.held_until_done());
                call.arg(id.as_str()).arg(unique.unwrap_or_default());
            }
            // The script leaves jobs for another call for which many wait.
            let some = self.yes_or_no(DOING, call).await?;
            remaining = remaining.get(some.len().max(1)..).unwrap_or_default();
            answers.extend(some);
        }
        Ok(answers)
    }

    pub(crate) async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut names = keys.with_rows([], [&topic.topic]);
        names.extend([keys.claims(), keys.failures(), keys.checkpoints(), keys.ended(&topic.topic)]);
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(SCRIPT_JOBS) {
            let mut call = Call::new(
                script!(
                    "keys/line.lua",
                    "keys/waiting.lua",
                    "links/links.lua",
                    "path/finish/ends.lua",
                    "path/finish/finish.lua",
                    "dead/delete_dead.lua"
                ),
                &names,
            );
            call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topic.topic.as_str());
            call.arg(ids.iter().map(JobId::as_str).collect::<Vec<_>>());
            let deleted = self.yes_or_no("delete dead jobs", call).await?;
            let gone = ids.iter().zip(&deleted).filter(|(_, deleted)| **deleted);
            self.forget_recordings_of(gone.map(|(id, _)| (topic, id))).await;
            answers.extend(deleted);
        }
        Ok(answers)
    }
}
