//! The topics with ready jobs, by tenant, and how many jobs to claim of which: tenants by their shares, the topics of a tenant in turn.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::handlers::{HandlerRegistry, TopicHandler};
use crate::path::lease;
use crate::slots::TopicSlots;
use crate::slots::fleet_use::Shares;
use crate::slots::shares::{Free, SCALE, TenantUse, VirtualTime, Wish, share_out};
use gristmill_core::job::{Name, TopicId};
use gristmill_store::ClaimFrom;

/// Topics in one claim, at most; and at least, if this many have jobs, however few jobs that leaves for each.
const TOPICS_AT_ONCE: usize = 64;
const TOPICS_AT_LEAST: usize = 16;
/// Tenants without ready jobs, beside those worth remembering: none of the latter is forgotten.
const OTHERS: usize = 64;
/// A tenant that is further ahead of the others than this owes no more for what it uses of other runners: a minute of a thread.
const AHEAD_MAX: VirtualTime = 60_000_000_000 * SCALE;
/// Jobs of one topic in one claim, at least: asking for a topic costs as much as some jobs.
const WORTH_ASKING: usize = 16;
/// The same of a topic whose attempts are [brief](TopicSlots::is_brief). Each topic of a claim costs the store and the runner as much as two or three jobs,
/// and as much again in each settlement. A few brief jobs more keep the other topics waiting for a millisecond.
const WORTH_ASKING_BRIEF: usize = 32;
/// If all topics are brief and the last claim has drained most of its topics, a claim requests jobs of this many at least: from fewer it might get less
/// than there is room for.
const BRIEF_TOPICS_AT_LEAST: usize = 8;

/// Topics with a handler that were not empty by the last signal or poll.
#[derive(Debug, Default)]
pub(super) struct ReadyTopics {
    /// Tenants that have some.
    active: BTreeMap<Name, Tenant>,
    /// Tenants that have none, and of which attempts are running, or which have used more than their share a short while ago.
    others: HashMap<Name, Tenant>,
    /// How many of them were worth remembering when that was looked at last.
    others_kept: usize,
    /// The virtual time of the tenant that is behind all others that have room. None begins before it, so that an idle tenant saves up
    /// nothing. It counts what is used already: by an expected cost that is too high, a tenant that joins later would start too far ahead.
    now: VirtualTime,
    shares: Shares,
    /// The last claim has left jobs in most of its topics.
    lines_are_long: bool,
}

#[derive(Debug)]
struct Tenant {
    topics: BTreeSet<TopicId>,
    /// Where the last claim ended, so that the next begins behind it.
    last: Option<TopicId>,
    usage: Arc<TenantUse>,
    weight: u32,
    /// Added to the virtual time that its use and its weight give it.
    offset: VirtualTime,
    /// Its topics had room for more attempts at the last plan. One without does not compete, however little it uses.
    has_room: Cell<bool>,
}

/// A topic of which jobs may begin, and how many.
type OpenTopic<'a> = (&'a TopicId, &'a Arc<TopicHandler>, usize);

impl Tenant {
    fn new(usage: Arc<TenantUse>) -> Self {
        Self { topics: BTreeSet::new(), last: None, usage, weight: 0, offset: 0, has_room: Cell::new(true) }
    }

    fn at(&self) -> VirtualTime {
        self.offset + self.usage.virtual_time(self.weight)
    }

    /// The same without the expected costs of what runs.
    fn so_far(&self) -> VirtualTime {
        self.offset + self.usage.so_far(self.weight)
    }

    /// From now on: what it used before stays as it counted.
    fn weigh(&mut self, weight: u32) {
        if self.weight != weight {
            let at = self.at();
            self.weight = weight;
            self.offset += at - self.at();
        }
    }

