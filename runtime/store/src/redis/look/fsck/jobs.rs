//! Jobs: whether each is in one place, with all that belongs there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};

use redis::{RedisResult, pipe};

use super::{Bytes, DOING, PartitionCheck, Scan, shown};
use crate::redis::envelope;
use crate::redis::holder::{Holder, claim_fields, read_holder};
use crate::redis::script::reply::Reply;
use crate::redis::script::{Call, script};
use crate::{Check, StoreError};
use gristmill_core::job::{JobId, Name, Priority, WorkerId};

/// How many jobs one call of a script looks at.
const JOBS: usize = 100;

/// For how many ready jobs fsck remembers the List that they are in. If there are more, it looks at the jobs in several rounds.
const READY_AT_ONCE: u64 = 2_000_000;

/// How often a job is looked at again that is claimed meanwhile. A job that goes on changing its place is not stuck.
const TRIES: usize = 5;

/// More than this counts as large.
const LARGE: usize = 4096;

/// What its producer brought of a job. Only `change` changes it.
struct CheckedJob {
    id: Bytes,
    /// When it was enqueued, as it is stored: another job with the same id has another time.
    stamp: Bytes,
    topic: Name,
    bytes: usize,
    priority: Priority,
    /// That it holds until it is over.
    unique: Option<String>,
    problem: Option<String>,
}

impl CheckedJob {
    /// Whether it is the same job, and has not been changed.
    fn is_as(&self, before: &Self) -> bool {
        (&self.stamp, self.bytes, self.priority) == (&before.stamp, before.bytes, before.priority)
    }
}

/// What is known of a job at one moment.
#[derive(Debug, Default)]
struct Facts {
    is_stored: bool,
    claim: String,
    /// The ready Lists that have it.
    lines: Vec<String>,
    is_delayed: bool,
    is_dead: bool,
    keyed: String,
    is_behind: bool,
    holds_slot: bool,
    /// `None`: it was claimed while it was looked at.
    is_listed: Option<bool>,
    has_lease: bool,
    priority: String,
    is_large: bool,
    unique_holder: String,
    is_topic_listed: bool,
}

impl Facts {
    fn holder(&self) -> &str {
        claim_fields(&self.claim).2
    }

    fn runs(&self) -> bool {
        !self.holder().is_empty()
    }

    /// Where it is.
    fn places(&self) -> Vec<String> {
        let ready = self.lines.iter().map(|line| format!("ready ({line} priority)"));
        let others = [
            (self.is_delayed, "delayed"),
            (self.is_behind, "waiting for its key"),
            (self.runs(), "running"),
            (self.is_dead, "dead"),
        ];
        ready.chain(others.into_iter().filter(|(is, _)| *is).map(|(_, place)| place.to_owned())).collect()
    }

    fn read(reply: &mut Reply) -> RedisResult<Self> {
        let yes = |reply: &mut Reply| Ok::<_, redis::RedisError>(reply.number()? == 1);
        Ok(Self {
            is_stored: yes(reply)?,
            claim: shown(&reply.bytes()?),
            lines: reply.text()?.split_whitespace().map(str::to_owned).collect(),
            is_delayed: yes(reply)?,
            is_dead: yes(reply)?,
            keyed: shown(&reply.bytes()?),
            is_behind: yes(reply)?,
            holds_slot: yes(reply)?,
            is_listed: match reply.number()? {
                2 => None,
                listed => Some(listed == 1),
            },
            has_lease: yes(reply)?,
            priority: reply.text()?,
            is_large: yes(reply)?,
            unique_holder: shown(&reply.bytes()?),
            is_topic_listed: false,
        })
    }
}

type JobCheck = fn(&CheckedJob, &Facts) -> Option<(Check, String)>;

