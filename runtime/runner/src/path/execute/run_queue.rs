//! What waits for a guest thread: tenants take turns, and the topics of a tenant, so that a batch of one does not hold up the next.

use std::collections::{HashMap, VecDeque};

use gristmill_core::job::{Name, TopicId};

/// Work in line. Within a topic, first come, first served.
#[derive(Debug)]
pub(super) struct RunQueue<T> {
    /// Tenants with topics that take turns, in the order of their turns.
    turns: VecDeque<Name>,
    tenants: HashMap<Name, TenantQueue<T>>,
    len: usize,
}

#[derive(Debug)]
struct TenantQueue<T> {
    /// Its topics that have work here, in the order of their turns. Those that are held back are missing.
    turns: VecDeque<Name>,
    work: HashMap<Name, VecDeque<T>>,
}

impl<T> Default for RunQueue<T> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), tenants: HashMap::new(), len: 0 }
    }
}

impl<T> Default for TenantQueue<T> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), work: HashMap::new() }
    }
}

impl<T> RunQueue<T> {
    /// What is in line, and what is held back.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a topic has a turn. It may be held back then.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    pub(super) fn join(&mut self, topic: &TopicId, work: T) {
        self.join_behind(topic, work, usize::MAX);
    }

    /// Joins the line of its topic behind this many others at most.
    pub(super) fn join_behind(&mut self, topic: &TopicId, work: T, others: usize) {
        self.len += 1;
        let queue = self.tenants.entry(topic.tenant.clone()).or_default();
        let had_turns = !queue.turns.is_empty();
        queue.join_behind(&topic.topic, work, others);
        if !had_turns && !queue.turns.is_empty() {
            self.turns.push_back(topic.tenant.clone());
        }
    }

    /// Takes of each line what stands behind as many as it keeps, which its first work says. Those that stay keep their places.
    pub(super) fn shorten(&mut self, keeps: impl Fn(&T) -> usize) -> Vec<T> {
        let mut surplus = Vec::new();
        self.tenants.retain(|_, queue| {
            queue.work.retain(|_, line| {
                let keeps = line.front().map_or(0, &keeps);
                surplus.extend(line.split_off(keeps.min(line.len())));
                !line.is_empty()
            });
            queue.turns.retain(|topic| queue.work.contains_key(topic));
            !queue.work.is_empty()
        });
        let tenants = &self.tenants;
        self.turns.retain(|tenant| tenants.get(tenant).is_some_and(|queue| !queue.turns.is_empty()));
        self.len -= surplus.len();
        surplus
    }

    /// The next in line. A topic whose first work is not open is held back until [`Self::reopen`].
    pub(super) fn next(&mut self, is_open: impl Fn(&T) -> bool) -> Option<T> {
        while let Some(tenant) = self.turns.pop_front() {
            let Some(queue) = self.tenants.get_mut(&tenant) else { continue };
            let work = queue.next(&is_open);
            if queue.work.is_empty() {
                // Nothing stays of tenants that come and go.
                self.tenants.remove(&tenant);
            } else if !queue.turns.is_empty() {
                self.turns.push_back(tenant);
            }
            if work.is_some() {
                self.len -= 1;
                return work;
            }
        }
        None
    }

    /// A topic that was held back takes turns again.
    pub(super) fn reopen(&mut self, topic: &TopicId) {
        let Some(queue) = self.tenants.get_mut(&topic.tenant) else { return };
        if queue.work.contains_key(&topic.topic) && !queue.turns.contains(&topic.topic) {
            if queue.turns.is_empty() {
                self.turns.push_back(topic.tenant.clone());
            }
            queue.turns.push_back(topic.topic.clone());
        }
    }

    /// Takes one out of the line of its topic, wherever it stands.
    pub(super) fn remove(&mut self, topic: &TopicId, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let queue = self.tenants.get_mut(&topic.tenant)?;
        let waiting = queue.work.get_mut(&topic.topic)?;
        let work = waiting.remove(waiting.iter().position(is_it)?);
        self.len -= 1;
        if waiting.is_empty() {
            queue.work.remove(&topic.topic);
            queue.turns.retain(|name| *name != topic.topic);
            if queue.turns.is_empty() {
                self.turns.retain(|name| *name != topic.tenant);
            }
            if queue.work.is_empty() {
                self.tenants.remove(&topic.tenant);
            }
        }
        work
    }
}

