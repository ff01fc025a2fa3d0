//! The call of `settle.lua`: settlements that are alike go together, each with what only it says.

use std::cmp::Ordering;
use std::ops::Range;
use std::time::Duration;

use super::replies::{Placed, Record};
use crate::clock::wait_ms;
use crate::redis::holder::Holder;
use crate::redis::key_names::Keys;
use crate::redis::partitions::partition_map::PartitionMap;
use crate::redis::path::push::{NewJobArgument, add_jobs, yes};
use crate::redis::path::settle::{DOING, Dead};
use crate::redis::record::{write_failure, write_result, write_state};
use crate::redis::script::{Call, script};
use crate::redis::store::{Numbered, Partition};
use crate::{Settlement, StoreError};
use gristmill_core::job::{Name, NewJob};
use gristmill_core::outcome::{Failure, Verdict};
use gristmill_core::time::Timestamp;

/// What the settlements of a group have in common. In the order in which it is compared: what mostly distinguishes them comes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    batch: u64,
    delivery: u64,
    topic: Shared<'a>,
    worker: Shared<'a>,
    verdict: Shared<'static>,
    reason: Shared<'static>,
    keep_result: Duration,
    remember: Duration,
    notify: bool,
    guard: Shared<'static>,
    has_unique: bool,
    is_keyed: bool,
    writes_states: bool,
    has_fuel: bool,
}

/// A text that is mostly the very same one: then it is not read to be compared.
#[derive(Debug, Clone, Copy)]
struct Shared<'a>(&'a str);

impl Ord for Shared<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        if std::ptr::eq(self.0, other.0) { Ordering::Equal } else { self.0.cmp(other.0) }
    }
}

impl PartialOrd for Shared<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Shared<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Shared<'_> {}

/// A follow-up job, and the position of the settlement that it follows, counted from 1.
struct FollowUp<'a> {
    job: &'a NewJob,
    packed: Vec<u8>,
    follows: usize,
}

impl<'a> Group<'a> {
    fn of(settlement: &'a Settlement, dead: &Dead) -> Self {
        Self {
            batch: Holder::of(&settlement.lease).batch,
            delivery: settlement.lease.delivery,
            topic: Shared(settlement.lease.topic.topic.as_str()),
            worker: Shared(settlement.lease.worker.as_str()),
            verdict: Shared(settlement.verdict.name()),
            reason: Shared(failure(&settlement.verdict).map_or("", |failure| failure.reason.as_str())),
            keep_result: settlement.keep_result,
            remember: settlement.remember,
            notify: settlement.notify,
            guard: Shared(guard(settlement, dead)),
            has_unique: settlement.unique.is_some(),
            is_keyed: settlement.is_keyed,
            writes_states: settlement.visible_state().is_some(),
            has_fuel: settlement.fuel > 0,
        }
    }

    /// What the script gets about keys.
    fn keyed(&self) -> &'static str {
        if self.writes_states { "state" } else { yes(self.is_keyed) }
    }

    /// Whether settling its jobs touches keys of their topic.
    fn needs_row(&self, verdict: &Verdict) -> bool {
        self.has_unique
            || self.is_keyed
            || !self.guard.0.is_empty()
            || !matches!(verdict, Verdict::Ack(_) | Verdict::Expire)
    }
}

/// Brings settlements that are alike together. Those that put their jobs back stay in order, because that is the order of the line.
pub(super) fn by_group<'a>(settlements: &[Placed<'a>], dead: &Dead) -> Vec<Placed<'a>> {
    // Mostly many stand together already that are alike: only such runs are put in order.
    let mut runs: Vec<(Option<Group<'a>>, Range<usize>)> = Vec::new();
    for (place, (_, settlement)) in settlements.iter().enumerate() {
        let group = (!is_put_back(&settlement.verdict)).then(|| Group::of(settlement, dead));
        match runs.last_mut() {
            Some((last, run)) if *last == group => run.end = place + 1,
            _ => runs.push((group, place..place + 1)),
        }
    }
    runs.sort_by(|(a, _), (b, _)| a.cmp(b));
    runs.into_iter().flat_map(|(_, run)| settlements.get(run).unwrap_or_default()).copied().collect()
}

/// Each group of a part that is in groups, with the first of its settlements.
fn groups_of<'p, 'a>(part: &'p [Placed<'a>], dead: &Dead) -> Vec<(Group<'a>, &'a Settlement, &'p [Placed<'a>])> {
    let mut groups: Vec<(Group<'a>, &'a Settlement, usize)> = Vec::new();
    for (place, (_, settlement)) in part.iter().enumerate() {
        let group = Group::of(settlement, dead);
        if groups.last().is_none_or(|(last, ..)| *last != group) {
            groups.push((group, settlement, place));
        }
    }
    let ends: Vec<usize> = groups.iter().skip(1).map(|(.., begin)| *begin).chain([part.len()]).collect();
    let cut = |((group, first, begin), end)| (group, first, part.get(begin..end).unwrap_or_default());
    groups.into_iter().zip(ends).map(cut).collect()
}

