//! What waits for a guest thread: tenants take turns, and the topics of a tenant, so that a batch of one does not hold up the next.

use std::collections::{HashMap, VecDeque};

use gristmill_core::job::{Name, TopicId};

/// Work in line. Within a topic, first come, first served.
#[derive(Debug)]
pub(super) struct RunQueue<T> {
    /// Tenants that have work here, in the order of their turns.
    turns: VecDeque<Name>,
    tenants: HashMap<Name, TenantQueue<T>>,
    len: usize,
}

#[derive(Debug)]
struct TenantQueue<T> {
    /// Its topics that have work here, in the order of their turns.
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
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn join(&mut self, topic: &TopicId, work: T) {
        self.len += 1;
        if !self.tenants.contains_key(&topic.tenant) {
            self.turns.push_back(topic.tenant.clone());
        }
        self.tenants.entry(topic.tenant.clone()).or_default().join(&topic.topic, work);
    }

    pub(super) fn next(&mut self) -> Option<T> {
        let tenant = self.turns.pop_front()?;
        let queue = self.tenants.get_mut(&tenant)?;
        let work = queue.next()?;
        self.len -= 1;
        if queue.turns.is_empty() {
            // Of tenants that come and go, nothing stays.
            self.tenants.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        Some(work)
    }
}

impl<T> TenantQueue<T> {
    fn join(&mut self, topic: &Name, work: T) {
        match self.work.get_mut(topic) {
            Some(waiting) => waiting.push_back(work),
            None => {
                self.turns.push_back(topic.clone());
                self.work.insert(topic.clone(), VecDeque::from([work]));
            }
        }
    }

    fn next(&mut self) -> Option<T> {
        let topic = self.turns.pop_front()?;
        let waiting = self.work.get_mut(&topic)?;
        let work = waiting.pop_front()?;
        if waiting.is_empty() {
            self.work.remove(&topic);
        } else {
            self.turns.push_back(topic);
        }
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_take_turns_and_each_keeps_its_order() {
        let (slow, fast): (TopicId, TopicId) = ("slow".parse().unwrap(), "fast".parse().unwrap());
        let mut queue = RunQueue::default();
        (1..=3).for_each(|number| queue.join(&slow, number));
        assert_eq!((queue.next(), queue.len()), (Some(1), 2));
        queue.join(&fast, 10);
        let rest: Vec<i32> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(rest, [2, 10, 3]);
        assert_eq!((queue.len(), queue.tenants.len(), queue.turns.len()), (0, 0, 0));
    }

    #[test]
    fn tenants_take_turns_however_many_topics_they_have() {
        let mut queue = RunQueue::default();
        for topic in ["many/a", "many/b", "many/c"] {
            queue.join(&topic.parse().unwrap(), topic);
        }
        queue.join(&"few/a".parse().unwrap(), "few/a");
        let order: Vec<&str> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, ["many/a", "few/a", "many/b", "many/c"]);
    }
}
