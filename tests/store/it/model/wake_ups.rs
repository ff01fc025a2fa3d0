//! Which signals a step must emit, by what was to be seen of a tenant before it and after it.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::Signal;

use super::plain::{Key, Model};
use super::side::{Difference, same};

/// What the subscribers to a tenant's signals can know.
#[derive(Debug)]
pub(super) struct Outlook {
    tenant: Name,
    /// Topics that have ready jobs, and those that subscribers may take for such.
    ready: BTreeSet<TopicId>,
    perhaps_ready: BTreeSet<TopicId>,
    /// The first, and topics that may not run more jobs.
    in_line: BTreeSet<TopicId>,
    next_due: Option<Timestamp>,
    /// How often something was decided about versions.
    decided: BTreeMap<TopicId, u64>,
}

impl Outlook {
    pub(super) fn of(model: &Model, tenant: &Name) -> Self {
        let (ready, perhaps_ready) = model.ready(tenant);
        let next_due = model.delayed(tenant).iter().map(|(_, until, _)| *until).min();
        let decided = model.deployments.iter().map(|(topic, last)| (topic.clone(), last.generation)).collect();
        Self { tenant: tenant.clone(), ready, perhaps_ready, in_line: model.in_line(tenant), next_due, decided }
    }

    /// Compares the signals of a step. `finished` and `stopping`: the jobs that ended and those that were cancelled.
    pub(super) fn check(
        self,
        after: &Self,
        now: Timestamp,
        signals: &[Signal],
        finished: &[Key],
        stopping: &[Key],
    ) -> Result<(), Difference> {
        let of_tenant = |signal: &&Signal| tenant_of(signal).is_none_or(|tenant| *tenant == self.tenant);
        let due_from_now = |due: Option<Timestamp>| due.map(|due| due.max(now));
        let (mut earliest, mut woken) = (due_from_now(self.next_due), BTreeSet::new());
        let (mut ended, mut cancelled) = (Vec::new(), Vec::new());
        for signal in signals.iter().filter(of_tenant) {
            match signal {
                Signal::Ready(topic) => {
                    let is_new = |before: &BTreeSet<TopicId>, after: &BTreeSet<TopicId>| {
                        after.contains(topic) && !before.contains(topic)
                    };
                    let is_news = is_new(&self.ready, &after.ready) || is_new(&self.in_line, &after.in_line);
                    if !woken.insert(topic.clone()) || !is_news {
                        return Err(Difference::new(format!("a needless signal: {signal:?} in {signals:?}")));
                    }
                }
                Signal::Due { wait, .. } => {
                    let due = now.plus(*wait);
                    // Of jobs that are due, one may be earlier than another.
                    if earliest.is_some_and(|earliest| earliest <= due) && !wait.is_zero() {
                        return Err(Difference::new(format!("not the earliest job: {signal:?} in {signals:?}")));
                    }
                    earliest = Some(due);
                }
                Signal::Finished { tenant, id } => ended.push((tenant.clone(), id.clone())),
                Signal::Cancelled { tenant, id } | Signal::Killed { tenant, id } => {
                    cancelled.push((tenant.clone(), id.clone()))
                }
                // For runners: others may get it, too.
                Signal::Deployed(topic) if after.decided.get(topic) != self.decided.get(topic) => {}
                Signal::Deployed(topic) => {
                    return Err(Difference::new(format!("a decision about {topic} that nobody made")));
                }
                Signal::Lost => return Err(Difference::new("a signal was lost")),
            }
        }
        let missing: Vec<_> =
            after.ready.difference(&self.perhaps_ready).filter(|topic| !woken.contains(topic)).collect();
        if !missing.is_empty() {
            return Err(Difference::new(format!("no signal says that {missing:?} have ready jobs: {signals:?}")));
        }
        let expected = self.next_due.into_iter().chain(after.next_due).min();
        same("earliest job signalled", earliest, due_from_now(expected))?;
        same("ends signalled", sorted(ended), self.of_this_tenant(finished))?;
        same("cancellations signalled", sorted(cancelled), self.of_this_tenant(stopping))
    }

    fn of_this_tenant(&self, keys: &[Key]) -> Vec<Key> {
        sorted(keys.iter().filter(|(tenant, _)| *tenant == self.tenant).cloned().collect())
    }
}

fn tenant_of(signal: &Signal) -> Option<&Name> {
    match signal {
        Signal::Ready(topic) => Some(&topic.tenant),
        Signal::Due { tenant, .. }
        | Signal::Finished { tenant, .. }
        | Signal::Cancelled { tenant, .. }
        | Signal::Killed { tenant, .. }
        | Signal::Deployed(TopicId { tenant, .. }) => Some(tenant),
        Signal::Lost => None,
    }
}

fn sorted(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort();
    keys
}