impl<T> TenantQueue<T> {
    fn join_behind(&mut self, topic: &Name, work: T, others: usize) {
        match self.work.get_mut(topic) {
            Some(waiting) => waiting.insert(others.min(waiting.len()), work),
            None => {
                self.turns.push_back(topic.clone());
                self.work.insert(topic.clone(), VecDeque::from([work]));
            }
        }
    }

    fn next(&mut self, is_open: impl Fn(&T) -> bool) -> Option<T> {
        while let Some(topic) = self.turns.pop_front() {
            let Some(waiting) = self.work.get_mut(&topic) else { continue };
            if !waiting.front().is_some_and(&is_open) {
                continue;
            }
            let work = waiting.pop_front();
            if waiting.is_empty() {
                self.work.remove(&topic);
            } else {
                self.turns.push_back(topic);
            }
            return work;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(id: &str) -> TopicId {
        id.parse().unwrap()
    }

    fn all<T>(queue: &mut RunQueue<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.next(|_| true)).collect()
    }

    #[test]
    fn topics_take_turns_and_each_keeps_its_order() {
        let (slow, fast) = (topic("slow"), topic("fast"));
        let mut queue = RunQueue::default();
        (1..=3).for_each(|number| queue.join(&slow, number));
        assert_eq!((queue.next(|_| true), queue.len()), (Some(1), 2));
        queue.join(&fast, 10);
        assert_eq!(all(&mut queue), [2, 10, 3]);
        assert_eq!((queue.len(), queue.tenants.len(), queue.turns.len()), (0, 0, 0));
    }

    #[test]
    fn tenants_take_turns_however_many_topics_they_have() {
        let mut queue = RunQueue::default();
        for name in ["many/a", "many/b", "many/c"] {
            queue.join(&topic(name), name);
        }
        queue.join(&topic("few/a"), "few/a");
        assert_eq!(all(&mut queue), ["many/a", "few/a", "many/b", "many/c"]);
    }

    #[test]
    fn what_stands_behind_as_many_as_a_topic_keeps_is_taken_out() {
        let (long, short) = (topic("long"), topic("short"));
        let mut queue = RunQueue::default();
        (0..5).for_each(|number| queue.join(&long, number));
        queue.join(&short, 10);
        assert_eq!(queue.shorten(|_| usize::MAX), [0; 0]);
        let mut taken = queue.shorten(|first| if *first < 10 { 2 } else { 0 });
        taken.sort();
        assert_eq!((taken, queue.len()), (vec![2, 3, 4, 10], 2));
        queue.join(&short, 11);
        assert_eq!(all(&mut queue), [0, 11, 1]);
        queue.join(&short, 12);
        assert_eq!((queue.shorten(|_| 0), all(&mut queue)), (vec![12], vec![]));
        assert_eq!((queue.len(), queue.tenants.len(), queue.turns.len()), (0, 0, 0));
    }

    #[test]
    fn a_topic_that_is_held_back_lets_others_pass_until_it_is_open_again() {
        let (held, other) = (topic("held"), topic("other"));
        let mut queue = RunQueue::default();
        (1..=2).for_each(|number| queue.join(&held, number));
        queue.join(&other, 10);
        let is_open = |number: &i32| *number >= 10;
        assert_eq!((queue.next(is_open), queue.next(is_open)), (Some(10), None));
        assert!(!queue.has_turns() && queue.len() == 2);
        queue.join(&held, 3);
        queue.join(&other, 11);
        assert_eq!((queue.next(|_| true), queue.next(|_| true)), (Some(11), None), "it stays held back");
        queue.reopen(&held);
        queue.reopen(&held);
        assert_eq!(all(&mut queue), [1, 2, 3]);
        assert!(queue.tenants.is_empty());
    }

    #[test]
    fn one_that_had_its_turn_stands_behind_few_others_and_any_can_leave_the_line() {
        let mut queue = RunQueue::default();
        let (a, b) = (topic("x/a"), topic("y/b"));
        (1..=4).for_each(|number| queue.join(&a, number));
        queue.join_behind(&a, 0, 2);
        queue.join(&b, 10);
        assert_eq!((queue.remove(&a, |number| *number == 4), queue.remove(&b, |_| true)), (Some(4), Some(10)));
        assert_eq!((queue.remove(&b, |_| true), queue.remove(&a, |number| *number == 4)), (None, None));
        assert_eq!(all(&mut queue), [1, 2, 0, 3]);
        assert_eq!((queue.len(), queue.tenants.len(), queue.turns.len()), (0, 0, 0));
    }
}
