//! What may happen to a store, as small values: jobs and claims are named by how long ago they came, so that a sequence
//! still makes sense when some of its operations are left out.

use gristmill_core::job::Priority;
use gristmill_core::outcome::Reason;
use gristmill_store::StateFilter;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

/// Milliseconds.
pub(super) type Ms = u64;

/// Which one, counted back from the latest. More than there are: begins again.
pub(super) type Back = usize;

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Push(Vec<Draft>),
    Pass(Ms),
    Migrate {
        tenant: usize,
        limit: usize,
    },
    Claim {
        worker: usize,
        lines: Vec<Line>,
        lease: Ms,
    },
    Settle(Vec<Ending>),
    Extend {
        claim: Pick,
        by: Ms,
    },
    Checkpoint {
        claim: Pick,
        state: u8,
    },
    Heartbeat {
        worker: usize,
    },
    Retire {
        worker: usize,
    },
    /// Looks for overdue jobs of a tenant, and settles those that are found.
    Reap {
        tenant: usize,
        limit: usize,
        verdict: End,
    },
    Held {
        tenant: usize,
        worker: usize,
        except: Option<Back>,
    },
    Change {
        jobs: Vec<Back>,
        due: Option<When>,
        priority: Option<Priority>,
    },
    Cancel {
        jobs: Vec<Back>,
        kill: bool,
    },
    Respawn(Vec<Back>),
    DeleteDead(Vec<Back>),
    Pause {
        topic: usize,
        paused: bool,
    },
    Forget {
        topic: usize,
    },
    Sweep {
        keep: u64,
        retention: Ms,
    },
    /// The store's process ends, and another one opens it.
    Reopen,
    /// Goes on with the list that has been begun, by so many pages; begins one if there is none.
    List {
        topic: usize,
        place: StateFilter,
        limit: usize,
        pages: usize,
    },
    Tokens(Vec<TokenChange>),
    /// Keeps a recording of this byte of a job that may be over.
    Record {
        job: Back,
        recording: u8,
    },
    /// Decides about versions of a topic's handler; as the first, which it mostly is not, if `blind`.
    Decide {
        topic: usize,
        decision: Decision,
        blind: bool,
    },
    /// Some of the steps of a move to the other store.
    Move(Move),
    /// From here on everything is done to the other store.
    Swap,
}

/// A job to be pushed.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) topic: usize,
    pub(super) due: When,
    pub(super) priority: Priority,
    /// A value, and for how long it is held; none: until the job is done.
    pub(super) unique: Option<(u8, Option<Ms>)>,
    pub(super) ttl: Option<Ms>,
    pub(super) key: Option<u8>,
    pub(super) kept: bool,
    /// The id of an earlier job.
    pub(super) again: Option<Back>,
}

#[derive(Debug, Clone)]
pub(super) enum When {
    Now,
    After(Ms),
    /// At a point in time that is so far from now, and perhaps past.
    At(i64),
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) topic: usize,
    pub(super) max: usize,
    /// How many jobs of the topic may run at once.
    pub(super) most: Option<u32>,
    /// How many jobs of a key may run at once, and whether a dead one halts the others.
    pub(super) per_key: (u32, bool),
    /// How many jobs of a key may start in a time, and how many at once.
    pub(super) key_rate: Option<(u32, Ms, u32)>,
}

#[derive(Debug, Clone)]
pub(super) enum Pick {
    /// One that is running, if there is one.
    Running(Back),
    /// One whose lease is lost; of a job that is still here, if there is one.
    Late(Back),
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) claim: Pick,
    pub(super) verdict: End,
    pub(super) follow_ups: Vec<Draft>,
    pub(super) kept: bool,
    pub(super) only_if_overdue: bool,
    pub(super) twice: bool,
    /// What becomes of the state of the job's key; an inner none deletes it.
    pub(super) state: Option<Option<u8>>,
}

#[derive(Debug, Clone)]
pub(super) enum End {
    Ack(Option<u8>),
    Retry(Ms),
    Snooze(Ms),
    Release(Ms),
    Bury(Reason),
    Expire,
}

