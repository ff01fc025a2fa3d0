//! Which tenant gets the slots, in a runner whose jobs cost what a test sets.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::handlers::{Available, Code, Handler};
use crate::native::{HandlerError, NativeHandler, NativeJob};
use crate::slots::fleet_use::FleetUse;
use crate::slots::{Slot, Slots};
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

/// A runner of whose topics there are always more jobs.
struct BusyRunner<'a> {
    registry: &'a HandlerRegistry,
    ready: ReadyTopics,
    fleet: FleetUse,
    slots: Arc<Slots>,
    in_hand: TopicsInHand,
    running: VecDeque<(TopicId, Slot)>,
    /// By tenant, the fuel of attempts that have ended.
    used: BTreeMap<Name, u64>,
}

impl<'a> BusyRunner<'a> {
    fn new(registry: &'a HandlerRegistry) -> Self {
        let shares = Shares::default();
        let (mut ready, fleet, slots) = (ReadyTopics::new(shares.clone()), FleetUse::new(shares), Slots::new(8, 2));
        // The native handler makes a topic of its own.
        let topics = registry.entries().map(|entry| entry.topic.id.clone());
        let topics = topics.filter(|id| id.tenant.as_str() != DEFAULT_TENANT);
        topics.for_each(|id| ready.insert(id.clone(), registry.limits(&id.tenant).weight));
        let (in_hand, running, used) = (TopicsInHand::new(), VecDeque::new(), BTreeMap::new());
        Self { registry, ready, fleet, slots, in_hand, running, used }
    }

    fn claim(&mut self) {
        let metrics = Metrics::default();
        for ClaimFrom { topic, max, .. } in self.ready.plan(self.registry, &self.in_hand, self.slots.free()) {
            let usage = self.ready.usage(&topic.tenant);
            let new = || TopicSlots::new(&self.slots, metrics.topic(&topic), usage);
            let own = self.in_hand.entry(topic.clone()).or_insert_with(new);
            self.running.extend((0..max).map(|_| (topic.clone(), own.enter())));
        }
    }

    /// Runs until this many more attempts have ended.
    fn run(&mut self, attempts: usize, fuel: impl Fn(&TopicId) -> u64) {
        for _ in 0..attempts {
            self.claim();
            let (topic, mut slot) = self.running.pop_front().expect("there is always a job");
            slot.charge(fuel(&topic), Duration::ZERO);
            *self.used.entry(topic.tenant.clone()).or_default() += fuel(&topic);
        }
    }
}