impl Partition {
    /// `part` is in groups: see [`by_group`].
    pub(super) async fn settle_call(
        &self,
        keys: &Keys,
        part: &[Placed<'_>],
        (dead, map, now): (&Dead, &PartitionMap, Timestamp),
        record: &Record,
    ) -> Result<Call, StoreError> {
        let follow_ups = self.follow_ups(part)?;
        let named = self.named(DOING, follow_ups.iter().map(|follow_up| follow_up.job)).await?;
        let is_elsewhere = |job: &NewJob| map.of_follow_up(&job.spec, self.number, now) != self.number;
        let groups = groups_of(part, dead);
        let (mut holders, mut topics) = (Numbered(Vec::new()), Numbered(Vec::new()));
        for (group, first, _) in &groups {
            holders.number(Holder::of(&first.lease));
            if group.needs_row(&first.verdict) {
                topics.number(&first.lease.topic.topic);
            }
        }
        for follow_up in follow_ups.iter().filter(|follow_up| !is_elsewhere(follow_up.job)) {
            topics.number(&follow_up.job.spec.topic.topic);
        }
        let rows = topics.0.len();
        for (_, first, _) in &groups {
            topics.number(&first.lease.topic.topic);
        }
        let results = groups.iter().filter(|(group, ..)| !group.keep_result.is_zero()).flat_map(|(.., group)| *group);
        let mut names = own_keys(keys, &holders.0, topics.0.iter().take(rows), record);
        names.extend(topics.0.iter().skip(rows).map(|topic| keys.waiters(topic)));
        names.extend(topics.0.iter().map(|topic| keys.ended(topic)));
        names.extend(results.map(|(_, settlement)| keys.result(&settlement.lease.job)));
        let states = part.iter().filter_map(|(_, settlement)| {
            Some(keys.state(&settlement.lease.topic.topic, &settlement.visible_state()?.key))
        });
        names.extend(states);
        let linked = named.add_keys(keys, &mut names, follow_ups.iter().map(|follow_up| follow_up.job));
        names.extend(follow_ups.iter().any(|follow_up| is_elsewhere(follow_up.job)).then(|| keys.outbox()));

        let mut call = Call::new(
            script!("path/finish/ends.lua", "path/settle/plain_settle.lua", "signals/waiters.lua", "signals/wake.lua"; "keys/line.lua", "keys/waiting.lua", "links/links.lua", "path/push/insert.lua", "path/finish/finish.lua", "path/settle/settle.lua"),
            &names,
        );
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(keys.done_channel()).arg(record.number);
        call.holders(&holders.0).arg(rows).topics(&topics.0);
        call.arg(part.len());
        for (_, settlement) in part {
            call.arg(settlement.lease.job.as_str());
        }
        call.arg(groups.len());
        for (group, first, settlements) in &groups {
            let (holder, topic) = (Holder::of(&first.lease), &first.lease.topic.topic);
            call.arg(holders.number(holder)).arg(topics.number(topic)).arg(group.delivery);
            call.arg(group.verdict.0).arg(group.reason.0).arg(keep_ms(group.keep_result));
            self.add_ends(&mut call, keys.ended(topic), group, settlements);
            call.arg(yes(group.notify)).arg(group.guard.0).arg(yes(group.has_unique)).arg(group.keyed());
            call.arg(yes(group.has_fuel)).arg(settlements.len());
            self.add_columns(&mut call, group, settlements)?;
            add_states(&mut call, map, settlements);
        }
        let follow_ups = follow_ups.iter().map(|FollowUp { job, packed, follows }| NewJobArgument {
            job,
            packed,
            follows: Some(*follows),
            is_elsewhere: is_elsewhere(job),
        });
        add_jobs(&mut call, &follow_ups.collect::<Vec<_>>(), &mut topics, &linked);
        Ok(call)
    }

    /// The follow-up jobs of a part, in the order of the batch.
    fn follow_ups<'a>(&self, part: &[Placed<'a>]) -> Result<Vec<FollowUp<'a>>, StoreError> {
        let mut follow_ups = Vec::new();
        let mut in_order: Vec<_> = part.iter().enumerate().collect();
        in_order.sort_unstable_by_key(|(_, (place, _))| *place);
        for (n, (_, settlement)) in in_order {
            for job in settlement.visible_follow_ups() {
                if job.spec.topic.tenant != settlement.lease.topic.tenant {
                    let problem = anyhow::anyhow!("follow-up job {} is another tenant's", job.spec.id);
                    return Err(self.refused(DOING, problem));
                }
                follow_ups.push(FollowUp { job, packed: self.pack(DOING, job)?, follows: n + 1 });
            }
        }
        Ok(follow_ups)
    }

    /// What is remembered of the ends of a group.
    fn add_ends(&self, call: &mut Call, ended: String, group: &Group<'_>, part: &[Placed<'_>]) {
        if group.remember.is_zero() {
            call.arg("").arg("").arg("").arg("");
            return;
        }
        let keep = wait_ms(group.remember);
        let renew = self.renewals.is_time(ended, group.remember);
        call.arg(keep).arg(keep.saturating_mul(2)).arg(yes(renew));
        let ends = matches!(part.first(), Some((_, Settlement { verdict: Verdict::Ack(_) | Verdict::Expire, .. })));
        let ids = part.iter().filter(|_| ends).map(|(_, settlement)| settlement.lease.job.as_str());
        let mut listed = ids.fold(String::new(), |listed, id| listed + " " + id);
        if ends {
            listed.push(' ');
        }
        call.arg(listed);
    }

    /// What each settlement of a group says itself, one kind after the other.
    fn add_columns(&self, call: &mut Call, group: &Group<'_>, part: &[Placed<'_>]) -> Result<(), StoreError> {
        let unwritable = |error| self.refused(DOING, anyhow::Error::from(error));
        for (_, settlement) in part {
            if let Verdict::Retry { after, .. } | Verdict::Snooze(after) | Verdict::Release(after) = settlement.verdict
            {
                call.arg(wait_ms(after));
            }
        }
        for (_, settlement) in part {
            if let Some(failure) = failure(&settlement.verdict) {
                call.arg(write_failure(failure).map_err(unwritable)?);
            }
        }
        for (_, settlement) in part {
            call.arg(&settlement.unique);
        }
        if !group.keep_result.is_zero() {
            for (_, Settlement { verdict, attempts, lease, .. }) in part {
                let result = write_result(verdict, *attempts, Some(&lease.topic.topic)).map_err(unwritable)?;
                call.arg(result.unwrap_or_default());
            }
        }
        for (_, settlement) in part.iter().filter(|_| group.has_fuel) {
            call.arg(settlement.fuel);
        }
        Ok(())
    }
}

