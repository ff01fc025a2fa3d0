//! Checking a store while it is in use: what must hold in every store, whatever happened to it, and what is found where it does not.
//!
//! The list of checks is [`Check`]. Each store looks for what can go wrong in it; `docs/guides/fsck.md` shows the list.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::error::StoreError;
use super::operations::operations;
use gristmill_core::job::Name;
use gristmill_core::schedule::Record;
use gristmill_core::time::Timestamp;

/// How many findings of a check are named. The others are counted.
const NAMED: u64 = 100;

operations! {
    /// Looking for damage.
    pub trait Fsck {
        /// Looks at everything in the store, of all tenants, and changes nothing. Other processes use the store meanwhile: what is
        /// found is looked at again in one step, so that nothing is reported that a job on its way explains.
        ///
        /// Takes small steps: at most a few thousand entries, or one topic of a SQLite file, at a time. Keeps up to
        /// 16 bytes for each ready job of a Redis in memory, and of at most two million at a time.
        async fn fsck(&self) -> Result<FsckReport, StoreError>;
    }
}

/// Defines the checks: name, what is wrong, what it means, and what to do.
macro_rules! checks {
    ($($Check:ident $name:literal: $wrong:literal, $means:literal, $remedy:literal;)+) => {
        /// What must not be found in a store.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Check {
            $(#[doc = $wrong] $Check,)+
        }

        impl Check {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Check),+];

            /// Its name, for programs. Stable.
            pub const fn name(self) -> &'static str {
                self.words().0
            }

            /// What is wrong.
            pub const fn wrong(self) -> &'static str {
                self.words().1
            }

            /// What it means.
            pub const fn means(self) -> &'static str {
                self.words().2
            }

            /// What to do.
            pub const fn remedy(self) -> &'static str {
                self.words().3
            }

            const fn words(self) -> (&'static str, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$Check => ($name, $wrong, $means, $remedy),)+
                }
            }
        }
    };
}

