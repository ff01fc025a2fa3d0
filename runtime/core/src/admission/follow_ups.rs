//! The follow-ups of one attempt, and their rules: the same for components, native handlers and pull workers.

use std::collections::{HashMap, HashSet};

use super::{Refused, Targets};
use crate::job::{JobId, JobOptions, JobSpec, Name, NewJob, NoLink, PREDECESSORS, TopicId};
use crate::topic::Grants;

/// Bytes of all follow-ups of one attempt, headers included: they wait in the host's memory and go to the store in one piece.
/// The first follow-up is held to the rules of its topic only.
pub const FOLLOW_UPS_BYTES: u64 = 16 << 20;

/// Jobs that the follow-ups of one attempt name in `after`, together: the store looks for each of them in one step.
const FOLLOW_UPS_AFTER: usize = 10_000;

/// What the topic of an attempt says about its follow-ups.
#[derive(Debug, Clone, Copy)]
pub struct FollowUpRules<'a> {
    /// The tenant of the attempt: follow-ups stay in it.
    pub tenant: &'a Name,
    /// The topics that the attempt's topic may enqueue to.
    pub grants: &'a Grants,
    /// The rules of these topics.
    pub targets: &'a Targets,
    /// Follow-ups of one attempt, at most.
    pub count: u32,
    /// The job of the attempt, if its follow-ups may have links to no other jobs than it, those that it waited for, its batch, and each other.
    pub near: Option<&'a JobSpec>,
}

/// Why a follow-up is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum NoFollowUp {
    /// The topic is of another tenant, or not granted, whether it exists or not.
    #[error("the topic is not granted to enqueue to `{0}`")]
    Denied(TopicId),
    #[error("the tenant has no topic `{0}`; name it under `topics` in the manifest")]
    UnknownTopic(TopicId),
    #[error(transparent)]
    Refused(#[from] Refused),
    /// What it says about other jobs contradicts itself, or what an earlier follow-up of the attempt says. Only the store knows jobs outside of the
    /// attempt, and it refuses no follow-up because of them.
    #[error(transparent)]
    Links(#[from] NoLink),
    #[error(
        "a follow-up may not name job {0}: it names the attempt's own job, those that this waited for, its batch, and earlier follow-ups"
    )]
    Foreign(JobId),
    #[error("an attempt at the topic enqueues at most {0} jobs: see its `follow-ups`")]
    TooMany(u32),
    #[error("the follow-ups of an attempt have at most {FOLLOW_UPS_BYTES} bytes together")]
    TooLarge,
    #[error(
        "the follow-ups of an attempt wait for at most {FOLLOW_UPS_AFTER} jobs together: put jobs into a batch, and wait for that"
    )]
    TooManyLinks,
    /// The attempt has ended, and a task that its function left behind enqueues.
    #[error("the attempt has ended: enqueue before its function returns")]
    Ended,
}

/// The follow-ups of one attempt.
#[derive(Debug, Default)]
pub struct FollowUps {
    jobs: Vec<NewJob>,
    bytes: u64,
    /// How many jobs they name in `after`.
    after: usize,
    /// Where the first `found` jobs are: filled when a job with links needs it.
    places: HashMap<JobId, usize>,
    found: usize,
    /// The jobs outside of them that they may name, once that was asked.
    near: Option<HashSet<JobId>>,
}

impl FollowUps {
    /// Admits a follow-up by the rules of its topic, and keeps it.
    ///
    /// # Errors
    /// The first rule that the job breaks. Nothing has changed then.
    pub fn add(&mut self, job: NewJob, of: &FollowUpRules<'_>) -> Result<(), NoFollowUp> {
        let TopicId { tenant, topic } = &job.spec.topic;
        let granted = of.grants.enqueue.as_ref().is_none_or(|granted| granted.contains(topic));
        if tenant != of.tenant || !granted {
            return Err(NoFollowUp::Denied(job.spec.topic));
        }
        let Some(rules) = of.targets.get(topic) else { return Err(NoFollowUp::UnknownTopic(job.spec.topic)) };
        let job = rules.admit(job)?;
        if self.jobs.len() as u64 >= u64::from(of.count) {
            return Err(NoFollowUp::TooMany(of.count));
        }
        let bytes = self.bytes + job.spec.body.data.len() as u64 + job.spec.header_bytes();
        if !self.jobs.is_empty() && bytes > FOLLOW_UPS_BYTES {
            return Err(NoFollowUp::TooLarge);
        }
        let after = self.after + job.spec.options.after.len();
        if after > FOLLOW_UPS_AFTER {
            return Err(NoFollowUp::TooManyLinks);
        }
        if job.spec.options.is_linked() {
            self.check_links(&job.spec)?;
            self.check_near(&job.spec.options, of.near)?;
        }
        (self.bytes, self.after) = (bytes, after);
        self.jobs.push(job);
        Ok(())
    }

