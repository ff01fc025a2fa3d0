//! Names of keys and channels. They exist here and in `docs/reference/redis-keys.md`, and nowhere else.

use super::holder::Holder;
use gristmill_core::bill::Day;
use gristmill_core::job::{JobId, Name, Priority, TopicId, WorkerId};

/// What all keys begin with unless the settings say otherwise.
pub const DEFAULT_PREFIX: &str = "gm";

/// The keys of one partition of a tenant. They share the hash tag `{tenant/partition}`, hence one slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    base: String,
    /// What the names of channels begin with: all partitions of a tenant publish on the channels of the first.
    channels: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, tenant: &Name, partition: u32) -> Self {
        let base = |partition| format!("{prefix}:{{{tenant}/{partition}}}:");
        Self { base: base(partition), channels: base(0) }
    }

    /// Channel of the tenant's wake-ups.
    pub(super) fn wake_channel(&self) -> String {
        [&self.channels, "wake"].concat()
    }

    /// Channel of ids of the tenant's finished jobs.
    pub(super) fn done_channel(&self) -> String {
        [&self.channels, "done"].concat()
    }

    fn key(&self, name: &str) -> String {
        [&self.base, name].concat()
    }

    fn key_of(&self, name: &str, of: &str) -> String {
        [&self.base, name, ":", of].concat()
    }

    /// LIST of ids: in at the left, out at the right. That of normal jobs is the one that others may write to.
    pub(super) fn ready(&self, priority: Priority, topic: &Name) -> String {
        let name = match priority {
            Priority::High => "ready-high",
            Priority::Normal => "ready",
            Priority::Low => "ready-low",
        };
        self.key_of(name, topic.as_str())
    }

    /// What the keys of all results begin with.
    pub(super) fn results(&self) -> String {
        self.key_of("result", "")
    }

    /// What the keys of all states begin with.
    pub(super) fn states(&self) -> String {
        self.key_of("state", "")
    }

    /// STRING: the state of a key of a topic; see [`states`](super::states).
    pub(super) fn state(&self, topic: &Name, key: &str) -> String {
        self.key_of("state", &[topic.as_str(), ":", key].concat())
    }

    /// LIST of ids of jobs that a worker took with one claim, and still runs.
    pub(super) fn processing(&self, holder: Holder<'_>) -> String {
        self.key_of("processing", &holder.text())
    }

    /// HASH `topic:what` → what the topic's attempts of the day cost.
    pub(super) fn bill(&self, day: Day) -> String {
        self.key_of("bill", &day.to_string())
    }

    /// HASH: what was taken of the bill of a day, to be added to that of another store; the field '' → the mark with which it was.
    pub(super) fn taken_bill(&self, day: Day) -> String {
        self.key_of("bill-taken", &day.to_string())
    }

    /// STRING: the number of the last entry that a process added to the bill.
    pub(super) fn billed(&self, writer: &WorkerId) -> String {
        self.key_of("billed", writer.as_str())
    }

    /// STRING: the number of a settle call, and what it answered.
    pub(super) fn settled(&self, record: &str) -> String {
        self.key_of("settled", record)
    }

    /// What the scripts that make jobs wait, or no longer, have first among their keys: see `keys/waiting.lua`.
    pub(super) fn waiting(&self) -> Vec<String> {
        vec![
            self.jobs(),
            self.priorities(),
            self.active(),
            self.due(),
            self.topics(),
            self.counts(),
            self.paused(),
            self.perishable(),
            self.large(),
            self.keyed(),
            self.slots(),
            self.behind(),
            self.per_key(),
            self.links(),
        ]
    }

    /// All keys for the same scripts: those that they have first, `more`, and the row of each topic.
    pub(super) fn with_rows<'a>(
        &self,
        more: impl IntoIterator<Item = String>,
        topics: impl IntoIterator<Item = &'a Name>,
    ) -> Vec<String> {
        let rows = topics.into_iter().flat_map(|topic| self.row(topic));
        self.waiting().into_iter().chain(more).chain(rows).collect()
    }

    /// A topic's row of keys for the same scripts.
    pub(super) fn row(&self, topic: &Name) -> [String; 8] {
        [
            self.ready(Priority::High, topic),
            self.ready(Priority::Normal, topic),
            self.ready(Priority::Low, topic),
            self.delayed(topic),
            self.unique(topic),
            self.windows(topic),
            self.dead(topic),
            self.waiters(topic),
        ]
    }
}