    /// Its topics in turn, those with room, at most this many.
    fn open<'a>(&'a self, registry: &'a HandlerRegistry, slots: &TopicsInHand, most: usize) -> Vec<OpenTopic<'a>> {
        let last = self.last.as_ref();
        let behind = self.topics.range((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let before = last.into_iter().flat_map(|last| self.topics.range(..=last));
        behind.chain(before).filter_map(|topic| open(topic, registry, slots)).take(most).collect()
    }

    fn wish(&self, open: &[OpenTopic<'_>]) -> Wish<'_> {
        let room = open.iter().map(|(_, _, room)| room).sum();
        Wish { usage: &self.usage, weight: self.weight, at: self.at(), room }
    }
}

/// The topics that attempts are running of, or were.
pub(super) type TopicsInHand = HashMap<TopicId, Arc<TopicSlots>>;

impl ReadyTopics {
    /// None yet. What their tenants use is counted there.
    pub(super) fn new(shares: Shares) -> Self {
        Self { shares, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    pub(super) fn contains(&self, topic: &TopicId) -> bool {
        self.active.get(&topic.tenant).is_some_and(|tenant| tenant.topics.contains(topic))
    }

    /// Adds a topic. A tenant that had none begins where the others are, unless it is further.
    pub(super) fn insert(&mut self, topic: TopicId, weight: u32) {
        if !self.active.contains_key(&topic.tenant) {
            self.follow_active();
            let known = self.others.remove(&topic.tenant);
            let mut tenant = known.unwrap_or_else(|| Tenant::new(self.shares.of(&topic.tenant)));
            tenant.offset += (self.now - tenant.so_far()).max(0);
            tenant.usage.set_ready(true);
            self.active.insert(topic.tenant.clone(), tenant);
        }
        let Some(tenant) = self.active.get_mut(&topic.tenant) else { return };
        tenant.weigh(weight);
        tenant.topics.insert(topic);
    }

    /// Removes a topic.
    pub(super) fn remove(&mut self, topic: &TopicId) {
        let Some(tenant) = self.active.get_mut(&topic.tenant) else { return };
        tenant.topics.remove(topic);
        if !tenant.topics.is_empty() {
            return;
        }
        let Some(tenant) = self.active.remove(&topic.tenant) else { return };
        if self.active.is_empty() {
            self.now = self.now.max(tenant.so_far());
        }
        tenant.usage.set_ready(false);
        self.others.insert(topic.tenant.clone(), tenant);
    }

    /// Takes in what tenants have used of other runners, as far as that does not bring one too far ahead of the one that is behind all others.
    fn owe_others(&mut self) {
        let owed: Vec<VirtualTime> =
            self.active.values().map(|tenant| tenant.usage.take_others(tenant.weight)).collect();
        let reached = self.active.values().zip(&owed).filter(|(tenant, _)| tenant.has_room.get());
        let least = reached.map(|(tenant, owed)| tenant.so_far() + owed).min().unwrap_or(self.now);
        let most = least.max(self.now) + AHEAD_MAX;
        for (tenant, owed) in self.active.values_mut().zip(owed) {
            tenant.offset += owed.min((most - tenant.so_far()).max(0));
        }
    }

    /// Forgets tenants without ready jobs that have used no more than the others and of which nothing runs, once they are many.
    fn forget_others(&mut self) {
        if self.others.len() > 2 * self.others_kept + OTHERS {
            let now = self.now;
            self.others.retain(|_, tenant| Arc::strong_count(&tenant.usage) > 1 || tenant.so_far() > now);
            self.others_kept = self.others.len();
        }
    }

    fn follow_active(&mut self) {
        let with_room = self.active.values().filter(|tenant| tenant.has_room.get());
        self.now = with_room.map(Tenant::so_far).min().unwrap_or(self.now).max(self.now);
    }

    /// Removes all topics, those first whose tenants are behind the others: so each stands where it stood if they are inserted in this order.
    pub(super) fn take(&mut self) -> Vec<TopicId> {
        let mut topics = Vec::new();
        let mut tenants: Vec<(Name, Tenant)> = std::mem::take(&mut self.active).into_iter().collect();
        tenants.sort_by_cached_key(|(_, tenant)| tenant.so_far());
        for (name, mut tenant) in tenants {
            topics.extend(std::mem::take(&mut tenant.topics));
            tenant.usage.set_ready(false);
            self.others.insert(name, tenant);
        }
        topics
    }

    /// Notes of how many topics a claim has requested jobs, and how many of these it has drained.
    pub(super) fn note_drained(&mut self, requested: usize, drained: usize) {
        self.lines_are_long = 2 * drained < requested;
    }

    /// Where the use of a tenant is counted.
    pub(super) fn usage(&mut self, tenant: &Name) -> Arc<TenantUse> {
        if let Some(known) = self.active.get(tenant) {
            return Arc::clone(&known.usage);
        }
        let new = || Tenant::new(self.shares.of(tenant));
        Arc::clone(&self.others.entry(tenant.clone()).or_insert_with(new).usage)
    }

    /// How many jobs to ask of which topics. Each tenant's topics share its slots evenly, beginning behind where the last claim ended.
    pub(super) fn plan(&mut self, registry: &HandlerRegistry, slots: &TopicsInHand, mut free: Free) -> Vec<ClaimFrom> {
        if registry.tenants().len() < 2 {
            free.kept = 0;
        }
        let most = (free.all / WORTH_ASKING).clamp(TOPICS_AT_LEAST, TOPICS_AT_ONCE).min(free.all);
        if most == 0 {
            return Vec::new();
        }
        self.follow_active();
        self.owe_others();
        self.forget_others();
        let mut active: Vec<&Tenant> = self.active.values().collect();
        let topics_each = most.div_ceil(active.len().max(1));
        if active.len() > 1 {
            active.sort_by_cached_key(|tenant| tenant.at());
        }
        let asked = active.into_iter().map(|tenant| (tenant, tenant.open(registry, slots, topics_each)));
        let asked = asked.inspect(|(tenant, open)| tenant.has_room.set(!open.is_empty()));
        let chosen: Vec<_> = asked.filter(|(_, open)| !open.is_empty()).take(most).collect();
        let wishes: Vec<Wish<'_>> = chosen.iter().map(|(tenant, open)| tenant.wish(open)).collect();
        let given = share_out(free, &wishes);
        let brief_at_least = if self.lines_are_long { 1 } else { BRIEF_TOPICS_AT_LEAST };
        let from: Vec<ClaimFrom> = chosen
            .iter()
            .zip(given)
            .flat_map(|((_, open), share)| divide(open, slots, share, brief_at_least))
            .collect();
        // A claim that asks a tenant for nothing is not its turn: forgetting whose turn it was would begin with the same topics for ever.
        for line in &from {
            self.ended_with(&line.topic);
        }
        from
    }

    /// The tenant's next claim begins behind this topic.
    pub(super) fn ended_with(&mut self, topic: &TopicId) {
        if let Some(tenant) = self.active.get_mut(&topic.tenant) {
            tenant.last = Some(topic.clone());
        }
    }
}

/// None for a topic that has no handler or no room for more.
fn open<'a>(topic: &'a TopicId, registry: &'a HandlerRegistry, slots: &TopicsInHand) -> Option<OpenTopic<'a>> {
    let entry = registry.get(topic).filter(|entry| entry.handler.is_some())?;
    let concurrency = entry.topic.concurrency as usize;
    let room = slots.get(topic).map_or(concurrency, |slots| slots.room(concurrency, entry.may_be_in_line()));
    (room > 0).then_some((topic, entry, room))
}

/// What to take of these topics, of which none has jobs, once there are some: `each` of a topic, for as many topics as have that in the free slots. The
/// slots that are kept for other tenants stay free. Where all runners have a limit together, a claim may be in vain: those topics are left out.
pub(super) fn plan_ahead<'a>(
    topics: impl Iterator<Item = &'a TopicId>,
    registry: &HandlerRegistry,
    slots: &TopicsInHand,
    free: Free,
    each: usize,
) -> Vec<ClaimFrom> {
    let kept = if registry.tenants().len() < 2 { 0 } else { free.kept };
    let most = (free.all.saturating_sub(kept) / each.max(1)).min(TOPICS_AT_ONCE);
    let open =
        topics.filter_map(|topic| open(topic, registry, slots)).filter(|(_, entry, _)| !entry.topic.fleet.is_some());
    open.take(most).map(|of| line(of, each)).collect()
}

/// Shares slots out evenly among topics, of brief ones among as many as fill them, and `brief_at_least`; if there are more topics than slots, the first
/// ones get one each.
fn divide<'a>(
    open: &'a [OpenTopic<'a>],
    in_hand: &TopicsInHand,
    slots: usize,
    brief_at_least: usize,
) -> impl Iterator<Item = ClaimFrom> {
    let are_brief = open.iter().all(|(topic, ..)| in_hand.get(*topic).is_some_and(|slots| slots.is_brief()));
    let mut filled = 0;
    let fill = open.iter().take_while(|(.., room)| {
        let has_room = filled < slots;
        filled += room.min(&WORTH_ASKING_BRIEF);
        has_room
    });
    let most = if are_brief { fill.count().max(brief_at_least) } else { slots };
    let topics = open.len().min(slots).min(most);
    let share = slots.checked_div(topics).unwrap_or_default();
    open.iter().take(topics).map(move |of| line(*of, share))
}

fn line((topic, entry, room): OpenTopic<'_>, most: usize) -> ClaimFrom {
    ClaimFrom::new(topic.clone(), room.min(most), lease::of(&entry.topic.limits)).by_manifest(&entry.topic)
}

#[cfg(test)]
mod tests;
