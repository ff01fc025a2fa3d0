//! The topics with ready jobs, by tenant, and how many jobs to claim of which: tenants by their shares, the topics of a tenant in turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::lease;
use super::shares::{TenantUse, VirtualTime, Wish, share_out};
use super::slots::TopicSlots;
use crate::handlers::{HandlerRegistry, TopicHandler};
use gristmill_core::job::{Name, TopicId};
use gristmill_store::ClaimFrom;

/// Topics in one claim, at most; and at least, if so many have jobs, however few jobs that leaves for each.
const TOPICS_AT_ONCE: usize = 64;
const TOPICS_AT_LEAST: usize = 16;
/// Jobs of one topic in one claim, at least: asking for a topic costs as much as some jobs.
const WORTH_ASKING: usize = 16;

/// Topics with a handler that were not empty when last heard of.
#[derive(Debug, Default)]
pub(super) struct ReadyTopics {
    /// Tenants that have some.
    active: BTreeMap<Name, Tenant>,
    /// Tenants that have none, and of which attempts are running, or which have used more than their share a short while ago.
    others: HashMap<Name, Tenant>,
    /// The virtual time of the tenant that is behind all others. None begins before it, so that an idle tenant saves up nothing.
    now: VirtualTime,
}

#[derive(Debug, Default)]
struct Tenant {
    topics: BTreeSet<TopicId>,
    /// Where the last claim ended, so that the next begins behind it.
    last: Option<TopicId>,
    usage: Arc<TenantUse>,
    weight: u32,
    /// Added to the virtual time that its use and its weight give it.
    offset: VirtualTime,
}

/// A topic of which jobs may begin, and how many.
type Open<'a> = (&'a TopicId, &'a Arc<TopicHandler>, usize);

impl Tenant {
    fn at(&self) -> VirtualTime {
        self.offset + self.usage.virtual_time(self.weight)
    }

    /// From now on: what it used before stays as it counted.
    fn weigh(&mut self, weight: u32) {
        if self.weight != weight {
            let at = self.at();
            self.weight = weight;
            self.offset += at - self.at();
        }
    }

    /// Its topics in turn, those with room, at most so many.
    fn open<'a>(&'a self, registry: &'a HandlerRegistry, slots: &TopicsInHand, most: usize) -> Vec<Open<'a>> {
        let behind = self.topics.iter().filter(|topic| Some(*topic) > self.last.as_ref());
        let before = self.topics.iter().filter(|topic| Some(*topic) <= self.last.as_ref());
        let with_room = behind.chain(before).filter_map(|topic| {
            let entry = registry.get(topic)?;
            let running = slots.get(topic).map_or(0, |slots| slots.running());
            let room = (entry.topic.concurrency as usize).saturating_sub(running);
            (room > 0).then_some((topic, entry, room))
        });
        with_room.take(most).collect()
    }

    fn wish(&self, open: &[Open<'_>]) -> Wish<'_> {
        let room = open.iter().map(|(_, _, room)| room).sum();
        Wish { usage: &self.usage, weight: self.weight, at: self.at(), room }
    }
}

/// The topics that attempts are running of, or were.
pub(super) type TopicsInHand = HashMap<TopicId, Arc<TopicSlots>>;

impl ReadyTopics {
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
            let mut tenant = self.others.remove(&topic.tenant).unwrap_or_default();
            tenant.offset += (self.now - tenant.at()).max(0);
            self.active.insert(topic.tenant.clone(), tenant);
        }
        let tenant = self.active.entry(topic.tenant.clone()).or_default();
        tenant.weigh(weight);
        tenant.topics.insert(topic);
    }

    /// Removes a topic. Forgets tenants that have used no more than the others and of which nothing runs.
    pub(super) fn remove(&mut self, topic: &TopicId) {
        let Some(tenant) = self.active.get_mut(&topic.tenant) else { return };
        tenant.topics.remove(topic);
        if !tenant.topics.is_empty() {
            return;
        }
        let Some(tenant) = self.active.remove(&topic.tenant) else { return };
        if self.active.is_empty() {
            self.now = self.now.max(tenant.at());
        }
        self.follow_active();
        self.others.insert(topic.tenant.clone(), tenant);
        let now = self.now;
        self.others.retain(|_, tenant| Arc::strong_count(&tenant.usage) > 1 || tenant.at() > now);
    }

    fn follow_active(&mut self) {
        self.now = self.active.values().map(Tenant::at).min().unwrap_or(self.now).max(self.now);
    }