/// The field of `slots` for a key of a topic.
pub(super) fn slots_field(topic: &Name, key: &str) -> String {
    format!("{topic} {key}")
}

/// Between which bounds all members of `behind` for a topic are: no name has the sign that follows the blank.
pub(super) fn all_behind(topic: &Name) -> (String, String) {
    (format!("[{topic} "), format!("({topic}!"))
}

/// Defines the keys of a partition by their names; those `of` something have one for each topic, worker or job.
macro_rules! keys {
    ({ $($(#[doc = $doc:literal])+ $key:ident = $name:literal;)+ } of { $($(#[doc = $doc_of:literal])+ $key_of:ident = $name_of:literal of $of:ty;)+ }) => {
        /// The same names, each with its description, which begins with the key's type.
        const NAMES: &[(&str, &str)] = &[$(($name, concat!($($doc),+)),)+];
        const NAMES_OF: &[(&str, &str)] = &[$(($name_of, concat!($($doc_of),+)),)+];

        impl Keys {
            $($(#[doc = $doc])+
            pub(super) fn $key(&self) -> String {
                self.key($name)
            })+
            $($(#[doc = $doc_of])+
            pub(super) fn $key_of(&self, of: &$of) -> String {
                self.key_of($name_of, of.as_str())
            })+
        }
    };
}

keys! {
    {
        /// HASH id → stamp and envelope.
        jobs = "jobs";
        /// HASH id → `deliveries:attempts:holder`.
        claims = "claims";
        /// ZSET holder → end of the lease of a claim, ms.
        leases = "leases";
        /// ZSET id of a running job whose lease was extended → its end, ms.
        extended = "extended";
        /// SET of topics with ready jobs.
        active = "active";
        /// ZSET topic of which limits keep jobs in line → when its rate allows more, ms; infinite: when a running job ends.
        limited = "limited";
        /// ZSET topic with a rate → when as many jobs may start at once as ever, µs.
        rates = "rates";
        /// ZSET topic → its next due time, ms; `topic@` → when its rate allows more.
        due = "due";
        /// ZSET topic → when it was last seen in use, ms.
        topics = "topics";
        /// HASH id → last failure.
        failures = "failures";
        /// HASH id → checkpoint.
        checkpoints = "checkpoints";
        /// HASH `topic:what` → how many.
        counts = "counts";
        /// HASH id → priority, of jobs that are not normal.
        priorities = "priorities";
        /// SET of ids of jobs whose stamp and envelope have more than 4 KiB.
        large = "large";
        /// HASH id of a job with a key → `segment key`: in which part of the line of its key it waits or has waited, 0 if in none, 00 if the rate of
        /// its key held it back and it has not started since.
        keyed = "keyed";
        /// HASH `topic key` → ids of the jobs that hold the key's slots, and the ends of the line of those that are due and wait for one; ` topic key n` →
        /// a segment between the ends: see `keys/line.lua`; ` topic` → how many wait.
        slots = "slots";
        /// ZSET of the fields `topic key` of `slots` for which jobs wait, all of score 0.
        behind = "behind";
        /// HASH topic → `slots:on-dead`, unless a key has one slot that a dead job gives up; `topic@` → 1, once its keys have had a rate.
        per_key = "per-key";
        /// ZSET `topic key`, of keys with a rate → when the bucket of the key is full again, µs since 1970. Those whose time has passed are removed.
        key_rates = "key-rates";
        /// ZSET of what jobs wait for which: see `links/links.lua`.
        links = "links";
        /// HASH: how far the limits of the tenant are used, if it has some: see `limits/limits.lua`.
        tenant = "tenant";
        /// STRING: what the tenant's attempts have taken of all runners' threads, µs. Expires.
        used = "used";
        /// HASH topic → how many turns of its priorities have been taken, from 0 on and round.
        turns = "turns";
        /// SET of topics of which nothing is handed out.
        paused = "paused";
        /// HASH paused topic → since when, ms, and by whom, if that is known.
        pauses = "pauses";
        /// SET of ids of running jobs that have been cancelled.
        cancelled = "cancelled";
        /// ZSET topic that raw producers write to → when a runner whose manifest says so last looked at it, ms.
        raw = "raw";
        /// SET of topics that have something that is kept for a time only.
        perishable = "perishable";
        /// HASH id of a follow-up job that another partition is to have → stamp and envelope.
        outbox = "outbox";
        /// STRING that is empty: a process pushes what is in the outbox for long. Expires.
        outbox_sender = "outbox-sender";
        /// HASH id of a job that came from another store, which may not have let go of it yet → when it was enqueued.
        moved = "moved";
        /// HASH `topic/name` of a schedule → what it says, and what it did, JSON.
        schedules = "schedules";
        /// ZSET `topic/name` of a schedule → when it fires next, ms.
        ticks = "ticks";
        /// HASH topic → which manifest's schedules are in force, JSON.
        manifests = "manifests";
        /// HASH topic, or empty → the number of the last step of the server's clock by which what waits was moved.
        clock = "clock";
    } of {
        /// ZSET id → due, ms.
        delayed = "delayed" of Name;
        /// ZSET id → buried at, ms.
        dead = "dead" of Name;
        /// HASH unique value → `id`, or `id expiry` where it is held for a time.
        unique = "unique" of Name;
        /// ZSET unique value that is held for a time → until when, ms.
        windows = "windows" of Name;
        /// ZSET channel that wakes a runner that waits for jobs of the topic → since when it waits, ms.
        waiters = "waiters" of Name;
        /// LIST of elements of the ready List that were no job.
        strays = "strays" of Name;
        /// HASH id → recording of an attempt; empty → the bytes of all. Expires.
        recordings = "recordings" of Name;
        /// ZSET id of a job with a recording → until when it is kept, ms. Expires.
        recorded = "recorded" of Name;
        /// STRING: the jobs that ended last; see `look/ended/mod.rs`. Expires.
        ended = "ended" of Name;
        /// STRING: how far an attempt is: its delivery, basis points, and the handler's note. Expires.
        progress = "progress" of JobId;
        /// STRING: what became of a job.
        result = "result" of JobId;
    }
}

/// The names of keys that are of a type, a day or a process, or of one priority of a topic; each with its type.
const OTHER_NAMES_OF: &[(&str, &str)] = &[
    ("ready", "LIST"),
    ("ready-high", "LIST"),
    ("ready-low", "LIST"),
    ("processing", "LIST"),
    ("bill", "HASH"),
    ("bill-taken", "HASH"),
    ("billed", "STRING"),
    ("settled", "STRING"),
    ("state", "STRING"),
];

/// The names of partitions' keys that expire.
const EXPIRING: &str = "ended progress result recordings recorded bill bill-taken billed used settled state";

/// The keys of all tenants, behind the prefix, and those whose names begin so; each with its type.
const ALL_TENANTS: &[(&str, &str)] = &[
    ("workers", "ZSET"),
    ("format", "STRING"),
    ("id", "STRING"),
    ("probe", "STRING"),
    ("clock", "HASH"),
    ("placements", "HASH"),
    ("deployments", "HASH"),
    ("partitions", "HASH"),
    ("tenants", "SET"),
    ("{tokens}:all", "HASH"),
    ("{tokens}:limits", "HASH"),
    ("{tokens}:requirement", "STRING"),
    ("{tokens}:operators", "SET"),
];
const ALL_TENANTS_OF: &[(&str, &str)] = &[("{tokens}:of", "SET"), ("mover", "STRING"), ("probe", "STRING")];

/// What a key is, by its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownKey<'a> {
    /// As Redis calls it, in lower case.
    pub(super) kind: String,
    pub(super) expires: bool,
    /// The tenant, the number of the partition, the key's name in it, and of what it is.
    pub(super) partition: Option<(Name, u32, &'a str, &'a str)>,
}

/// Reads the name of a key. `None`: it is none of ours.
pub(super) fn read_key<'a>(prefix: &str, key: &'a str) -> Option<KnownKey<'a>> {
    let rest = key.strip_prefix(prefix)?.strip_prefix(':')?;
    let find = |names: &[(&str, &str)], name: &str| {
        let (_, about) = names.iter().find(|(known, _)| *known == name)?;
        Some(about.split_whitespace().next()?.trim_end_matches(':').to_ascii_lowercase())
    };
    let partition = || {
        let (tag, name) = rest.strip_prefix('{')?.split_once("}:")?;
        let (tenant, number) = tag.split_once('/')?;
        let (tenant, number) = (tenant.parse().ok()?, number.parse().ok()?);
        let (kind, name, of) = match name.split_once(':') {
            None => (find(NAMES, name)?, name, ""),
            Some((name, of)) => (find(NAMES_OF, name).or_else(|| find(OTHER_NAMES_OF, name))?, name, of),
        };
        let expires = EXPIRING.split(' ').any(|expiring| expiring == name);
        Some(KnownKey { kind, expires, partition: Some((tenant, number, name, of)) })
    };
    let of_all = || {
        let kind = find(ALL_TENANTS, rest).or_else(|| find(ALL_TENANTS_OF, rest.rsplit_once(':')?.0))?;
        let expires = rest.starts_with("mover:") || rest.starts_with("probe:");
        Some(KnownKey { kind, expires, partition: None })
    };
    partition().or_else(of_all)
}

/// The keys of what is known about tokens: of all tenants, in a slot of their own.
#[derive(Debug, Clone)]
pub(super) struct TokenKeys {
    base: String,
}

impl TokenKeys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { base: [prefix, ":{tokens}:"].concat() }
    }

    /// HASH id → what is stored of the token, JSON.
    pub(super) fn all(&self) -> String {
        [&self.base, "all"].concat()
    }

    /// HASH id → the token's limits, JSON.
    pub(super) fn limits(&self) -> String {
        [&self.base, "limits"].concat()
    }

    /// STRING: whether requests need a token, [`REQUIRED`](super::tokens::REQUIRED) from the first one on.
    pub(super) fn requirement(&self) -> String {
        [&self.base, "requirement"].concat()
    }

    /// SET of ids of a tenant's tokens, or of those that are for all tenants.
    pub(super) fn of(&self, tenant: Option<&Name>) -> String {
        match tenant {
            Some(tenant) => [&self.base, "of:", tenant.as_str()].concat(),
            None => [&self.base, "operators"].concat(),
        }
    }

    /// Channel of ids of tokens that have changed.
    pub(super) fn channel(&self) -> String {
        [&self.base, "changed"].concat()
    }
}

