//! Which guest computes next, of all that can: those that have computed little come first, and those that compute for long end one after
//! the other.
//!
//! If all guests that compute took turns, each job would take as long as all of them together, an interpreter would find at each turn that
//! the others have displaced its memory from the processor's caches, and the runner would hold the memory of all of them. So a guest that
//! computes for long keeps its thread, until its slice is over or until another has something short to do.

use std::collections::VecDeque;
use std::time::Duration;

use super::run_queue::RunQueue;
use gristmill_core::job::TopicId;

/// A guest that has computed for this long is one that computes for long. Most jobs, also those of interpreters, are done by then. Until then
/// it leaves its thread to no other guest: the longer this is, the later a short job begins beside guests that begin. At 3 ms every thirtieth
/// waited for it behind photos of 20 ms.
pub(super) const FIRST: Duration = Duration::from_millis(1);

/// After this long, a guest that computes for long leaves its thread to others that do. Guests that compute little may keep these waiting for
/// as long, and then take turns with them.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// What can run, of all threads. A guest is in here once at most, and not while it has a thread.
#[derive(Debug)]
pub(super) struct RunOrder<W, G> {
    /// Guests that waited for something and can go on.
    woken: VecDeque<G>,
    /// What has not begun.
    new: RunQueue<W>,
    /// Guests that compute for long.
    long: RunQueue<G>,
    /// How much more than their part the others have computed while some of these waited.
    lead: Duration,
}

/// What has the thread next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<W, G> {
    Begin(W),
    /// Goes on after it waited.
    GoOn(G),
    /// Computes for a slice.
    Slice(G),
}

impl<W, G> Default for RunOrder<W, G> {
    fn default() -> Self {
        Self { woken: VecDeque::new(), new: RunQueue::default(), long: RunQueue::default(), lead: Duration::ZERO }
    }
}

impl<W, G> RunOrder<W, G> {
    /// Work comes into line.
    pub(super) fn join(&mut self, topic: &TopicId, work: W) {
        self.new.join(topic, work);
    }

    /// A guest can go on that waited for something.
    pub(super) fn wake(&mut self, guest: G) {
        self.woken.push_back(guest);
    }

    /// A guest that computes for long leaves its thread, and waits for its next slice behind this many others of its topic at most.
    pub(super) fn put_back(&mut self, topic: &TopicId, guest: G, others: usize) {
        self.long.join_behind(topic, guest, others);
    }

    /// A guest that waits for its next slice goes on at once, for a turn: its attempt may have been cancelled.
    pub(super) fn hurry(&mut self, topic: &TopicId, is_it: impl Fn(&G) -> bool) {
        self.woken.extend(self.long.remove(topic, is_it));
    }

    /// Work that was to begin may not: it is the next of its topic.
    pub(super) fn put_first(&mut self, topic: &TopicId, work: W) {
        self.new.join_behind(topic, work, 0);
    }

    /// What stands in line behind as many as a topic keeps, of what has not begun.
    pub(super) fn shorten(&mut self, keeps: impl Fn(&W) -> usize) -> Vec<W> {
        self.new.shorten(keeps)
    }

    /// A topic may begin again.
    pub(super) fn reopen(&mut self, topic: &TopicId) {
        self.new.reopen(topic);
    }

    /// Guests that do not compute for long had the thread for this time.
    pub(super) fn note_others(&mut self, used: Duration) {
        self.lead = if self.has_long() { self.lead + used } else { Duration::ZERO };
    }

    /// A guest that computes for long did so.
    pub(super) fn note_long(&mut self, used: Duration) {
        self.lead = self.lead.saturating_sub(used);
    }

    /// Whether a guest that computes for long should leave its thread at once.
    pub(super) fn is_urgent(&self) -> bool {
        self.has_others() && self.lead < SLICE
    }

    /// Whether a guest that computes for long should leave its thread at the end of its slice.
    pub(super) fn is_awaited(&self) -> bool {
        self.has_long() || self.has_others()
    }

    /// Whether a guest that computes for long is in line.
    pub(super) fn has_long(&self) -> bool {
        self.long.len() > 0
    }

    fn has_others(&self) -> bool {
        !self.woken.is_empty() || self.new.has_turns()
    }