/// The states that a group leaves: for each how long it is kept, then what is stored.
fn add_states(call: &mut Call, map: &PartitionMap, part: &[Placed<'_>]) {
    let states = || part.iter().filter_map(|(_, settlement)| Some((settlement, settlement.visible_state()?)));
    for (_, state) in states() {
        call.arg(wait_ms(state.ttl).max(1));
    }
    for (settlement, state) in states() {
        let may_be_elsewhere = map.has_earlier(&settlement.lease.topic);
        call.arg(write_state(&state.change, may_be_elsewhere).unwrap_or_default());
    }
}

/// The keys of the script up to the rows of topics.
fn own_keys<'a>(
    keys: &Keys,
    holders: &[Holder<'_>],
    with_rows: impl Iterator<Item = &'a &'a Name>,
    record: &Record,
) -> Vec<String> {
    let own = [
        keys.claims(),
        keys.leases(),
        keys.failures(),
        keys.checkpoints(),
        keys.cancelled(),
        keys.extended(),
        keys.settled(&record.name),
        keys.limited(),
        keys.tenant(),
    ];
    let lists = holders.iter().map(|holder| keys.processing(*holder));
    keys.with_rows(own.into_iter().chain(lists), with_rows.copied())
}

fn failure(verdict: &Verdict) -> Option<&Failure> {
    match verdict {
        Verdict::Retry { failure, .. } | Verdict::Bury(failure) => Some(failure),
        Verdict::Ack(_) | Verdict::Expire | Verdict::Snooze(_) | Verdict::Release(_) => None,
    }
}

/// For how long something is kept, in ms; empty: not at all.
fn keep_ms(keep: Duration) -> String {
    if keep.is_zero() { String::new() } else { wait_ms(keep).to_string() }
}

fn is_put_back(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Retry { .. } | Verdict::Snooze(_) | Verdict::Release(_))
}

/// What besides the fence must hold: nothing for a worker's own settlements and for those of a dead worker.
fn guard(settlement: &Settlement, dead: &Dead) -> &'static str {
    match settlement.only_if_overdue {
        Some(dead_after) if !dead.get(&dead_after).is_some_and(|dead| dead.contains(&settlement.lease.worker)) => {
            "lease"
        }
        _ => "",
    }
}