    /// Removes all topics.
    pub(super) fn take(&mut self) -> Vec<TopicId> {
        let topics: Vec<TopicId> = self.active.values().flat_map(|tenant| tenant.topics.iter().cloned()).collect();
        topics.iter().for_each(|topic| self.remove(topic));
        topics
    }

    /// Where the use of a tenant is counted.
    pub(super) fn usage(&mut self, tenant: &Name) -> Arc<TenantUse> {
        let known = self.active.get(tenant).or_else(|| self.others.get(tenant));
        let known = known.map(|tenant| Arc::clone(&tenant.usage));
        known.unwrap_or_else(|| Arc::clone(&self.others.entry(tenant.clone()).or_default().usage))
    }

    /// How many jobs to ask of which topics. Each tenant's topics share its slots evenly, beginning behind where the last claim ended.
    pub(super) fn plan(&mut self, registry: &HandlerRegistry, slots: &TopicsInHand, free: usize) -> Vec<ClaimFrom> {
        let most = (free / WORTH_ASKING).clamp(TOPICS_AT_LEAST, TOPICS_AT_ONCE).min(free);
        if most == 0 {
            return Vec::new();
        }
        let mut active: Vec<&Tenant> = self.active.values().collect();
        let topics_each = most.div_ceil(active.len().max(1));
        if active.len() > 1 {
            active.sort_by_cached_key(|tenant| tenant.at());
        }
        let with_room = active.into_iter().map(|tenant| (tenant, tenant.open(registry, slots, topics_each)));
        let chosen: Vec<_> = with_room.filter(|(_, open)| !open.is_empty()).take(most).collect();
        let wishes: Vec<Wish<'_>> = chosen.iter().map(|(tenant, open)| tenant.wish(open)).collect();
        let given = share_out(free, &wishes);
        let from: Vec<ClaimFrom> =
            chosen.iter().zip(given).flat_map(|((_, open), slots)| divide(open, slots)).collect();
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

/// Shares slots out evenly among topics; if there are more topics than slots, the first ones get one each.
fn divide<'a>(open: &'a [Open<'a>], slots: usize) -> impl Iterator<Item = ClaimFrom> {
    let topics = open.len().min(slots);
    let share = slots.checked_div(topics).unwrap_or_default();
    open.iter().take(topics).map(move |(topic, entry, room)| {
        let lease = lease::of(&entry.topic.limits);
        ClaimFrom::new((*topic).clone(), (*room).min(share), lease).within(entry.topic.fleet)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::path::Path;
    use std::time::Duration;

    use super::super::slots::Slots;
    use super::*;
    use crate::handlers::{Available, Code, Handler};
    use crate::native::{HandlerError, NativeHandler, NativeJob};
    use gristmill_config::Manifest;
    use gristmill_core::job::DEFAULT_TENANT;
    use gristmill_metrics::Metrics;

    /// A registry of topics of tenants, each with the component of another program.
    fn of_tenants(manifest: &str) -> HandlerRegistry {
        let name: Name = "any".parse().unwrap();
        let code = Code::Native(NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(())));
        let handlers = BTreeMap::from([(name.clone(), Handler { name, code })]);
        let manifest = Manifest::parse(manifest, Path::new("gristmill.toml")).unwrap();
        HandlerRegistry::new(&manifest, &Available { handlers, ..Available::default() }, &HandlerRegistry::default())
    }

    /// What each tenant has used once so many attempts have ended that cost `fuel` of its topics' jobs, of which there are always more.
    fn used_by(registry: &HandlerRegistry, attempts: usize, fuel: impl Fn(&TopicId) -> u64) -> BTreeMap<Name, u64> {
        let (slots, metrics) = (Slots::new(8, 2), Metrics::default());
        let mut ready = ReadyTopics::default();
        // The native handler makes a topic of its own.
        let topics =
            registry.entries().map(|entry| entry.topic.id.clone()).filter(|id| id.tenant.as_str() != DEFAULT_TENANT);
        topics.for_each(|id| ready.insert(id.clone(), registry.limits(&id.tenant).weight));
        let mut in_hand = TopicsInHand::new();
        let (mut running, mut used) = (VecDeque::new(), BTreeMap::new());
        for _ in 0..attempts {
            for ClaimFrom { topic, max, .. } in ready.plan(registry, &in_hand, slots.free()) {
                let usage = ready.usage(&topic.tenant);
                let own = in_hand.entry(topic.clone()).or_insert_with(|| TopicSlots::new(metrics.topic(&topic), usage));
                running.extend((0..max).map(|_| (topic.clone(), slots.enter(own))));
            }
            let (topic, slot) = running.pop_front().expect("there is always a job");
            slot.charge(fuel(&topic), Duration::ZERO);
            *used.entry(topic.tenant.clone()).or_default() += fuel(&topic);
        }
        used
    }

    fn part(used: &BTreeMap<Name, u64>, tenant: &str) -> f64 {
        let all: u64 = used.values().sum();
        used[&tenant.parse::<Name>().unwrap()] as f64 / all as f64
    }

    #[test]
    fn tenants_share_a_runner_by_weight_and_cost_and_not_by_topics() {
        let many: String = (0..100).map(|n| format!("[tenants.many.topics.t{n}]\nhandler = \"any\"\n")).collect();
        let few = "[tenants.few.topics.t]\nhandler = \"any\"\n";
        let equal = used_by(&of_tenants(&format!("{many}{few}")), 10_000, |_| 1_000_000);
        assert!((part(&equal, "many") - 0.5).abs() < 0.01, "{equal:?}");

        let weighed = of_tenants(&format!("{many}{few}[tenants.few.limits]\nweight = 3\n"));
        let weighed = used_by(&weighed, 10_000, |_| 1_000_000);
        assert!((part(&weighed, "few") - 0.75).abs() < 0.01, "{weighed:?}");

        let costs = |topic: &TopicId| if topic.tenant.as_str() == "few" { 50_000_000 } else { 1_000_000 };
        let costly = used_by(&of_tenants(&format!("{many}{few}")), 20_000, costs);
        assert!((part(&costly, "many") - 0.5).abs() < 0.02, "{costly:?}");
    }

    #[test]
    fn twenty_tenants_get_equal_parts() {
        let topics: String = (0..20).map(|n| format!("[tenants.a{n}.topics.t]\nhandler = \"any\"\n")).collect();
        let used = used_by(&of_tenants(&topics), 20_000, |topic| 1_000_000 * (topic.tenant.as_str().len() as u64));
        let (sum, squares) = used
            .values()
            .fold((0.0, 0.0), |(sum, squares), used| (sum + *used as f64, squares + (*used as f64).powi(2)));
        let jain = sum * sum / (20.0 * squares);
        assert!(jain > 0.99, "{jain}");
    }

    #[test]
    fn an_idle_tenant_saves_up_nothing() {
        let usage_of = |ready: &mut ReadyTopics, tenant: &str, attempts: u32| {
            let usage = ready.usage(&tenant.parse().unwrap());
            (0..attempts).for_each(|_| usage.charge(1_000_000, Duration::ZERO, 1.0));
        };
        let registry =
            of_tenants("[tenants.busy.topics.t]\nhandler = \"any\"\n[tenants.idle.topics.t]\nhandler = \"any\"\n");
        let [busy, idle]: [TopicId; 2] = ["busy/t", "idle/t"].map(|topic| topic.parse().unwrap());
        let mut ready = ReadyTopics::default();
        [&busy, &idle].into_iter().for_each(|topic| ready.insert(topic.clone(), 1));
        usage_of(&mut ready, "idle", 1);
        ready.remove(&idle);
        usage_of(&mut ready, "busy", 10_000);
        ready.insert(idle.clone(), 1);
        let given = |ready: &mut ReadyTopics| -> BTreeMap<String, usize> {
            let plan = ready.plan(&registry, &HashMap::new(), 8);
            plan.into_iter().map(|line| (line.topic.tenant.to_string(), line.max)).collect()
        };
        assert_eq!(given(&mut ready), BTreeMap::from([("busy".into(), 4), ("idle".into(), 4)]));

        // The same if the busy one had nothing left when the idle one came.
        ready.remove(&idle);
        usage_of(&mut ready, "busy", 10_000);
        ready.remove(&busy);
        ready.insert(idle.clone(), 1);
        ready.insert(busy.clone(), 1);
        assert_eq!(given(&mut ready), BTreeMap::from([("busy".into(), 4), ("idle".into(), 4)]));
        // And one that used more than its part is not forgiven because it was away for a moment.
        usage_of(&mut ready, "busy", 10_000);
        ready.remove(&busy);
        ready.insert(busy, 1);
        assert_eq!(given(&mut ready), BTreeMap::from([("idle".into(), 8)]));
    }
}