checks! {
    JobInNoPlace "job-in-no-place":
        "a job is stored, and is neither ready, delayed, running nor dead",
        "no runner finds it, so it does not run",
        "push it again under another id: `gristmill push --from-job ID`";
    JobInTwoPlaces "job-in-two-places":
        "a job is in two places at once, such as ready and running",
        "it may run twice",
        "look whether a raw producer wrote its id; cancel the job if it must not run again";
    JobUnreadable "job-unreadable":
        "what is stored of a job cannot be read",
        "the next claim buries it as `unreadable`",
        "update, if a later version wrote it; else delete the dead job";
    JobInWrongLine "job-in-wrong-line":
        "a job stands in the line of another priority than its own",
        "it runs earlier or later than it should, and cannot be cancelled",
        "let it run";
    JobMissesKeySlot "job-misses-key-slot":
        "a job with a key is due and holds no slot of it, or one without a key holds one",
        "it may run beside another job of its key",
        "nothing, if its handler bears that; else cancel it and push it again";
    ClaimMalformed "claim-malformed":
        "what is noted of a job's claims makes no sense",
        "attempts may be counted wrong, and a late worker may settle the job",
        "cancel the job and push it again";
    JobNotInClaim "job-not-in-claim":
        "a job counts as running, and the list of its claim lacks it",
        "if its worker dies, the job is not run again",
        "wait until its worker has settled it; else cancel it and push it again under another id";
    JobWithoutLease "job-without-lease":
        "a running job has no lease",
        "if its worker dies, the job is not run again",
        "wait until its worker has settled it; else cancel it and push it again under another id";
    ClaimWithoutLease "claim-without-lease":
        "a claim has jobs and no lease",
        "if its worker dies, its jobs are not run again",
        "wait until its worker has settled them";
    LeaseWithoutJobs "lease-without-jobs":
        "a claim without jobs has a lease",
        "none: the next look for overdue leases removes it",
        "nothing";
    ClaimHoldsOther "claim-holds-other":
        "the list of a claim names a job that this claim does not run, or two claims have one job",
        "a script was stopped in its midst; the next look for overdue leases removes it",
        "look at the server's log; nothing else";
    EntryWithoutJob "entry-without-job":
        "a list names a job that is not stored",
        "counts are too high; a claim sets it aside as a stray",
        "`gristmill dead delete` of the id if it is in `dead`; else nothing";
    DetailWithoutJob "detail-without-job":
        "something is kept of a job that is not stored",
        "it takes space for ever",
        "remove the entry by hand";
    LargeMismarked "large-mismarked":
        "a large job is not noted as one, or a small one is",
        "a claim may take more than 2 MiB at once",
        "nothing, if there are few";
    BodyMissing "body-missing":
        "a job has no body, or two",
        "it cannot run as it was pushed",
        "delete the job and push it again; restore a backup if there are many";
    UniqueNotHeld "unique-not-held":
        "a job that waits or runs does not hold its unique value, and no other one does",
        "a second job with the value is accepted; two such jobs may have met when their tenant moved",
        "nothing, if handlers bear it";
    UniqueHolderGone "unique-holder-gone":
        "a unique value is held by a job that is gone or dead",
        "in a SQLite file, pushes with the value are answered `duplicate`; in Redis none is refused",
        "remove the entry by hand";
    UniqueWindowWrong "unique-window-wrong":
        "a unique value that is held for a time has no end, or an end without a value",
        "it may be held for ever, or set free too early",
        "remove the entry by hand";
    SlotHolderGone "slot-holder-gone":
        "a slot of a key is held by a job that is gone, or that does not have this key",
        "fewer jobs of the key run at once; with one slot, none does",
        "remove the job's id from the field by hand, then push a job of the key";
    WaiterWithoutHolder "waiter-without-holder":
        "jobs wait for a key of which no job holds a slot",
        "they wait for ever",
        "cancel them and push them again";
    KeyIndexWrong "key-index-wrong":
        "it is noted that jobs wait for a key and none does, or the other way round",
        "lists of the topic's jobs lack them",
        "nothing: it is right again once no job of the key waits";
    WaiterGone "waiter-gone":
        "a job that is gone, or waits at another place, stands in line for a key",
        "the key's slot goes to a job that does not exist",
        "remove the entry by hand";
    LinkWaiterGone "link-waiter-gone":
        "it is noted what a job waits for that is gone",
        "the notes take space for ever",
        "remove the entries by hand";
    LinkJobGone "link-job-gone":
        "a job waits for one that is gone and has not ended",
        "it waits for ever",
        "cancel the job that waits, and push it again without the other one";
    WaitsForNone "waits-for-none":
        "a job stands by, and all jobs that it waits for have ended",
        "it waits for ever",
        "cancel it and push it again";
    LinksMismatched "links-mismatched":
        "the notes of what a job waits for do not fit together, or fewer are counted than there are",
        "the end of a job may not start what waits for it, or a batch takes too many members",
        "cancel the job that waits and push it again";
    EndNotPassedOn "end-not-passed-on":
        "a job has ended, and nothing passes its end on to the jobs that wait for it",
        "they wait until another job ends for which many wait",
        "cancel them and push them again";
    TopicNotListed "topic-not-listed":
        "a job's topic is not in the list of topics",
        "no command shows the topic, and nothing of it is swept",
        "push a job to the topic";
    TenantNotListed "tenant-not-listed":
        "a tenant with jobs or schedules is not in the list of tenants",
        "commands for all tenants pass it over",
        "push a job of the tenant from a process that has just started";
    PartitionNotListed "partition-not-listed":
        "there are jobs in a partition that none of the tenant's topics is spread over",
        "no runner looks there",
        "spread the topic over as many partitions as before";
    TopicNotAnnounced "topic-not-announced":
        "a topic has ready jobs, and no runner is notified",
        "they wait until the next job is pushed",
        "push a job to the topic, or pause and resume it";
    DueWrong "due-wrong":
        "a topic's next delayed job is due earlier than is noted",
        "the job becomes ready too late, or never",
        "push a job to the topic with a short delay";
    PerishableMissing "perishable-missing":
        "a topic with dead jobs or held values is not noted for the sweep",
        "they are kept for ever",
        "bury or push one more";
    LimitedForEver "limited-for-ever":
        "a topic waits for one of its running jobs to end, and none runs; or for its rate, and nothing says until when",
        "none of its jobs starts",
        "pause and resume the topic";
    RunningMiscounted "running-miscounted":
        "the number of running jobs of a topic, or of a tenant with limits, is not what is noted",
        "`max-running` allows too many or too few",
        "stop pushing, let the topic run empty, and have it forgotten";
    JobsMiscounted "jobs-miscounted":
        "the numbers of a topic's jobs are not what is noted",
        "commands and metrics show wrong numbers, and `max-running` allows too many or too few",
        "restore a backup, or `gristmill store move` into a new file";
    CountMalformed "count-malformed":
        "a count makes no sense",
        "metrics of the topic are wrong or fail",
        "remove the field by hand";
    PauseMisnoted "pause-misnoted":
        "it is noted who paused a topic that is not paused, or the note cannot be read",
        "the topic may name the wrong actor for its next pause",
        "pause and resume the topic";
    ScheduleUnreadable "schedule-unreadable":
        "the record of a schedule cannot be read",
        "it does not fire",
        "remove the schedule and add it again";
    ScheduleNotDue "schedule-not-due":
        "when a schedule fires next is not noted as its record says",
        "it does not fire, or at another time",
        "pause and resume the schedule";
    BillMalformed "bill-malformed":
        "a line of a bill makes no sense",
        "the bill of that day is wrong or cannot be shown",
        "remove the field by hand; the journal has every attempt";
    KeyRateMalformed "key-rate-malformed":
        "what is noted of the rate of a key makes no sense",
        "jobs of the key start earlier or later than its rate asks, and the note may stay for ever",
        "remove the entry by hand";
    HeldBackMarkWrong "held-back-mark-wrong":
        "a running job is marked as held back by the rate of its key",
        "other jobs of the key wait behind it for longer than the rate asks",
        "nothing: the mark goes with the job";
    FollowUpStuck "follow-up-stuck":
        "a follow-up job has been on its way to another partition for an hour, or cannot be read",
        "it does not run",
        "start a runner of the tenant; if the job cannot be read, update, or remove the entry by hand";
    StateUnreadable "state-unreadable":
        "the state of a key cannot be read, or its topic is none",
        "jobs of the key find no state, and begin anew",
        "delete the state";
    NoExpiry "no-expiry":
        "a result or a note that is kept for a time has no end",
        "it takes space for ever",
        "remove the key, or give it an expiry";
    WrongType "wrong-type":
        "a key is of another type than Gristmill gives it",
        "scripts that use it fail; the partition's other keys were not looked at",
        "remove the key, or rename it and look at what is in it";
    UnknownKey "unknown-key":
        "a key with our prefix that Gristmill does not know",
        "another program or a later version wrote it",
        "give each program a prefix of its own";
}

impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What must not be.
    pub check: Check,
    /// Whose it is. `None` if that is not known.
    pub tenant: Option<String>,
    /// The topic.
    pub topic: Option<String>,
    /// The id of the job.
    pub job: Option<String>,
    /// Where it is: a key of Redis or a table, of which the field, member or row may follow.
    pub place: String,
    /// What was found there.
    pub detail: String,
}

impl Finding {
    /// A finding at this place, of which no more is known.
    pub(crate) fn at(check: Check, place: impl Into<String>, detail: impl Into<String>) -> Self {
        let (place, detail) = (place.into(), detail.into());
        Self { check, tenant: None, topic: None, job: None, place, detail }
    }

    pub(crate) fn of(self, tenant: &Name, topic: Option<&str>, job: Option<&str>) -> Self {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Self { tenant: Some(tenant.to_string()), topic: own(topic), job: own(job), ..self }
    }
}

impl fmt::Display for Finding {
    /// The thing and what is wrong with it, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.check.name())?;
        let named = [("tenant", &self.tenant), ("topic", &self.topic), ("job", &self.job)];
        for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            write!(f, " {name} {value},")?;
        }
        write!(f, " {}: {}", self.place, self.detail)
    }
}

/// What was looked at, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FsckReport {
    /// How many things were looked at, by what they are.
    pub looked_at: BTreeMap<&'static str, u64>,
    /// What was found; of each check, at most a hundred.
    pub findings: Vec<Finding>,
    /// What was not looked at, and why.
    pub skipped: Vec<String>,
    /// How many findings of each check are in `findings`, and how many more there are.
    found: BTreeMap<&'static str, u64>,
}