/// Texts are numbered.
#[derive(Debug, Clone)]
pub(super) enum TokenChange {
    Add { text: u8, tenant: Option<usize>, limited: bool, expires: Option<Ms>, made_by: Option<u8> },
    Revoke { text: u8 },
    Limit { text: u8, limited: bool },
    LiftRequirement,
}

/// Versions are numbered.
#[derive(Debug, Clone)]
pub(super) enum Decision {
    Serve(u8),
    Try(u8, u16, u8),
    RollBack(u8, u8),
}

#[derive(Debug, Clone)]
pub(super) struct Move {
    /// Reads so many jobs of the topic; none: the jobs that were read last, as they were then.
    pub(super) export: Option<(usize, usize)>,
    pub(super) import: bool,
    pub(super) remove: bool,
    pub(super) clear: bool,
}

pub(super) const TOPICS: usize = 3;
pub(super) const TENANTS: usize = 2;
pub(super) const WORKERS: usize = 3;
const LATEST: std::ops::Range<usize> = 0..12;

pub(super) fn sequences() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..60)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        7 => vec(draft(), 1..4).prop_map(Operation::Push),
        5 => time().prop_map(Operation::Pass),
        3 => (0..TENANTS, prop_oneof![3 => Just(1000usize), 1 => 0..4usize])
            .prop_map(|(tenant, limit)| Operation::Migrate { tenant, limit }),
        8 => claim(),
        8 => vec(ending(), 1..4).prop_map(Operation::Settle),
        1 => (pick(), time()).prop_map(|(claim, by)| Operation::Extend { claim, by }),
        1 => (pick(), any::<u8>()).prop_map(|(claim, state)| Operation::Checkpoint { claim, state }),
        2 => (0..WORKERS).prop_map(|worker| Operation::Heartbeat { worker }),
        1 => (0..WORKERS).prop_map(|worker| Operation::Retire { worker }),
        3 => (0..TENANTS, prop_oneof![4 => Just(1000usize), 1 => 0..3usize], end())
            .prop_map(|(tenant, limit, verdict)| Operation::Reap { tenant, limit, verdict }),
        1 => (0..TENANTS, 0..WORKERS, weighted(0.3, LATEST))
            .prop_map(|(tenant, worker, except)| Operation::Held { tenant, worker, except }),
        3 => (vec(LATEST, 1..3), any::<bool>()).prop_map(|(jobs, kill)| Operation::Cancel { jobs, kill }),
        3 => (vec(LATEST, 1..3), weighted(0.7, due()), weighted(0.5, prop::sample::select(Priority::ALL.to_vec())))
            .prop_map(|(jobs, due, priority)| Operation::Change { jobs, due, priority }),
        2 => vec(LATEST, 1..3).prop_map(Operation::Respawn),
        1 => vec(LATEST, 1..3).prop_map(Operation::DeleteDead),
        1 => (0..TOPICS, any::<bool>()).prop_map(|(topic, paused)| Operation::Pause { topic, paused }),
        1 => (0..TOPICS).prop_map(|topic| Operation::Forget { topic }),
        1 => (0..4u64, time()).prop_map(|(keep, retention)| Operation::Sweep { keep, retention }),
        1 => Just(Operation::Reopen),
        4 => list(),
        2 => vec(token(), 1..4).prop_map(Operation::Tokens),
        2 => (LATEST, any::<u8>()).prop_map(|(job, recording)| Operation::Record { job, recording }),
        2 => (0..TOPICS, decision(), prop::bool::weighted(0.2))
            .prop_map(|(topic, decision, blind)| Operation::Decide { topic, decision, blind }),
        3 => moves().prop_map(Operation::Move),
        1 => Just(Operation::Swap),
    ]
}

/// Short waits of few lengths, so that things happen in the same millisecond; and those that leases and workers die of.
fn time() -> impl Strategy<Value = Ms> {
    prop_oneof![6 => wait(), 1 => Just(10_000), 1 => Just(30_000)]
}

fn wait() -> impl Strategy<Value = Ms> {
    prop::sample::select(vec![0, 1, 5, 10, 20, 40])
}