    /// Whose turn it is: at most `most` of those that compute little, and of `threads` threads no more than the part of one; or one that
    /// computes for long.
    pub(super) fn next(&mut self, most: usize, threads: usize, may_begin: impl Fn(&W) -> bool) -> Vec<Turn<W, G>> {
        if self.lead >= SLICE
            && let Some(guest) = self.long.next(|_| true)
        {
            return vec![Turn::Slice(guest)];
        }
        let most = (self.woken.len() + self.new.len()).div_ceil(threads.max(1)).min(most);
        let woken = |turns: &mut Self| turns.woken.pop_front().map(Turn::GoOn);
        let next = |turns: &mut Self| woken(turns).or_else(|| turns.new.next(&may_begin).map(Turn::Begin));
        let mut turns: Vec<_> = (0..most).map_while(|_| next(self)).collect();
        if turns.is_empty() {
            turns.extend(self.long.next(|_| true).map(Turn::Slice));
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = RunOrder<u32, u32>;

    fn topic(id: &str) -> TopicId {
        id.parse().unwrap()
    }

    fn next(turns: &mut Numbers) -> Option<Turn<u32, u32>> {
        turns.next(1, 1, |_| true).pop()
    }

    #[test]
    fn guests_that_compute_for_long_end_one_after_the_other() {
        let (mut turns, topic) = (Numbers::default(), topic("t"));
        // One thread: of ten, each with work for ten slices, two take turns.
        let mut remaining = [10; 10];
        (0..10).for_each(|number| turns.put_back(&topic, number, usize::MAX));
        let mut ended = Vec::new();
        while let Some(Turn::Slice(guest)) = next(&mut turns) {
            let remaining = &mut remaining[guest as usize];
            *remaining -= 1;
            match remaining {
                0 => ended.push(guest),
                _ => turns.put_back(&topic, guest, 1),
            }
        }
        assert_eq!(ended, (0..10).collect::<Vec<u32>>());
    }

    #[test]
    fn what_has_computed_little_comes_first() {
        let (mut turns, long, new) = (Numbers::default(), topic("long"), topic("new"));
        turns.put_back(&long, 1, 2);
        turns.join(&new, 2);
        assert!(turns.is_urgent());
        turns.wake(3);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut turns)).collect();
        assert_eq!(order, [Turn::GoOn(3), Turn::Begin(2), Turn::Slice(1)]);
        assert!(!turns.is_urgent() && !turns.is_awaited());
    }

    #[test]
    fn what_has_computed_little_keeps_the_others_waiting_for_half_of_the_time_at_most() {
        let (mut turns, long, new) = (Numbers::default(), topic("long"), topic("new"));
        let (mut of_long, mut of_new) = (Duration::ZERO, Duration::ZERO);
        turns.put_back(&long, 0, 1);
        for _ in 0..1000 {
            turns.join(&new, 1);
            match next(&mut turns) {
                Some(Turn::Slice(guest)) => {
                    turns.note_long(SLICE);
                    of_long += SLICE;
                    turns.put_back(&long, guest, 1);
                }
                _ => {
                    turns.note_others(FIRST);
                    of_new += FIRST;
                }
            }
        }
        assert!(of_long.abs_diff(of_new) <= 2 * SLICE, "{of_long:?} and {of_new:?}");
        // Once none waits, nothing is owed.
        turns.long = RunQueue::default();
        turns.note_others(FIRST);
        turns.put_back(&long, 0, 1);
        assert!(turns.is_urgent());
    }

    #[test]
    fn one_that_lets_others_pass_is_the_next_of_its_topic_and_one_in_a_hurry_comes_first() {
        let (mut turns, topic) = (Numbers::default(), topic("t"));
        turns.put_back(&topic, 1, 4);
        turns.put_back(&topic, 2, 4);
        turns.put_back(&topic, 3, 0);
        turns.hurry(&topic, |guest| *guest == 2);
        turns.hurry(&topic, |guest| *guest == 7);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut turns)).collect();
        assert_eq!(order, [Turn::GoOn(2), Turn::Slice(3), Turn::Slice(1)]);
    }

    #[test]
    fn a_thread_takes_its_part_and_no_topic_begins_that_may_not() {
        let (mut turns, open, closed) = (Numbers::default(), topic("open"), topic("closed"));
        (0..9).for_each(|number| turns.join(&open, number));
        assert_eq!(turns.next(8, 3, |_| true).len(), 3);
        turns.join(&closed, 100);
        let begun: Vec<_> = turns.next(8, 1, |number| *number < 100);
        assert_eq!(begun.len(), 6);
        assert!(turns.next(8, 1, |number| *number < 100).is_empty() && !turns.is_urgent());
        turns.reopen(&closed);
        assert_eq!(next(&mut turns), Some(Turn::Begin(100)));
    }
}