    /// Refuses links that could only lead to a job that waits for no other, or that is dead before it runs. The store has the same rules for what is pushed.
    fn check_links(&mut self, JobSpec { id, options, .. }: &JobSpec) -> Result<(), NoLink> {
        for (place, job) in self.jobs.iter().enumerate().skip(self.found) {
            self.places.insert(job.spec.id.clone(), place);
        }
        self.found = self.jobs.len();
        if options.named().any(|named| named == id) {
            return Err(NoLink::Unknown(id.clone()));
        }
        let Some(batch) = &options.batch else { return Ok(()) };
        let holder = self.links_of(batch);
        if holder.is_some_and(|holder| !holder.waits()) {
            return Err(NoLink::NotOpen(batch.clone()));
        }
        let beside = |job: &JobOptions, id| {
            job.waits() && job.batch.as_ref() != Some(batch) && !holder.is_some_and(|holder| holder.after.contains(id))
        };
        match options.after.iter().find(|id| *id == batch || self.links_of(id).is_some_and(|job| beside(job, id))) {
            Some(tangled) => Err(NoLink::Tangled(tangled.clone())),
            None => Ok(()),
        }
    }

    /// Refuses links to jobs that are no business of the attempt's.
    fn check_near(&mut self, options: &JobOptions, own: Option<&JobSpec>) -> Result<(), NoFollowUp> {
        let Some(own) = own else { return Ok(()) };
        let near = self.near.get_or_insert_with(|| near(own));
        let foreign = options.named().find(|id| !near.contains(*id) && !self.places.contains_key(*id));
        foreign.map_or(Ok(()), |id| Err(NoFollowUp::Foreign(id.clone())))
    }

    /// The links of an earlier follow-up; `None` of a job that is none.
    fn links_of(&self, id: &JobId) -> Option<&JobOptions> {
        Some(&self.jobs.get(*self.places.get(id)?)?.spec.options)
    }

    /// Whether the attempt enqueued nothing.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> Vec<NewJob> {
        std::mem::take(self).jobs
    }
}

