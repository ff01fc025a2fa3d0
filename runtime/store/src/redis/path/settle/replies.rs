//! Settle calls whose replies were lost. Every call that ends attempts leaves a record of what it answered; when its settlements are
//! settled again, and found settled, they get the answers of the record.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{RedisResult, Value};

use crate::redis::script::reply::Reply;
use crate::{Settled, Settlement};
use gristmill_core::job::{JobId, Name};

/// Attempts whose settlement got no reply and was not settled again, at most: those of one outage.
const LOST_MAX: usize = 1 << 16;

/// A settlement and its place in the batch.
pub(in crate::redis) type Placed<'a> = (usize, &'a Settlement);

/// What this process knows of its calls.
#[derive(Debug)]
pub(in crate::redis) struct Replies {
    /// Distinguishes the records of this process from those of others.
    process: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Records without a call that still needs them, and how many there are in all.
    free: Vec<u64>,
    records: u64,
    /// Of the last call.
    number: u64,
    lost: HashMap<Attempt, Vec<Arc<LostCall>>>,
}

type Attempt = (Name, JobId, u64);

/// Where a call writes what it answers, and the number by which its answers are known from those of an earlier call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redis) struct Record {
    place: u64,
    /// Part of the record's key.
    pub(in crate::redis) name: String,
    pub(in crate::redis) number: u64,
}

/// A call without a reply.
#[derive(Debug)]
pub(in crate::redis) struct LostCall {
    pub(in crate::redis) record: Record,
    attempts: Vec<Attempt>,
}

impl Default for Replies {
    fn default() -> Self {
        Self { process: fastrand::u64(..), state: Mutex::default() }
    }
}

impl Replies {
    /// A record for a call with these settlements. The same call gets the same record until it has a reply.
    pub(in crate::redis) fn begin(&self, part: &[Placed<'_>]) -> Record {
        let mut state = self.state.lock();
        if let Some((_, first)) = part.first().filter(|_| !state.lost.is_empty())
            && let Some(calls) = state.lost.get(&attempt(first))
            && let Some(same) = calls.iter().find(|call| call.attempts.iter().eq(&attempts(part)))
        {
            return same.record.clone();
        }
        state.number += 1;
        let place = state.free.pop().unwrap_or_else(|| {
            state.records += 1;
            state.records
        });
        Record { place, name: format!("{:016x}-{place}", self.process), number: state.number }
    }

    /// The calls without replies that settled this attempt.
    pub(in crate::redis) fn lost_calls(&self, settlement: &Settlement) -> Vec<Arc<LostCall>> {
        let state = self.state.lock();
        if state.lost.is_empty() {
            Vec::new()
        } else {
            state.lost.get(&attempt(settlement)).cloned().unwrap_or_default()
        }
    }

    /// All settlements have answers: the records are free for other calls, but for those of lost calls.
    pub(in crate::redis) fn note_answered(&self, settlements: &[Settlement], records: Vec<Record>) {
        let mut state = self.state.lock();
        let mut lost = Vec::new();
        if !state.lost.is_empty() {
            lost.extend(settlements.iter().filter_map(|settlement| state.lost.remove(&attempt(settlement))).flatten());
        }
        let is_free = |record: &Record| lost.iter().all(|call| call.record != *record);
        state.free.extend(records.into_iter().filter(is_free).map(|record| record.place));
    }

    /// A call has ended without a reply that could be read.
    pub(in crate::redis) fn note_lost(&self, record: Record, part: &[Placed<'_>]) {
        let attempts = attempts(part);
        let call = Arc::new(LostCall { record, attempts: attempts.clone() });
        let mut state = self.state.lock();
        if state.lost.len() >= LOST_MAX {
            state.lost.clear();
        }
        for attempt in attempts {
            let calls = state.lost.entry(attempt).or_default();
            if calls.iter().all(|known| known.record != call.record) {
                calls.push(Arc::clone(&call));
            }
        }
    }
}

impl LostCall {
    /// What the call answered for a settlement, by what its record holds. `None` if another call wrote that.
    pub(in crate::redis) fn answer(&self, settlement: &Settlement, kept: &str) -> Option<Settled> {
        let mut numbers = kept.split(' ').filter_map(|number| number.parse::<i64>().ok());
        if numbers.next() != i64::try_from(self.record.number).ok() {
            return None;
        }
        let reply = Reply::new(Value::Array(numbers.map(Value::Int).collect()));
        let answers = reply.and_then(|reply| read_settled(reply, self.attempts.len())).ok()?;
        let position = self.attempts.iter().position(|known| *known == attempt(settlement))?;
        answers.get(position).copied()
    }
}

fn attempt(Settlement { lease, .. }: &Settlement) -> Attempt {
    (lease.topic.tenant.clone(), lease.job.clone(), lease.delivery)
}

fn attempts(part: &[Placed<'_>]) -> Vec<Attempt> {
    part.iter().map(|(_, settlement)| attempt(settlement)).collect()
}

/// Reads what `settle.lua` answered to this many settlements.
pub(in crate::redis) fn read_settled(reply: Reply, settlements: usize) -> RedisResult<Vec<Settled>> {
    reply.all_but(settlements, Settled::Done, |reply| {
        Ok(if reply.number()? == 2 { Settled::Cancelled } else { Settled::LeaseLost })
    })
}