impl FsckReport {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many findings are counted and not named.
    pub fn unnamed(&self) -> u64 {
        self.found.values().sum::<u64>() - self.findings.len() as u64
    }

    /// How many findings of a check there are, those among them that are not named.
    pub fn count_of(&self, check: Check) -> u64 {
        self.found.get(check.name()).copied().unwrap_or_default()
    }

    pub(crate) fn look(&mut self, at: &'static str, count: usize) {
        *self.looked_at.entry(at).or_default() += count as u64;
    }

    pub(crate) fn skip(&mut self, what: String) {
        self.skipped.push(what);
    }

    pub(crate) fn found(&mut self, finding: Finding) {
        let found = self.found.entry(finding.check.name()).or_default();
        *found += 1;
        if *found <= NAMED {
            self.findings.push(finding);
        }
    }

    /// Adds what was looked at and found in another store.
    pub fn add(&mut self, other: Self) {
        for (what, count) in other.looked_at {
            *self.looked_at.entry(what).or_default() += count;
        }
        let mut found = other.found;
        for finding in other.findings {
            found.entry(finding.check.name()).and_modify(|count| *count -= 1);
            self.found(finding);
        }
        for (check, unnamed) in found {
            *self.found.entry(check).or_default() += unnamed;
        }
        self.skipped.extend(other.skipped);
    }
}

/// What is wrong with a schedule, given its record and when it is noted to fire next.
pub(crate) fn schedule_problem(record: &str, due: Option<Timestamp>) -> Option<(Check, String)> {
    let record: Record = match serde_json::from_str(record) {
        Ok(record) => record,
        Err(error) => return Some((Check::ScheduleUnreadable, error.to_string())),
    };
    let shown = |at: Option<Timestamp>| at.map_or_else(|| "never".into(), |at| format!("{} ms", at.as_millis()));
    let awaited = record.awaited();
    (awaited != due).then(|| {
        (Check::ScheduleNotDue, format!("its record says {}, and it is noted for {}", shown(awaited), shown(due)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_check() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/fsck.md"));
        for check in Check::ALL {
            let row = format!("| `{}` | {} | {} | {} |", check.name(), check.wrong(), check.means(), check.remedy());
            assert!(page.contains(&row), "docs/guides/fsck.md lacks:\n{row}");
        }
    }

    #[test]
    fn findings_are_named_up_to_a_limit_also_when_reports_are_joined() {
        let mut all = FsckReport::default();
        for _ in 0..3 {
            let mut part = FsckReport::default();
            (0..70).for_each(|_| part.found(Finding::at(Check::UnknownKey, "a", "b")));
            part.found(Finding::at(Check::NoExpiry, "a", "b"));
            all.add(part);
        }
        assert_eq!((all.findings.len(), all.unnamed()), (103, 110));
        assert_eq!((all.count_of(Check::UnknownKey), all.count_of(Check::WrongType)), (210, 0));
    }
}
