//! The bill in the store: what attempts cost, by tenant, topic and day.
//!
//! A process gathers costs in memory ([`BillSums`]) and adds them now and then, so that an attempt costs the store nothing more.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::error::StoreError;
use super::operations::operations;
use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::{Name, TopicId, WorkerId};

/// For how long a store knows an entry that it has added.
#[cfg(any(feature = "redis", feature = "embedded"))]
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(3600);

operations! {
    parts:
    /// What is asked of bills.
    pub trait Bills {
        /// What the tenant's attempts of these days cost: a line for each topic and day with costs, in order of day and topic.
        /// Lines are gone when the [time](crate::BillEntry::keep) is over that was named last for them.
        ///
        /// If a part of the bill is unavailable, so is all of it.
        async fn bill(&self, tenant: &Name, days: &RangeInclusive<Day>) -> Result<Vec<BillLine>, StoreError>
            [partitions current; all tenant: bill];
    }
}

operations! {
    /// Adding to bills.
    pub trait BillEntries {
        /// Adds costs to bills, each entry in one step. Answers in the order given: an entry that was refused, or whose store is
        /// unavailable, stops no other.
        ///
        /// Each answer says what all processes together have [used](crate::BillEntry::used_us) for the tenant, this one included, in microseconds. The sum starts anew if no entry comes for an hour. `None` if no other process can use the store.
        ///
        /// An entry that failed may have been added. Sent again within an hour with the same [number](crate::BillEntry::number), it is added once.
        async fn add_to_bills(&self, entries: &[BillEntry]) -> Result<Vec<Result<Option<u64>, StoreError>>, StoreError>;
    }
}

/// Costs that are added to the bill of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillEntry {
    /// Whose bill.
    pub tenant: Name,
    /// The process that adds them.
    pub writer: WorkerId,
    /// Grows with each entry of the writer for the tenant. A store adds none whose number is not greater than the last one's.
    pub number: u64,
    /// Of the tenant: at most one line for each topic and day. Empty if only the answer is wanted.
    pub lines: Vec<BillLine>,
    /// For how long lines are kept after the end of their day.
    pub keep: Duration,
    /// What the tenant's attempts took of the slots and threads of the writer's runner since the last entry, in microseconds of a thread: by
    /// this the tenants' shares are reckoned.
    pub used_us: u64,
}

/// What attempts cost that is in no store yet. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct BillSums(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    pending: Mutex<PendingCosts>,
    begun: Notify,
}

/// Costs that no store has yet.
#[derive(Debug, Default)]
struct PendingCosts {
    /// Attempts that end together are mostly of one topic and day: the line that was added to last.
    last: Option<BillLine>,
    others: HashMap<TopicId, BTreeMap<Day, Cost>>,
}

impl BillSums {
    /// Adds the cost of an attempt that ended on this day.
    pub fn add(&self, topic: &TopicId, day: Day, cost: Cost) {
        if cost == Cost::default() {
            return;
        }
        let mut pending = self.0.pending.lock();
        match &mut pending.last {
            Some(last) if last.day == day && last.topic == *topic => last.cost += cost,
            last => {
                let before = last.replace(BillLine { topic: topic.clone(), day, cost });
                match before {
                    Some(before) => pending.put_aside(before),
                    None => self.0.begun.notify_one(),
                }
            }
        }
    }

    /// Takes out all lines, in order of topic and day.
    pub fn take(&self) -> Vec<BillLine> {
        let PendingCosts { last, others } = {
            let mut pending = self.0.pending.lock();
            pending.last.take().into_iter().for_each(|last| pending.put_aside(last));
            std::mem::take(&mut *pending)
        };
        debug_assert!(last.is_none());
        let lines = others.into_iter().flat_map(|(topic, days)| {
            days.into_iter().map(move |(day, cost)| BillLine { topic: topic.clone(), day, cost })
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable_by(|a, b| (&a.topic, a.day).cmp(&(&b.topic, b.day)));
        lines
    }

    /// Waits until there is something to take. Cancel-safe.
    pub async fn some(&self) {
        while self.0.pending.lock().last.is_none() {
            self.0.begun.notified().await;
        }
    }
}

impl PendingCosts {
    fn put_aside(&mut self, BillLine { topic, day, cost }: BillLine) {
        *self.others.entry(topic).or_default().entry(day).or_default() += cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(fuel: u64) -> Cost {
        Cost { attempts: 1, fuel, ..Cost::default() }
    }

    #[test]
    fn costs_are_added_up_by_topic_and_day() {
        let (sums, [mail, image]) = (BillSums::default(), ["acme/mail", "acme/image"].map(|id| id.parse().unwrap()));
        let [first, second] = [1, 2].map(Day::from_number);
        for (topic, day, fuel) in
            [(&mail, first, 1), (&mail, first, 2), (&image, first, 4), (&mail, first, 8), (&mail, second, 16)]
        {
            sums.add(topic, day, cost(fuel));
        }
        let line = |topic: &TopicId, day, attempts, fuel| BillLine {
            topic: topic.clone(),
            day,
            cost: Cost { attempts, ..cost(fuel) },
        };
        assert_eq!(sums.take(), [line(&image, first, 1, 4), line(&mail, first, 3, 11), line(&mail, second, 1, 16)]);
        assert_eq!(sums.take(), []);
    }

    #[tokio::test]
    async fn who_waits_for_costs_is_woken_by_the_first_one() {
        let (sums, topic) = (BillSums::default(), "mail".parse().unwrap());
        let waiting = tokio::spawn({
            let sums = sums.clone();
            async move { sums.some().await }
        });
        sums.add(&topic, Day::default(), cost(1));
        waiting.await.unwrap();
        sums.some().await;
        sums.take();
        assert!(futures_util::FutureExt::now_or_never(sums.some()).is_none());
    }
}
