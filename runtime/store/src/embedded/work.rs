//! What a request has to work with inside a transaction, and the step that all transitions share: making a job wait.

use std::cell::Cell;

use rusqlite::Connection;

use super::clock::Moment;
use super::fault::Done;
use super::file::statements::Statements;
use super::links::remaining::STEP_LINKS;
use super::memory::topics::{Number, Topics};
use super::place::{JobLine, checked};
use super::row::{at, ms};
use crate::Signal;
use crate::clock::NEVER;
use gristmill_core::job::{Ended, JobId, Name, Priority, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::TokenId;

/// Numbers that only grow.
/// Low bits of a claim's number that do not come from the time.
const CLAIM_BITS: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Sequence {
    place: Cell<i64>,
    claim: Cell<i64>,
}

impl Sequence {
    /// After the last place and the last claim that were given out.
    pub(super) fn after(place: i64, claim: i64) -> Self {
        Self { place: Cell::new(place), claim: Cell::new(claim) }
    }

    pub(super) fn next_place(&self) -> Done<i64> {
        self.place.set(checked(self.place.get() + 1)?);
        Ok(self.place.get())
    }

    /// Greater than any before, also than those of which nothing is left in the file: it follows the time.
    pub(super) fn next_claim(&self, now: Timestamp) -> i64 {
        self.claim.set((self.claim.get() + 1).max(ms(now) << CLAIM_BITS));
        self.claim.get()
    }
}

/// When the claim of a number was made.
pub(super) fn claimed_at(claim: i64) -> Timestamp {
    at(claim >> CLAIM_BITS)
}

/// A request's view of the transaction; passed on from one request to the next.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) connection: &'a Connection,
    /// Those that are carried out job by job.
    pub(super) statements: Statements<'a>,
    pub(super) topics: &'a mut Topics,
    pub(super) sequence: &'a Sequence,
    /// The request's.
    pub(super) time: Moment,
    /// Emitted once the transaction is committed.
    pub(super) signals: Vec<Signal>,
    /// Tokens that are no longer what they were: also emitted then.
    pub(super) tokens: Vec<TokenId>,
    /// Jobs that have ended, and how, of which others are still to learn; see [`carry_ends`](Self::carry_ends).
    pub(super) ends: Vec<(Name, JobId, Ended)>,
    /// How many links this transaction may still pass on or forget.
    pub(super) room: usize,
    /// All links of the job that ends are done with, however many: one of its follow-up jobs gets its id.
    pub(super) whole: bool,
    /// Follow-up jobs of the attempt that ends may wait for others.
    pub(super) links_follow: bool,
    /// The earliest job that each topic got by this request, in the order of the topics' first appearance.
    pub(super) later: Vec<(Number, Timestamp)>,
}

/// Where a waiting job stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) number: i64,
    /// Of a delayed one.
    pub(super) until: Option<Timestamp>,
    /// Of a ready one with a key: whether it holds a slot of it, or waits for one.
    pub(super) slot: Option<bool>,
}

impl<'a> Work<'a> {
    pub(super) fn new(connection: &'a Connection, topics: &'a mut Topics, sequence: &'a Sequence) -> Self {
        let (signals, tokens, ends, later) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let statements = Statements::on(connection);
        Self {
            connection,
            statements,
            topics,
            sequence,
            time: Moment::default(),
            signals,
            tokens,
            ends,
            room: STEP_LINKS,
            whole: false,
            links_follow: false,
            later,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.time.now
    }

    /// The place of a job that waits until `due`. If that is now: the tail of its line, unless it has to wait for other jobs of its key. `key`:
    /// `None` if it has none, or holds a slot of it.
    pub(super) fn wait(
        &mut self,
        topic: Number,
        priority: Priority,
        due: Timestamp,
        key: Option<&str>,
    ) -> Done<Waiting> {
        match key {
            _ if due > self.time.now => self.delay(topic, due),
            Some(key) => self.wait_for_key(topic, priority, key),
            None => self.line_up(topic, priority),
        }
    }

    /// The tail of the line. Signals that the topic has ready jobs, unless that is known, or the topic is paused.
    pub(super) fn line_up(&mut self, topic: Number, priority: Priority) -> Done<Waiting> {
        let place = self.sequence.next_place()?;
        let changed = self.topics.change(topic);
        changed.ready += 1;
        changed.used = true;
        if !changed.active && !changed.paused {
            changed.active = true;
            self.signals.push(Signal::Ready(changed.id.clone()));
        }
        let number = JobLine::Of(priority).number(changed.number, place);
        changed.last.set(priority, number);
        Ok(Waiting { number, until: None, slot: None })
    }

    pub(super) fn delay(&mut self, topic: Number, until: Timestamp) -> Done<Waiting> {
        let number = self.place_beside(topic)?;
        let changed = self.topics.change(topic);
        changed.delayed += 1;
        changed.used = true;
        match self.later.iter_mut().find(|(known, _)| *known == topic) {
            Some((_, earliest)) => *earliest = until.min(*earliest),
            None => self.later.push((topic, until)),
        }
        Ok(Waiting { number, until: Some(until), slot: None })
    }

    /// A place beside the lines, for a delayed or a dead job.
    pub(super) fn place_beside(&self, topic: Number) -> Done<i64> {
        Ok(JobLine::Beside.number(self.topics.get(topic).number, self.sequence.next_place()?))
    }

    /// A waiting job is taken from its place. `until`: of a delayed one.
    ///
    /// If the topic may have lost its first delayed job, its next due time has to be found again, see
    /// [`find_next_due`](Self::find_next_due): returns whether that is so.
    pub(super) fn leave_waiting(&mut self, topic: Number, until: Option<Timestamp>) -> bool {
        let changed = self.topics.change(topic);
        match until {
            None => changed.ready = changed.ready.saturating_sub(1),
            Some(_) => changed.delayed = changed.delayed.saturating_sub(1),
        }
        until.is_some_and(|until| until < NEVER && self.topics.next_due(topic).is_none_or(|next| until <= next))
    }

    /// The topics that are signalled as ready and that claims have drained since.
    pub(super) fn drained(&mut self) -> Vec<TopicId> {
        let Self { connection, topics, signals, .. } = self;
        let ready =
            signals.iter().filter_map(|signal| if let Signal::Ready(topic) = signal { Some(topic) } else { None });
        let mut is_active = |topic: &TopicId| {
            topics.find(connection, topic).ok().flatten().is_none_or(|topic| topics.get(topic).active)
        };
        ready.filter(|topic| !is_active(topic)).cloned().collect()
    }

    /// Ends a request that succeeded: notes the new due times, and wakes the workers that wait for a later one.
    pub(super) fn announce_due(&mut self) {
        for (topic, next) in std::mem::take(&mut self.later) {
            let tenant = self.topics.get(topic).id.tenant.clone();
            let earliest = self.topics.due(&tenant).next();
            if self.topics.next_due(topic).is_none_or(|due| next < due) {
                self.topics.set_next_due(topic, Some(next));
            }
            if earliest.is_none_or(|(earliest, _)| next < earliest) {
                self.signals.push(Signal::Due { tenant, wait: self.time.until(next) });
            }
        }
    }
}