/// A job, its batch, and the jobs that it waited for: those that it named, and those in the metadata of its handler.
fn near(own: &JobSpec) -> HashSet<JobId> {
    #[derive(serde::Deserialize)]
    struct Predecessor {
        id: JobId,
    }
    let listed = own.metadata.iter().find(|(name, _)| name == PREDECESSORS);
    let listed = listed.and_then(|(_, text)| serde_json::from_str::<Vec<Predecessor>>(text).ok()).unwrap_or_default();
    let named = own.options.named().cloned().chain(std::iter::once(own.id.clone()));
    named.chain(listed.into_iter().map(|predecessor| predecessor.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{BODY_BYTES, Rules};
    use crate::job::{AFTER, Due, JobOptions, Payload};

    fn add(follow_ups: &mut FollowUps, topic: &str, bytes: u64, grants: &Grants) -> Result<(), NoFollowUp> {
        let body = Payload { data: vec![7; bytes as usize], content_type: None };
        add_job(follow_ups, JobSpec::new(topic.parse().unwrap(), body), 3, grants)
    }

    fn add_job(follow_ups: &mut FollowUps, spec: JobSpec, count: u32, grants: &Grants) -> Result<(), NoFollowUp> {
        let targets =
            Targets::from([("mail".parse().unwrap(), Rules { payload_bytes: BODY_BYTES, ..Rules::default() })]);
        let tenant = "acme".parse().unwrap();
        let job = NewJob { spec, due: Due::Now };
        follow_ups.add(job, &FollowUpRules { tenant: &tenant, grants, targets: &targets, count, near: None })
    }

    /// What a job names in `after`, its batch or nothing, and whether it is open.
    type LinkRequest<'a> = (&'a [&'a str], &'a str, bool);

    fn link(follow_ups: &mut FollowUps, id: &str, (after, batch, open): LinkRequest<'_>) -> Result<(), NoFollowUp> {
        let after = after.iter().map(|id| id.parse().unwrap()).collect();
        let options = JobOptions { after, batch: batch.parse().ok(), open, ..JobOptions::default() };
        let spec = JobSpec::new("acme/mail".parse().unwrap(), Payload::default());
        add_job(follow_ups, JobSpec { id: id.parse().unwrap(), options, ..spec }, 1000, &Grants::default())
    }

    #[test]
    fn a_target_that_is_not_granted_is_denied_whether_or_not_it_exists() {
        let (mut follow_ups, all) = (FollowUps::default(), Grants::default());
        let some = Grants { enqueue: Some(vec!["other".parse().unwrap()]), ..Grants::default() };
        let mut add = |topic: &str, grants| add(&mut follow_ups, topic, 1, grants);
        let named = |topic: &str| topic.parse().unwrap();
        assert_eq!(add("acme/mail", &all), Ok(()));
        assert_eq!(add("acme/other", &all), Err(NoFollowUp::UnknownTopic(named("acme/other"))));
        assert_eq!(add("acme/mail", &some), Err(NoFollowUp::Denied(named("acme/mail"))));
        assert_eq!(add("acme/other", &some), Err(NoFollowUp::UnknownTopic(named("acme/other"))));
        assert_eq!(add("beta/mail", &all), Err(NoFollowUp::Denied(named("beta/mail"))));
    }

    #[test]
    fn follow_ups_are_bounded_in_number_and_in_bytes() {
        let all = Grants::default();
        let sizes = |sizes: [u64; 4]| {
            let mut follow_ups = FollowUps::default();
            sizes.map(|bytes| add(&mut follow_ups, "acme/mail", bytes, &all))
        };
        let half = FOLLOW_UPS_BYTES / 2;
        assert_eq!(sizes([1, 1, 1, 1]), [Ok(()), Ok(()), Ok(()), Err(NoFollowUp::TooMany(3))]);
        assert_eq!(sizes([half, half + 1, half, 0]), [Ok(()), Err(NoFollowUp::TooLarge), Ok(()), Ok(())]);
        assert_eq!(sizes([FOLLOW_UPS_BYTES + 1, 0, 0, 0]).map(|added| added.is_ok()), [true, false, false, false]);
    }
    #[test]
    fn links_that_contradict_those_of_earlier_follow_ups_are_refused() {
        let mut all = FollowUps::default();
        let known: [(&str, LinkRequest<'_>); 8] = [
            ("plain", (&[], "", false)),
            ("batch", (&[], "", true)),
            ("gather", (&["running", "plain"], "", false)),
            ("member", (&["plain", "stored"], "batch", false)),
            ("second", (&["member"], "batch", false)),
            ("third", (&["second"], "batch", true)),
            ("inner", (&[], "third", false)),
            ("elsewhere", (&["running"], "stored", false)),
        ];
        for (id, links) in known {
            assert_eq!(link(&mut all, id, links), Ok(()), "{id}");
        }
        let no = |problem: fn(JobId) -> NoLink, id: &str| Err(NoFollowUp::Links(problem(id.parse().unwrap())));
        let requests: [(LinkRequest<'_>, _); 9] = [
            ((&["self"], "", false), no(NoLink::Unknown, "self")),
            ((&[], "self", true), no(NoLink::Unknown, "self")),
            ((&[], "plain", false), no(NoLink::NotOpen, "plain")),
            ((&["batch"], "batch", false), no(NoLink::Tangled, "batch")),
            ((&["plain", "gather"], "batch", false), no(NoLink::Tangled, "gather")),
            ((&["elsewhere"], "batch", false), no(NoLink::Tangled, "elsewhere")),
            ((&["batch"], "gather", false), no(NoLink::Tangled, "batch")),
            ((&["plain"], "member", false), Ok(())),
            ((&["plain", "stored"], "gather", false), Ok(())),
        ];
        for (links, expected) in requests {
            assert_eq!(link(&mut all, "self", links), expected, "{links:?}");
        }
        assert_eq!(all.jobs.len(), known.len() + 2, "what is refused is not kept");
    }

    #[test]
    fn the_jobs_that_follow_ups_wait_for_are_bounded_together() {
        let mut all = FollowUps::default();
        let named = vec!["x"; AFTER];
        for _ in 0..FOLLOW_UPS_AFTER / AFTER {
            assert_eq!(link(&mut all, "a", (&named, "", false)), Ok(()));
        }
        assert_eq!(link(&mut all, "a", (&["x"], "", false)), Err(NoFollowUp::TooManyLinks));
        assert_eq!(link(&mut all, "a", (&[], "", false)), Ok(()));
    }

    #[test]
    fn follow_ups_of_a_component_name_only_jobs_that_it_has_to_do_with() {
        let id = |id: &str| -> JobId { id.parse().unwrap() };
        let mut own = JobSpec::new("acme/mail".parse().unwrap(), Payload::default());
        (own.id, own.options.after, own.options.batch) = (id("own"), vec![id("before")], Some(id("batch")));
        own.metadata = vec![(PREDECESSORS.into(), r#"[{"id":"member","ended":"dead"}]"#.into())];
        let (targets, tenant) = (Targets::from([("mail".parse().unwrap(), Rules::default())]), "acme".parse().unwrap());
        let grants = Grants::default();
        let rules = FollowUpRules { tenant: &tenant, grants: &grants, targets: &targets, count: 100, near: Some(&own) };
        let mut all = FollowUps::default();
        let mut add = |new: &str, after: &str, batch: Option<&str>| {
            let spec = JobSpec::new("acme/mail".parse().unwrap(), Payload::default());
            let options = JobOptions { after: vec![id(after)], batch: batch.map(id), ..JobOptions::default() };
            all.add(NewJob { spec: JobSpec { id: id(new), options, ..spec }, due: Due::Now }, &rules)
        };
        for near in ["own", "before", "member"] {
            assert_eq!(add(&format!("after-{near}"), near, None), Ok(()));
        }
        assert_eq!(add("gather", "own", Some("batch")), Ok(()));
        assert_eq!(add("then", "after-own", None), Ok(()), "an earlier follow-up");
        assert_eq!(add("last", "before", Some("gather")), Ok(()), "an earlier follow-up");
        assert_eq!(add("x", "order-17", None), Err(NoFollowUp::Foreign(id("order-17"))));
        assert_eq!(add("x", "own", Some("theirs")), Err(NoFollowUp::Foreign(id("theirs"))));
    }
}
