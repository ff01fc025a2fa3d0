//! Jobs that wait for other jobs.

use super::{Bytes, PartitionCheck, Scan};
use crate::redis::script::{Call, script};
use crate::{Check, StoreError};

impl PartitionCheck<'_> {
    /// Which jobs wait for which.
    pub(super) async fn links(&mut self) -> Result<(), StoreError> {
        let key = self.keys.links();
        let mut cursor = 0;
        loop {
            let (next, found) = self.scan(Scan::Sorted, &key, cursor).await?;
            self.report.look("links", found.len());
            let members: Vec<Bytes> = found.into_iter().map(|(member, _)| member).collect();
            let mut call =
                Call::new(script!("look/fsck/fsck_links.lua"), &[key.clone(), self.keys.jobs(), self.keys.due()]);
            call.arg(&members);
            for [member, what, waiter] in self.triples(call).await? {
                let (check, detail) = match what.as_str() {
                    "waiter" => (Check::LinkWaiterGone, "no such job waits"),
                    "job" => (Check::LinkJobGone, "the job that it waits for is not stored"),
                    "none" => (Check::WaitsForNone, "it stands by, and all that it waits for have ended"),
                    "left" => (Check::EndNotPassedOn, "nothing goes on with it"),
                    _ => (Check::LinksMismatched, "the other note of this link is missing"),
                };
                // The names of keys follow.
                let member = member.split('\0').next().unwrap_or_default();
                self.found(check, (None, Some(&waiter)), format!("{key} {member}"), detail);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}