/// Each says what is wrong with a job, if that is.
const CHECKS: [JobCheck; 12] = [
    |_, facts| {
        let is_nowhere = facts.places().is_empty();
        is_nowhere.then(|| (Check::JobInNoPlace, format!("its claims are `{}`", facts.claim)))
    },
    |_, facts| {
        let places = facts.places();
        (places.len() > 1).then(|| (Check::JobInTwoPlaces, format!("it is {}", places.join(" and "))))
    },
    |job, facts| {
        let problem = job.problem.as_ref().filter(|_| !facts.is_dead)?;
        Some((Check::JobUnreadable, problem.clone()))
    },
    |job, facts| {
        let own = job.priority.as_str();
        let line = facts.lines.iter().chain([&facts.priority]).find(|line| *line != own)?;
        job.problem
            .is_none()
            .then(|| (Check::JobInWrongLine, format!("its priority is {own}, and it is noted for {line}")))
    },
    |_, facts| {
        let needs_slot = !facts.keyed.is_empty() && (facts.runs() || !facts.lines.is_empty());
        (needs_slot && !facts.holds_slot).then(|| (Check::JobMissesKeySlot, format!("`keyed` says `{}`", facts.keyed)))
    },
    |_, facts| {
        let is_marked = facts.runs() && facts.keyed.starts_with("00 ");
        is_marked.then(|| (Check::HeldBackMarkWrong, format!("`keyed` says `{}`", facts.keyed)))
    },
    |_, facts| {
        let (deliveries, attempts, _) = claim_fields(&facts.claim);
        let is_good =
            facts.claim.is_empty() || facts.claim.splitn(3, ':').count() == 3 && u64::from(attempts) <= deliveries;
        let is_good = is_good && (!facts.runs() || deliveries > 0 && read_holder(facts.holder()).is_some());
        (!is_good).then(|| (Check::ClaimMalformed, format!("`{}`", facts.claim)))
    },
    |_, facts| {
        let is_lost = facts.runs() && facts.is_listed == Some(false);
        is_lost.then(|| (Check::JobNotInClaim, format!("it is run by `{}`", facts.holder())))
    },
    |_, facts| {
        let has_none = facts.runs() && !facts.has_lease;
        has_none.then(|| (Check::JobWithoutLease, format!("it is run by `{}`", facts.holder())))
    },
    |job, facts| {
        let is_wrong = facts.is_large != (job.bytes > LARGE);
        is_wrong.then(|| (Check::LargeMismarked, format!("it has {} bytes", job.bytes)))
    },
    |job, facts| {
        let value = job.unique.as_ref().filter(|_| !facts.is_dead && facts.unique_holder.is_empty())?;
        Some((Check::UniqueNotHeld, format!("its value is `{value}`")))
    },
    |job, facts| {
        (!facts.is_topic_listed).then(|| (Check::TopicNotListed, format!("`topics` does not have `{}`", job.topic)))
    },
];

/// In which ready Lists jobs were seen.
struct Ready {
    hashes: HashSet<u64>,
    hasher: RandomState,
    round: u64,
    rounds: u64,
}

impl Ready {
    fn is_of_round(&self, id: &[u8]) -> bool {
        self.hasher.hash_one(id) % self.rounds == self.round
    }

    fn add(&mut self, topic: &Name, line: Priority, id: &[u8]) {
        if self.is_of_round(id) {
            self.hashes.insert(self.hasher.hash_one((topic, line.as_str(), id)));
        }
    }

    fn lines_of(&self, topic: &Name, id: &[u8]) -> Vec<String> {
        let has = |line: &Priority| self.hashes.contains(&self.hasher.hash_one((topic, line.as_str(), id)));
        Priority::ALL.iter().filter(|line| has(line)).map(|line| line.as_str().to_owned()).collect()
    }
}