fn due() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => Just(When::Now),
        2 => wait().prop_map(When::After),
        1 => prop::sample::select(vec![-5i64, 0, 5, 10, 20]).prop_map(When::At),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let priority = prop_oneof![3 => Just(Priority::Normal), 2 => Just(Priority::High), 2 => Just(Priority::Low)];
    let unique = weighted(0.25, (0..2u8, weighted(0.5, wait())));
    let key = weighted(0.3, 0..2u8);
    (0..TOPICS, due(), priority, unique, weighted(0.1, time()), key, prop::bool::weighted(0.2), weighted(0.1, LATEST))
        .prop_map(|(topic, due, priority, unique, ttl, key, kept, again)| Draft {
            topic,
            due,
            priority,
            unique,
            ttl,
            key,
            kept,
            again,
        })
}

fn claim() -> impl Strategy<Value = Operation> {
    let per_key = prop_oneof![3 => Just((1, false)), 2 => Just((1, true)), 1 => (1..4u32, any::<bool>())];
    let key_rate = weighted(0.3, (1..4u32, prop_oneof![Just(100), Just(1000), Just(3_600_000)], 1..3u32));
    let line = (0..TOPICS, 0..6usize, weighted(0.3, 1..5u32), per_key, key_rate);
    let line = line.prop_map(|(topic, max, most, per_key, key_rate)| Line { topic, max, most, per_key, key_rate });
    let lease = prop_oneof![3 => Just(30_000), 1 => wait()];
    (0..WORKERS, vec(line, 1..4), lease).prop_map(|(worker, lines, lease)| Operation::Claim { worker, lines, lease })
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![4 => LATEST.prop_map(Pick::Running), 1 => LATEST.prop_map(Pick::Late)]
}

fn ending() -> impl Strategy<Value = Ending> {
    let follow_ups = prop_oneof![3 => Just(Vec::new()), 1 => vec(draft(), 1..3)];
    let seldom = || prop::bool::weighted(0.1);
    let state = weighted(0.3, weighted(0.7, 0..4u8));
    (pick(), end(), follow_ups, prop::bool::weighted(0.2), seldom(), seldom(), state).prop_map(
        |(claim, verdict, follow_ups, kept, only_if_overdue, twice, state)| Ending {
            claim,
            verdict,
            follow_ups,
            kept,
            only_if_overdue,
            twice,
            state,
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => weighted(0.3, any::<u8>()).prop_map(End::Ack),
        3 => wait().prop_map(End::Retry),
        1 => wait().prop_map(End::Snooze),
        1 => wait().prop_map(End::Release),
        3 => prop::sample::select(Reason::ALL).prop_map(End::Bury),
        1 => Just(End::Expire),
    ]
}

fn list() -> impl Strategy<Value = Operation> {
    let place = prop::sample::select(StateFilter::ALL.to_vec());
    (0..TOPICS, place, 1..4usize, 1..3usize).prop_map(|(topic, place, limit, pages)| Operation::List {
        topic,
        place,
        limit,
        pages,
    })
}

fn token() -> impl Strategy<Value = TokenChange> {
    let texts = 0..4u8;
    let made_by = weighted(0.4, texts.clone());
    let add = (texts.clone(), weighted(0.7, 0..TENANTS), any::<bool>(), weighted(0.4, time()), made_by).prop_map(
        |(text, tenant, limited, expires, made_by)| TokenChange::Add { text, tenant, limited, expires, made_by },
    );
    prop_oneof![
        5 => add,
        1 => Just(TokenChange::LiftRequirement),
        2 => texts.clone().prop_map(|text| TokenChange::Revoke { text }),
        1 => (texts, any::<bool>()).prop_map(|(text, limited)| TokenChange::Limit { text, limited }),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    let version = || 0..3u8;
    prop_oneof![
        version().prop_map(Decision::Serve),
        (version(), 1..=10_000u16, version())
            .prop_map(|(version, share, stable)| Decision::Try(version, share, stable)),
        (version(), version()).prop_map(|(version, stable)| Decision::RollBack(version, stable)),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    let export = weighted(0.7, (0..TOPICS, prop_oneof![3 => Just(1000usize), 1 => 0..3usize]));
    let mostly = || prop::bool::weighted(0.8);
    (export, mostly(), mostly(), mostly()).prop_map(|(export, import, remove, clear)| Move {
        export,
        import,
        remove,
        clear,
    })
}
