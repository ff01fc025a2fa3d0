//! What waits for a guest thread: topics take turns, so that a batch of one does not hold up the next.

use std::collections::{HashMap, VecDeque};

use gristmill_core::job::TopicId;

/// Work in line. Within a topic, first come, first served.
#[derive(Debug)]
pub(super) struct RunQueue<T> {
    /// Topics that have work here, in the order of their turns.
    turns: VecDeque<TopicId>,
    work: HashMap<TopicId, VecDeque<T>>,
    len: usize,
}

impl<T> Default for RunQueue<T> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), work: HashMap::new(), len: 0 }
    }
}

impl<T> RunQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn join(&mut self, topic: &TopicId, work: T) {
        self.len += 1;
        match self.work.get_mut(topic) {
            Some(waiting) => waiting.push_back(work),
            None => {
                self.turns.push_back(topic.clone());
                self.work.insert(topic.clone(), VecDeque::from([work]));
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<T> {
        let topic = self.turns.pop_front()?;
        let waiting = self.work.get_mut(&topic)?;
        let work = waiting.pop_front()?;
        self.len -= 1;
        if waiting.is_empty() {
            // Of topics that come and go, nothing stays.
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
        assert_eq!((queue.len(), queue.work.len(), queue.turns.len()), (0, 0, 0));
    }
}
