//! Plain acks: success that leaves nothing behind but a count. The common case, so it has a script of its own, whose cost
//! is shared by all jobs of a call.

use std::collections::HashSet;

use redis::RedisResult;

use super::holder::Holder;
use super::keys::Keys;
use super::replies::Record;
use super::reply::Reply;
use super::script::{Call, script};
use super::settle::Placed;
use super::store::{Numbered, RedisStore, SCRIPT_JOBS};
use crate::{Settled, Settlement};
use gristmill_core::job::{JobId, Name};
use gristmill_core::outcome::Verdict;

impl RedisStore {
    /// `part` is in groups as [`ack_parts`] makes them.
    pub(super) fn ack_call(&self, keys: &Keys, part: &[Placed<'_>], record: &Record) -> Call {
        let mut holders = Numbered(Vec::new());
        for (_, ack) in part {
            holders.number(Holder::of(&ack.lease));
        }
        let mut names = vec![
            keys.jobs(),
            keys.claims(),
            keys.leases(),
            keys.counts(),
            keys.failures(),
            keys.checkpoints(),
            keys.priorities(),
            keys.large(),
            keys.cancelled(),
            keys.extended(),
            keys.settled(&record.name),
        ];
        names.extend(holders.0.iter().map(|holder| keys.processing(*holder)));
        let mut call = Call::new(script!("finish.lua", "ack.lua"), &names);
        call.arg(record.number).holders(&holders.0);
        for group in part.chunk_by(|(_, one), (_, next)| group(one) == group(next)) {
            let Some((holder, topic, delivery)) = group.first().map(|(_, ack)| self::group(ack)) else { continue };
            call.arg(holders.number(holder)).arg(topic.as_str()).arg(delivery).arg(group.len());
            for (_, ack) in group {
                call.arg(ack.lease.job.as_str());
            }
        }
        call
    }
}

/// What the acks of a group have in common.
fn group(ack: &Settlement) -> (Holder<'_>, &Name, u64) {
    (Holder::of(&ack.lease), &ack.lease.topic.topic, ack.lease.delivery)
}

fn is_plain_ack(settlement: &Settlement) -> bool {
    matches!(settlement.verdict, Verdict::Ack(_))
        && settlement.follow_ups.is_empty()
        && settlement.keep_result.is_zero()
        && settlement.unique.is_none()
        && !settlement.notify
        && settlement.only_if_overdue.is_none()
}

/// Plain acks, which go ahead, and the others. An ack of a job that is settled otherwise too keeps its place behind it.
pub(super) fn plain_acks(batch: Vec<Placed<'_>>) -> (Vec<Placed<'_>>, Vec<Placed<'_>>) {
    let others = batch.iter().filter(|(_, s)| !is_plain_ack(s));
    let others: HashSet<&JobId> = others.map(|(_, s)| &s.lease.job).collect();
    if others.is_empty() {
        return (batch, Vec::new());
    }
    batch.into_iter().partition(|(_, s)| is_plain_ack(s) && !others.contains(&s.lease.job))
}

/// Cuts acks into what one script call may carry each, and brings those of a claim, topic and delivery together.
pub(super) fn ack_parts(mut acks: Vec<Placed<'_>>) -> Vec<Vec<Placed<'_>>> {
    acks.sort_by(|(_, one), (_, other)| group(one).cmp(&group(other)));
    acks.chunks(SCRIPT_JOBS).map(<[Placed<'_>]>::to_vec).collect()
}

/// `jobs`: how many the call named.
pub(super) fn read_lost(lost: Reply, jobs: usize) -> RedisResult<Vec<Settled>> {
    lost.all_but(jobs, Settled::Done, &Settled::LeaseLost)
}