/// The keys of all tenants that have one name.
pub(super) fn of_all_tenants(prefix: &str) -> Vec<String> {
    ALL_TENANTS.iter().map(|(name, _)| [prefix, ":", name].concat()).collect()
}

macro_rules! of_installation {
    ($($(#[$about:meta])* $name:ident = $suffix:literal)*) => {$(
        $(#[$about])*
        pub(super) fn $name(prefix: &str) -> String {
            [prefix, $suffix].concat()
        }
    )*};
}

of_installation! {
    /// ZSET worker → last heartbeat, ms. Of all tenants, in a slot of its own.
    workers = ":workers"
    /// STRING: the format of all keys with the prefix, [`FORMAT`](super::connection::server_link::FORMAT).
    format = ":format"
    /// STRING: the id of the store.
    id = ":id"
    /// STRING that a probe writes and removes in one step. Behind it, those that a connection alone has begin.
    probe = ":probe"
    /// HASH: the last step of the server's clock, its number, from when to when it went, and what is moved because of it. Of all tenants, in a slot of its own.
    clock = ":clock"
    /// HASH tenant → generation and record of where it lives. Of all tenants, in a slot of its own.
    placements = ":placements"
    /// HASH tenant/topic → generation and record of which versions of its handler serve. Of all tenants, in a slot of its own.
    deployments = ":deployments"
}

/// Channel that all runners of all tenants receive.
pub(super) fn runners_channel(prefix: &str) -> String {
    [prefix, ":wake"].concat()
}

/// Channel that wakes one runner.
pub(super) fn runner_channel(prefix: &str, worker: &WorkerId) -> String {
    [prefix, ":wake:", worker.as_str()].concat()
}

/// STRING: the process that moves the tenant's jobs.
pub(super) fn mover(prefix: &str, tenant: &Name) -> String {
    [prefix, ":mover:", tenant.as_str()].concat()
}

/// HASH topic that is spread over several partitions → how. Of all tenants, in a slot of its own.
pub(super) fn partitions(prefix: &str) -> String {
    [prefix, ":partitions"].concat()
}

/// SET of tenants that have had topics.
pub(super) fn tenants_key(prefix: &str) -> String {
    [prefix, ":tenants"].concat()
}

/// The counter field of a topic: `topic:what`. The other direction of what the scripts' `count` writes.
pub(super) fn counter(field: &str, tenant: &Name) -> Option<(TopicId, String)> {
    let (topic, what) = field.split_once(':')?;
    Some((TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? }, what.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_partition_share_its_hash_tag() {
        let (tenant, topic): (Name, Name) = ("acme".parse().unwrap(), "resize".parse().unwrap());
        let keys = Keys::new(DEFAULT_PREFIX, &tenant, 0);
        assert_eq!(keys.jobs(), "gm:{acme/0}:jobs");
        assert_eq!(keys.ready(Priority::Normal, &topic), "gm:{acme/0}:ready:resize");
        assert_eq!(keys.ready(Priority::Low, &topic), "gm:{acme/0}:ready-low:resize");
        let worker = WorkerId::new("host-1-x");
        assert_eq!(keys.processing(Holder { worker: &worker, batch: 7 }), "gm:{acme/0}:processing:host-1-x:7");
        assert_eq!(keys.wake_channel(), "gm:{acme/0}:wake");
        assert_eq!(workers(DEFAULT_PREFIX), "gm:workers");
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let (tenant, topic): (Name, Name) = ("acme".parse().unwrap(), "resize".parse().unwrap());
        let keys = Keys::new("gm:x", &tenant, 3);
        let read = |key: &str| read_key("gm:x", key).map(|known| (known.kind, known.expires));
        let known = |kind: &str, expires| Some((kind.to_owned(), expires));
        assert_eq!(read(&keys.jobs()), known("hash", false));
        assert_eq!(read(&keys.ready(Priority::Low, &topic)), known("list", false));
        assert_eq!(read(&keys.delayed(&topic)), known("zset", false));
        assert_eq!(read(&keys.result(&"j-1".parse().unwrap())), known("string", true));
        assert_eq!(read(&keys.bill(Day::from_number(0))), known("hash", true));
        assert_eq!(read(&mover("gm:x", &tenant)), known("string", true));
        assert_eq!(read(&(probe("gm:x") + ":4c92")), known("string", true));
        assert_eq!(read(&TokenKeys::new("gm:x").of(Some(&tenant))), known("set", false));
        for key in [workers, format, id, probe, clock, placements, deployments, partitions, tenants_key] {
            assert!(read(&key("gm:x")).is_some(), "{}", key("gm:x"));
        }
        let partition = read_key("gm:x", "gm:x:{acme/3}:dead:resize").unwrap().partition;
        assert_eq!(partition, Some((tenant, 3, "dead", "resize")));
        for strange in
            ["gm:x", "gm:y:workers", "gm:x:{acme}:jobs", "gm:x:{acme/3}:job", "gm:x:{acme/3}:jobs:a", "gm:x:a"]
        {
            assert_eq!(read(strange), None, "{strange}");
        }
    }

    #[test]
    fn no_tenants_tokens_have_the_key_of_another_tenants() {
        let (keys, tenant) = (TokenKeys::new(DEFAULT_PREFIX), "operators".parse().unwrap());
        assert_eq!(keys.of(Some(&tenant)), "gm:{tokens}:of:operators");
        assert_eq!(keys.of(None), "gm:{tokens}:operators");
    }

    #[test]
    fn counters_are_read_as_they_are_written() {
        let tenant: Name = "acme".parse().unwrap();
        let (topic, what) = counter("a.b:dead-trap", &tenant).unwrap();
        assert_eq!((topic.to_string().as_str(), what.as_str()), ("acme/a.b", "dead-trap"));
        assert!(counter("nothing", &tenant).is_none());
    }
}