impl PartitionCheck<'_> {
    /// Looks through the ready Lists, and then at every job.
    pub(super) async fn jobs(&mut self, topics: &BTreeSet<Name>, raw: &BTreeSet<String>) -> Result<(), StoreError> {
        let mut ready = 0;
        for topics in topics.iter().collect::<Vec<_>>().chunks(JOBS) {
            let mut ask = pipe();
            for topic in topics {
                for line in Priority::ALL {
                    ask.cmd("LLEN").arg(self.keys.ready(line, topic));
                }
            }
            ready += self.query::<Vec<u64>>(&ask).await?.into_iter().sum::<u64>();
        }
        let rounds = ready / READY_AT_ONCE + 1;
        for round in 0..rounds {
            let mut seen = Ready { hashes: HashSet::new(), hasher: RandomState::new(), round, rounds };
            for topic in topics {
                for line in Priority::ALL {
                    let is_first = round == 0;
                    let mut add = |id: &[u8]| seen.add(topic, line, id);
                    self.ready_list(topic, line, raw.contains(topic.as_str()), is_first, &mut add).await?;
                }
            }
            self.stored_jobs(&seen).await?;
        }
        Ok(())
    }

    async fn stored_jobs(&mut self, ready: &Ready) -> Result<(), StoreError> {
        let mut some_large = pipe();
        some_large.cmd("EXISTS").arg(self.keys.large());
        let (some_large,): (bool,) = self.query(&some_large).await?;
        let (scan, mut cursor) = (if some_large { Scan::LargeHash } else { Scan::Hash }, 0);
        loop {
            let (next, entries) = self.scan(scan, &self.keys.jobs(), cursor).await?;
            let mut by_topic: BTreeMap<Name, Vec<CheckedJob>> = BTreeMap::new();
            for (id, stored) in entries.into_iter().filter(|(id, _)| ready.is_of_round(id)) {
                if let Some(job) = self.read(id, &stored) {
                    by_topic.entry(job.topic.clone()).or_default().push(job);
                }
            }
            for (topic, jobs) in by_topic {
                for jobs in jobs.chunks(JOBS) {
                    self.report.look("jobs", jobs.len());
                    self.jobs_of_topic(&topic, jobs, ready).await?;
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// `None` if no topic can be made out.
    fn read(&mut self, id: Bytes, stored: &[u8]) -> Option<CheckedJob> {
        let topic = envelope::topic(self.tenant, stored).ok()?.topic;
        let known = shown(&id).parse::<JobId>().map_err(|error| error.to_string());
        let read = known.and_then(|id| envelope::read(self.tenant, id, stored).map_err(|error| error.to_string()));
        let (spec, problem) = match read {
            Ok(job) => (Some(job.spec), None),
            Err(problem) => (None, Some(problem)),
        };
        let unique = spec.as_ref().and_then(|spec| spec.options.unique.as_ref()?.held_until_done().map(str::to_owned));
        Some(CheckedJob {
            id,
            stamp: stored.iter().take(8).copied().collect(),
            topic,
            bytes: stored.len(),
            priority: spec.map_or(Priority::Normal, |spec| spec.options.priority),
            unique,
            problem,
        })
    }

    async fn jobs_of_topic(&mut self, topic: &Name, jobs: &[CheckedJob], ready: &Ready) -> Result<(), StoreError> {
        let all: Vec<&CheckedJob> = jobs.iter().collect();
        let mut facts = self.facts(topic, &all, "").await?;
        for (job, facts) in jobs.iter().zip(&mut facts) {
            facts.lines = ready.lines_of(topic, &job.id);
        }
        let is_suspicious = |(job, facts): &(&CheckedJob, &Facts)| {
            facts.is_stored && (facts.is_listed.is_none() || CHECKS.iter().any(|check| check(job, facts).is_some()))
        };
        let mut suspicious: Vec<&CheckedJob> =
            jobs.iter().zip(&facts).filter(is_suspicious).map(|(job, _)| job).collect();
        for _ in 0..TRIES {
            if suspicious.is_empty() {
                break;
            }
            suspicious = self.look_again(topic, suspicious, ready).await?;
        }
        Ok(())
    }

    /// Looks at jobs once more, at one moment. Returns those that were claimed while they were looked at.
    async fn look_again<'a>(
        &mut self,
        topic: &Name,
        jobs: Vec<&'a CheckedJob>,
        ready: &Ready,
    ) -> Result<Vec<&'a CheckedJob>, StoreError> {
        // Each look may walk through a List from end to end.
        let mut claimed = Vec::new();
        for job in jobs {
            let how = if ready.lines_of(topic, &job.id).len() > 1 { "all" } else { "own" };
            let facts = self.facts(topic, &[job], how).await?;
            let mut ask = pipe();
            ask.cmd("HGET").arg(self.keys.jobs()).arg(&job.id);
            let (now,): (Option<Bytes>,) = self.query(&ask).await?;
            let now = now.and_then(|now| self.read(job.id.clone(), &now));
            let is_same = now.is_some_and(|now| now.is_as(job));
            let Some(facts) = facts.first().filter(|facts| facts.is_stored && is_same) else { continue };
            if facts.is_listed.is_none() && read_holder(facts.holder()).is_some() {
                claimed.push(job);
                continue;
            }
            for (check, detail) in CHECKS.iter().filter_map(|check| check(job, facts)) {
                // Where it should be is not known either.
                if job.problem.is_some() && check != Check::JobUnreadable {
                    continue;
                }
                let place = self.keys.jobs();
                self.found(check, (Some(topic.as_str()), Some(&shown(&job.id))), place, detail);
            }
        }
        Ok(claimed)
    }

    async fn facts(&self, topic: &Name, jobs: &[&CheckedJob], how: &str) -> Result<Vec<Facts>, StoreError> {
        let mut ask = pipe();
        ask.cmd("HMGET").arg(self.keys.claims()).arg(jobs.iter().map(|job| &job.id).collect::<Vec<_>>());
        let (claims,): (Vec<Option<Bytes>>,) = self.query(&ask).await?;
        let holders: BTreeSet<String> =
            claims.into_iter().flatten().map(|claim| claim_fields(&shown(&claim)).2.to_owned()).collect();
        let held = |text: &String| {
            let (worker, batch) = read_holder(text)?;
            let worker = WorkerId::new(worker);
            Some((text.clone(), self.keys.processing(Holder { worker: &worker, batch })))
        };
        let (holders, lists): (Vec<String>, Vec<String>) = holders.iter().filter_map(held).unzip();
        let mut names = self.keys.with_rows([], [topic]);
        names.extend([self.keys.claims(), self.keys.leases(), self.keys.extended()]);
        names.extend(lists);
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "look/fsck/fsck_jobs.lua"), &names);
        call.arg(topic.as_str()).arg(how).arg(holders.len()).arg(holders);
        for job in jobs {
            call.arg(&job.id).arg(job.unique.as_deref().unwrap_or_default());
        }
        let mut reply = self.partition.reply(DOING, call).await?;
        let mut read = || -> RedisResult<Vec<Facts>> {
            let mut facts = jobs.iter().map(|_| Facts::read(&mut reply)).collect::<RedisResult<Vec<_>>>()?;
            let is_topic_listed = reply.number()? == 1;
            facts.iter_mut().for_each(|facts| facts.is_topic_listed = is_topic_listed);
            Ok(facts)
        };
        read().map_err(self.partition.misread(DOING))
    }
}
