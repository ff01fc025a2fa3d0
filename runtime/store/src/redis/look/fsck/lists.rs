//! What names jobs: claims, topics with their Lists, and what is kept of some jobs only.

use std::collections::BTreeSet;

use redis::{RedisResult, pipe};

use super::{Bytes, DOING, PartitionCheck, Scan, shown};
use crate::redis::holder::{Holder, read_holder};
use crate::redis::script::{Call, script};
use crate::{Check, StoreError};
use gristmill_core::job::{Name, Priority, WorkerId};

/// How many elements of a List are read at once.
const ELEMENTS: usize = 1000;

impl PartitionCheck<'_> {
    /// Every claim with a lease or a List.
    pub(super) async fn claims(&mut self, mut holders: BTreeSet<String>) -> Result<(), StoreError> {
        let leased = self.partition.holders(DOING, &self.keys).await?;
        holders.extend(leased.into_iter().map(|(holder, _)| holder));
        self.report.look("claims", holders.len());
        for holder in &holders {
            let Some((worker, batch)) = read_holder(holder) else {
                let detail = format!("`{holder}` names no claim");
                self.found(Check::LeaseWithoutJobs, (None, None), self.keys.leases(), detail);
                continue;
            };
            let list = self.keys.processing(Holder { worker: &WorkerId::new(worker), batch });
            let names = [self.keys.jobs(), self.keys.claims(), self.keys.leases(), self.keys.extended(), list.clone()];
            let mut call = Call::new(script!("look/fsck/fsck_claim.lua"), &names);
            call.arg(holder);
            let mut reply = self.partition.reply(DOING, call).await?;
            let mut read = || -> RedisResult<_> {
                let (is_leased, jobs, unleased) = (reply.number()? == 1, reply.number()?, reply.number()?);
                let mut others = Vec::new();
                while !reply.is_empty() {
                    others.push(shown(&reply.bytes()?));
                }
                Ok((is_leased, jobs, unleased, others))
            };
            let (is_leased, jobs, unleased, others) = read().map_err(self.partition.misread(DOING))?;
            if is_leased && jobs == 0 {
                self.found(Check::LeaseWithoutJobs, (None, None), self.keys.leases(), format!("of `{holder}`"));
            }
            if !is_leased && unleased > 0 {
                let detail =
                    format!("`leases` does not have it, and {unleased} of its jobs have no lease of their own");
                self.found(Check::ClaimWithoutLease, (None, None), list.clone(), detail);
            }
            for id in others {
                self.found(Check::ClaimHoldsOther, (None, Some(&id)), list.clone(), "it does not run the job");
            }
        }
        Ok(())
    }

    /// What is noted of a topic.
    pub(super) async fn topic(&mut self, topic: &Name, is_raw: bool) -> Result<(), StoreError> {
        self.report.look("topics", 1);
        let mut names = self.keys.with_rows([], [topic]);
        names.push(self.keys.limited());
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "look/fsck/fsck_topic.lua"), &names);
        call.arg(topic.as_str());
        let mut reply = self.partition.reply(DOING, call).await?;
        let mut read = || -> RedisResult<_> {
            let (ready, delayed, kept) = (reply.number()?, reply.text()?, reply.number()? + reply.number()?);
            let (is_active, is_paused, due, rate_due) =
                (reply.number()? == 1, reply.number()? == 1, reply.text()?, reply.text()?);
            let (is_perishable, limited, running) = (reply.number()? == 1, reply.text()?, reply.text()?);
            Ok((ready, delayed, kept, is_active || is_paused, due, rate_due, is_perishable, limited, running))
        };
        let (ready, delayed, kept, is_known, due, rate_due, is_perishable, limited, running) =
            read().map_err(self.partition.misread(DOING))?;
        let name = Some(topic.as_str());
        if ready > 0 && !is_known && !is_raw {
            let detail = format!("{ready} are ready");
            self.found(Check::TopicNotAnnounced, (name, None), self.keys.active(), detail);
        }
        // Raw producers write delayed jobs, and nothing else.
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::INFINITY);
        if !delayed.is_empty() && !is_raw && number(&due) > number(&delayed) {
            let noted = if due.is_empty() { "nothing" } else { &due };
            let detail = format!("the first is due at {delayed} ms, and `due` says {noted}");
            self.found(Check::DueWrong, (name, None), self.keys.due(), detail);
        }
        if kept > 0 && !is_perishable {
            let detail = format!("it has {kept} dead jobs and held values");
            self.found(Check::PerishableMissing, (name, None), self.keys.perishable(), detail);
        }
        let waits_for_end = limited == "inf";
        // Below zero: until a job of any topic of the tenant ends.
        let waits_for_time = !waits_for_end && !limited.is_empty() && !limited.starts_with('-');
        let is_stuck = waits_for_end && running == "0" || waits_for_time && rate_due.is_empty();
        if is_stuck {
            let detail = format!("`limited` says {limited}, and {running} of its jobs run");
            self.found(Check::LimitedForEver, (name, None), self.keys.limited(), detail);
        }
        Ok(())
    }

    /// Hands the elements of a ready List to `see`. `is_first`: looks whether they are jobs.
    pub(super) async fn ready_list(
        &mut self,
        topic: &Name,
        line: Priority,
        is_raw: bool,
        is_first: bool,
        see: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<(), StoreError> {
        let key = self.keys.ready(line, topic);
        // New jobs come at the left, and move the others away from it: none is passed over.
        for begin in (0..).step_by(ELEMENTS) {
            let mut ask = pipe();
            ask.cmd("LRANGE").arg(&key).arg(begin).arg(begin + ELEMENTS - 1);
            let (ids,): (Vec<Bytes>,) = self.query(&ask).await?;
            ids.iter().for_each(|id| see(id));
            if is_first && !is_raw && !ids.is_empty() {
                self.report.look("entries", ids.len());
                for id in self.without_job(&key, "", "", &ids).await? {
                    for id in self.without_job(&key, "list", "", &[id]).await? {
                        self.without(Check::EntryWithoutJob, Some(topic), &id, &key);
                    }
                }
            }
            if ids.len() < ELEMENTS {
                break;
            }
        }
        Ok(())
    }

    /// What names jobs by their ids, besides the ready Lists.
    pub(super) async fn details(&mut self, topics: &BTreeSet<Name>, raw: &BTreeSet<String>) -> Result<(), StoreError> {
        let keys = self.keys.clone();
        let details = [
            (keys.claims(), Scan::Hash, ""),
            (keys.failures(), Scan::LargeHash, ""),
            (keys.checkpoints(), Scan::LargeHash, ""),
            (keys.priorities(), Scan::Hash, ""),
            (keys.keyed(), Scan::Hash, ""),
            (keys.large(), Scan::Set, ""),
            (keys.extended(), Scan::Sorted, "running"),
            (keys.cancelled(), Scan::Set, "running"),
        ];
        for (key, scan, place) in details {
            self.members(Check::DetailWithoutJob, None, &key, scan, place).await?;
        }
        for topic in topics {
            if !raw.contains(topic.as_str()) {
                self.members(Check::EntryWithoutJob, Some(topic), &keys.delayed(topic), Scan::Sorted, "").await?;
            }
            self.members(Check::EntryWithoutJob, Some(topic), &keys.dead(topic), Scan::Sorted, "").await?;
        }
        Ok(())
    }

    async fn members(
        &mut self,
        check: Check,
        topic: Option<&Name>,
        key: &str,
        scan: Scan,
        place: &str,
    ) -> Result<(), StoreError> {
        let mut cursor = 0;
        loop {
            let (next, members) = self.scan(scan, key, cursor).await?;
            let ids: Vec<Bytes> = members.into_iter().map(|(id, _)| id).collect();
            self.report.look("entries", ids.len());
            for id in self.without_job(key, scan.kind(), place, &ids).await? {
                self.without(check, topic, &id, key);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    fn without(&mut self, check: Check, topic: Option<&Name>, id: &[u8], key: &str) {
        let detail = "there is no such job, or it does not run";
        self.found(check, (topic.map(Name::as_str), Some(&shown(id))), key.to_owned(), detail);
    }

    async fn without_job(&self, key: &str, kind: &str, place: &str, ids: &[Bytes]) -> Result<Vec<Bytes>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let names = [self.keys.jobs(), self.keys.claims(), key.to_owned()];
        let mut call = Call::new(script!("look/fsck/fsck_members.lua"), &names);
        call.arg(kind).arg(place).arg(ids);
        let (mut reply, mut without) = (self.partition.reply(DOING, call).await?, Vec::new());
        while !reply.is_empty() {
            without.push(reply.bytes().map_err(self.partition.misread(DOING))?);
        }
        Ok(without)
    }
}