/// What each tenant has used once this many attempts have ended that cost `fuel`.
fn used_by(registry: &HandlerRegistry, attempts: usize, fuel: impl Fn(&TopicId) -> u64) -> BTreeMap<Name, u64> {
    let mut runner = BusyRunner::new(registry);
    runner.run(attempts, fuel);
    runner.used
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

/// A hundred topics of one tenant with these settings.
fn brief_topics(settings: &str) -> HandlerRegistry {
    of_tenants(
        &(0..100).map(|n| format!("[tenants.a.topics.t{n}]\nhandler = \"any\"\n{settings}\n")).collect::<String>(),
    )
}

/// Attempts of all topics have taken 20 µs each.
fn note_brief_attempts(runner: &mut BusyRunner) {
    for topic in runner.registry.entries().map(|entry| entry.topic.id.clone()) {
        let slots = TopicSlots::new(&runner.slots, Metrics::default().topic(&topic), runner.ready.usage(&topic.tenant));
        slots.note_duration(Duration::from_micros(20));
        runner.in_hand.insert(topic, slots);
    }
}

#[test]
fn topics_with_brief_attempts_get_longer_runs_and_all_have_their_turn() {
    let registry = brief_topics("");
    let mut runner = BusyRunner::new(&registry);
    let plan =
        |runner: &mut BusyRunner| runner.ready.plan(runner.registry, &runner.in_hand, Free { all: 480, kept: 0 });
    let lines = |plan: &[ClaimFrom]| (plan.len(), plan[0].max);
    assert_eq!(lines(&plan(&mut runner)), (30, 16), "nothing is known of them");
    note_brief_attempts(&mut runner);
    let mut served = BTreeSet::new();
    for _ in 0..7 {
        let plan = plan(&mut runner);
        assert_eq!(lines(&plan), (15, 32));
        served.extend(plan.into_iter().map(|line| line.topic));
    }
    assert_eq!(served.len(), 100);
    runner.in_hand[&"a/t50".parse().unwrap()].note_wait(Duration::from_millis(1));
    runner.ready.ended_with(&"a/t49".parse().unwrap());
    assert_eq!(lines(&plan(&mut runner)), (30, 16), "one of them keeps its slots for longer");

    let mut runner = BusyRunner::new(&registry);
    note_brief_attempts(&mut runner);
    let few = |runner: &mut BusyRunner| runner.ready.plan(runner.registry, &runner.in_hand, Free { all: 64, kept: 0 });
    assert_eq!(lines(&few(&mut runner)), (8, 8), "it is not known whether they have so many jobs");
    runner.ready.note_drained(8, 3);
    assert_eq!(lines(&few(&mut runner)), (2, 32));
    runner.ready.note_drained(2, 1);
    assert_eq!(lines(&few(&mut runner)), (8, 8), "few jobs are left of each");

    let narrow = brief_topics("concurrency = 1");
    let mut runner = BusyRunner::new(&narrow);
    note_brief_attempts(&mut runner);
    assert_eq!(lines(&plan(&mut runner)), (30, 1), "as many as fill the slots, or as there may be");
}

#[test]
fn twenty_tenants_get_equal_parts() {
    let topics: String = (0..20).map(|n| format!("[tenants.a{n}.topics.t]\nhandler = \"any\"\n")).collect();
    let used = used_by(&of_tenants(&topics), 20_000, |topic| 1_000_000 * (topic.tenant.as_str().len() as u64));
    let (sum, squares) =
        used.values().fold((0.0, 0.0), |(sum, squares), used| (sum + *used as f64, squares + (*used as f64).powi(2)));
    let jain = sum * sum / (20.0 * squares);
    assert!(jain > 0.99, "{jain}");
}

#[test]
fn a_tenant_that_comes_later_does_not_wait_for_what_others_were_expected_to_cost() {
    let registry =
        of_tenants("[tenants.early.topics.t]\nhandler = \"any\"\n[tenants.later.topics.t]\nhandler = \"any\"\n");
    let later: TopicId = "later/t".parse().unwrap();
    let mut runner = BusyRunner::new(&registry);
    runner.ready.remove(&later);
    runner.claim();
    assert_eq!(runner.running.len(), 8, "all slots run attempts of which none has ended");
    runner.ready.insert(later, 1);
    runner.run(500, |_| 4_000);
    assert!((part(&runner.used, "later") - 0.5).abs() < 0.02, "{:?}", runner.used);
}

#[test]
fn a_tenant_whose_attempts_take_long_or_that_has_no_room_gives_others_no_lead() {
    let topics =
        "[tenants.busy.topics.t]\nhandler = \"any\"\n[tenants.long.topics.t]\nhandler = \"any\"\nconcurrency = 1\n";
    let registry = of_tenants(&format!("{topics}[tenants.later.topics.t]\nhandler = \"any\"\n"));
    let [busy, long, later]: [TopicId; 3] = ["busy/t", "long/t", "later/t"].map(|topic| topic.parse().unwrap());
    let mut runner = BusyRunner::new(&registry);
    runner.ready.remove(&later);
    runner.claim();
    let (running, slot) = runner
        .running
        .iter()
        .position(|(topic, _)| *topic == long)
        .map(|at| runner.running.remove(at))
        .unwrap()
        .unwrap();
    assert_eq!(running, long);
    runner.run(10_000, |_| 1_000_000);
    assert_eq!(
        runner.used.keys().map(Name::as_str).collect::<Vec<_>>(),
        ["busy"],
        "the other one's only slot is taken"
    );
    runner.used.clear();
    runner.ready.insert(later, 1);
    runner.run(1000, |_| 1_000_000);
    assert!((part(&runner.used, "busy") - 0.5).abs() < 0.02, "{:?}", runner.used);
    assert!(runner.ready.contains(&busy));
    drop(slot);
}

#[test]
fn what_a_tenant_owes_for_other_runners_is_bounded() {
    let registry =
        of_tenants("[tenants.both.topics.t]\nhandler = \"any\"\n[tenants.here.topics.t]\nhandler = \"any\"\n");
    let mut runner = BusyRunner::new(&registry);
    runner.run(8, |_| 4_000_000_000);
    let usage = runner.ready.usage(&"both".parse().unwrap());
    for _ in 0..1000 {
        usage.charge_others(86_400_000_000);
        runner.run(1, |_| 4_000);
    }
    // Attempts of a second of a thread, and a minute is owed: with the eight that run, 60 of the other tenant come first.
    runner.used.clear();
    runner.run(50, |_| 4_000_000_000);
    assert_eq!(part(&runner.used, "here"), 1.0);
    runner.run(50, |_| 4_000_000_000);
    assert!(runner.used.contains_key(&"both".parse::<Name>().unwrap()), "{:?}", runner.used);
}

#[test]
fn a_new_registry_forgives_no_tenant_what_it_has_used() {
    let registry = of_tenants("[tenants.a.topics.t]\nhandler = \"any\"\n[tenants.z.topics.t]\nhandler = \"any\"\n");
    let mut ready = ReadyTopics::default();
    let [a, z]: [TopicId; 2] = ["a/t", "z/t"].map(|topic| topic.parse().unwrap());
    [&a, &z].into_iter().for_each(|topic| ready.insert(topic.clone(), 1));
    for (ahead, behind) in [(&z, &a), (&a, &z)] {
        let usage = ready.usage(&ahead.tenant);
        (0..20_000).for_each(|_| usage.charge(1_000_000, Duration::ZERO, 1.0));
        ready.take().into_iter().for_each(|topic| ready.insert(topic, 1));
        let plan = ready.plan(&registry, &HashMap::new(), Free { all: 8, kept: 0 });
        assert_eq!(plan.iter().map(|line| (&line.topic, line.max)).collect::<Vec<_>>(), [(behind, 8)]);
        let usage = ready.usage(&behind.tenant);
        (0..20_000).for_each(|_| usage.charge(1_000_000, Duration::ZERO, 1.0));
    }
}

#[test]
fn what_a_tenant_uses_of_one_runner_counts_in_the_others() {
    let here = "[tenants.here.topics.t]\nhandler = \"any\"\n";
    let both = "[tenants.both.topics.t]\nhandler = \"any\"\n";
    let [first, second] = [format!("{here}{both}"), both.to_owned()].map(|manifest| of_tenants(&manifest));
    let mut runners = [BusyRunner::new(&first), BusyRunner::new(&second)];
    let (mut totals, begin) = (BTreeMap::<Name, u64>::new(), Instant::now());
    for second in 0..30 {
        let now = begin + Duration::from_secs(second);
        for runner in &mut runners {
            runner.run(500, |_| 1_000_000);
            let bill = runner.used.keys().cloned().chain(runner.fleet.competing());
            for tenant in bill.collect::<BTreeSet<_>>() {
                let own = runner.fleet.take_us(&tenant);
                let total = totals.entry(tenant.clone()).or_default();
                *total += own;
                runner.fleet.learn(&tenant, own, Some(*total), now);
            }
        }
    }
    let mut used = std::mem::take(&mut runners[0].used);
    for (tenant, more) in std::mem::take(&mut runners[1].used) {
        *used.entry(tenant).or_default() += more;
    }
    assert!((part(&used, "here") - 0.5).abs() < 0.03, "{used:?}");
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
        let plan = ready.plan(&registry, &HashMap::new(), Free { all: 8, kept: 0 });
        plan.into_iter().map(|line| (line.topic.tenant.to_string(), line.max)).collect()
    };
    assert_eq!(given(&mut ready), BTreeMap::from([("busy".into(), 4), ("idle".into(), 4)]));

    // The same if the busy one had no job remaining when the idle one came.
    ready.remove(&idle);
    usage_of(&mut ready, "busy", 10_000);
    ready.remove(&busy);
    ready.insert(idle.clone(), 1);
    ready.insert(busy.clone(), 1);
    assert_eq!(given(&mut ready), BTreeMap::from([("busy".into(), 4), ("idle".into(), 4)]));
    // And one that used more than its part is not forgiven because it had no jobs for a moment.
    usage_of(&mut ready, "busy", 10_000);
    ready.remove(&busy);
    ready.insert(busy, 1);
    assert_eq!(given(&mut ready), BTreeMap::from([("idle".into(), 8)]));
}
