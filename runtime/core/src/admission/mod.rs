//! Admission: the rules that every new job keeps, whichever way it comes in. Pure: no I/O and no clock.

mod follow_ups;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::job::{AFTER, Claim, Due, JobOptions, JobSpec, Name, NewJob, TopicId, reserved};
use crate::outcome::{LimitName, Outcome};
use crate::time::{Timestamp, millis};
use crate::topic::{Limits, Topic};
use crate::units::{about_duration, hint};

pub use follow_ups::{FOLLOW_UPS_BYTES, FollowUpRules, FollowUps, NoFollowUp};

/// Bytes of a body, at most: no `payload-limit` is larger.
pub const BODY_BYTES: u64 = 64 << 20;

/// Bytes of a job's metadata, key, unique value and media type together.
pub const HEADER_BYTES: u64 = 64 << 10;

/// Tries in all that a job may ask for.
pub const ATTEMPTS: RangeInclusive<u32> = 1..=1000;

/// The longest delay, time to live, unique window and keeping of a result: ten years.
pub const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The earliest one that a job may name, September 2001: an earlier one is one in seconds.
pub const EARLIEST: Timestamp = Timestamp::from_millis(1_000_000_000_000);

/// The latest point in time at which a job may become due: the end of the year 9999.
pub const LATEST: Timestamp = Timestamp::from_millis(253_402_300_799_999);

/// How long a job's result may be kept, and a job may hold a unique value, unless its tenant's limits say otherwise: 90 days.
pub const USUAL_SPAN: Duration = Duration::from_secs(90 * 24 * 3600);

/// Milliseconds for the eye.
fn about(ms: &u64) -> String {
    about_duration(Duration::from_millis(*ms))
}

/// What a tenant's limits say about new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantRules {
    /// Bytes of a body; `None` if only the topic's bound holds.
    pub payload_bytes: Option<u64>,
    /// The longest keeping of its result that a job may ask for.
    pub keep_result: Duration,
    /// The longest unique window that a job may ask for.
    pub unique_window: Duration,
}

/// What a topic and its tenant say about new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Bytes of a body that the topic takes.
    pub payload_bytes: u64,
    /// What the tenant's limits say.
    pub tenant: TenantRules,
    /// The time to live of a job that brings none.
    pub ttl: Option<Duration>,
}

/// The rules of the topics that a handler or a pull worker may enqueue to: those of its tenant.
pub type Targets = HashMap<Name, Rules>;

/// Why a job is not admitted: names the field, the bound, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Refused {
    #[error("the body has {bytes} bytes, but topic `{topic}` takes {allowed}: see its `payload-limit`")]
    Body { topic: TopicId, bytes: u64, allowed: u64 },
    #[error("the body has {bytes} bytes, but tenant `{tenant}` may bring {allowed}: see `payload` in its `limits`")]
    BodyOfTenant { tenant: Name, bytes: u64, allowed: u64 },
    #[error(
        "metadata, key, unique value and media type have {bytes} bytes; at most {HEADER_BYTES} are taken: \
         put what is large into the body"
    )]
    Headers { bytes: u64 },
    #[error("the job asks for {asked} attempts: they may be {} to {}", ATTEMPTS.start(), ATTEMPTS.end())]
    Attempts { asked: u32 },
    #[error("the {field} of {ms} ms ({}) is longer than ten years: is it in another unit?", about(ms))]
    Span { field: &'static str, ms: u64 },
    #[error(
        "the {field} of {ms} ms ({}) is longer than jobs of tenant `{tenant}` may ask for, {allowed} ms ({}): ask for less, or see \
         `{limit}` in its `limits`",
        about(ms),
        about(allowed)
    )]
    SpanOfTenant { field: &'static str, tenant: Name, ms: u64, allowed: u64, limit: &'static str },
    #[error("the job would be due at {ms} ms since 1970, which is after the year 9999: is it in another unit?")]
    Due { ms: u64 },
    #[error(
        "the job would be due at {ms} ms since 1970, which is before September 2001: is it in seconds? It is to be in milliseconds"
    )]
    Seconds { ms: u64 },
    #[error("the {field} is empty (is a variable unset?): write one, or leave it out")]
    Empty { field: &'static str },
    #[error("the media type has a control character, such as the end of a line: leave it out")]
    MediaType,
    #[error("the time to live is 0 ms, so the job would never run: name at least 1 ms, or leave it out")]
    Ttl,
    #[error("the job names {names} jobs in `after`, but it may name {AFTER}: put them into a batch, and wait for that")]
    After { names: usize },
    #[error(
        "the metadata `{name}` is reserved: it says what became of the jobs that a job waited for: take another name"
    )]
    Reserved { name: &'static str },
    #[error(transparent)]
    UnknownTopic(#[from] UnknownTopic),
}

/// The topic of a new job has no section in the manifest, no handler and no pull worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no topic `{topic}`{}: {}", hint(near.as_ref()), remedy(topic, *is_of_unknown_tenant, used_by.as_ref()))]
pub struct UnknownTopic {
    /// The topic that is unknown.
    pub topic: TopicId,
    /// The manifest has no section of its tenant.
    pub is_of_unknown_tenant: bool,
    /// The topic that was perhaps meant.
    pub near: Option<String>,
    /// The topic whose section names the file that would make this one.
    pub used_by: Option<TopicId>,
}

fn remedy(topic: &TopicId, is_of_unknown_tenant: bool, used_by: Option<&TopicId>) -> String {
    match used_by {
        _ if is_of_unknown_tenant => {
            let TopicId { tenant, topic } = topic;
            format!(
                "the manifest names no tenant `{tenant}`, and its jobs wait until a section [tenants.{tenant}.topics.{topic}] makes it one"
            )
        }
        Some(used_by) => makes_none(&topic.topic, used_by),
        None => "its jobs wait until a section of the manifest or a handler makes it one".into(),
    }
}

/// Says that a component makes no topic of its name, because the section of another topic names it.
pub fn makes_none(component: &Name, used_by: &TopicId) -> String {
    format!(
        "the section of the topic `{used_by}` names {component}.wasm, so that the file makes no topic `{component}`: push to `{used_by}`, or \
         add a section"
    )
}

impl Refused {
    /// The bound that was exceeded, in bytes, tries or milliseconds; zero where there is none.
    pub fn allowed(&self) -> u64 {
        match self {
            Self::Body { allowed, .. } | Self::BodyOfTenant { allowed, .. } | Self::SpanOfTenant { allowed, .. } => {
                *allowed
            }
            Self::Headers { .. } => HEADER_BYTES,
            Self::Attempts { .. } => u64::from(*ATTEMPTS.end()),
            Self::Span { .. } => millis(LONGEST),
            Self::Due { .. } => LATEST.as_millis(),
            Self::Seconds { .. } => EARLIEST.as_millis(),
            Self::Ttl | Self::Empty { .. } => 1,
            Self::After { .. } => AFTER as u64,
            Self::Reserved { .. } | Self::MediaType | Self::UnknownTopic(_) => 0,
        }
    }
}

impl Default for Rules {
    /// Those of a topic that says nothing.
    fn default() -> Self {
        Self { payload_bytes: Limits::default().payload_bytes, tenant: TenantRules::default(), ttl: None }
    }
}

impl Default for TenantRules {
    /// Those of a tenant without limits in the manifest.
    fn default() -> Self {
        Self { payload_bytes: None, keep_result: USUAL_SPAN, unique_window: USUAL_SPAN }
    }
}

impl TenantRules {
    /// The bounds that hold for every tenant.
    pub const ANY: Self = Self { payload_bytes: None, keep_result: LONGEST, unique_window: LONGEST };
}

impl Rules {
    /// The bounds that hold for every job, for a producer that does not know the topics.
    pub const ANY: Self = Self { payload_bytes: BODY_BYTES, tenant: TenantRules::ANY, ttl: None };

    /// The rules of `topic`, with those of its tenant.
    pub fn of(topic: &Topic, tenant: TenantRules) -> Self {
        Self { payload_bytes: topic.limits.payload_bytes, tenant, ttl: topic.ttl }
    }

    /// The job as it is stored: held to every rule, and with what the topic says where the job says nothing.
    ///
    /// # Errors
    /// The first rule that the job breaks.
    pub fn admit(&self, job: NewJob) -> Result<NewJob, Refused> {
        let NewJob { spec, due } = job;
        self.check_body(&spec.topic, spec.body.data.len() as u64)?;
        check_headers(&spec)?;
        if let Some(attempts) = spec.options.max_attempts.filter(|attempts| !ATTEMPTS.contains(attempts)) {
            return Err(Refused::Attempts { asked: attempts });
        }
        if spec.options.after.len() > AFTER {
            return Err(Refused::After { names: spec.options.after.len() });
        }
        check_span("time to live", spec.options.ttl)?;
        if spec.options.ttl.is_some_and(|ttl| ttl.is_zero()) {
            return Err(Refused::Ttl);
        }
        let window = spec.options.unique.as_ref().and_then(|unique| unique.window);
        check_span("keeping of the result", spec.options.keep_result)?;
        check_span("unique window", window)?;
        let TenantRules { keep_result, unique_window, .. } = self.tenant;
        check_tenant_span("keeping of the result", spec.options.keep_result, keep_result, "keep-result", &spec)?;
        check_tenant_span("unique window", window, unique_window, "unique-window", &spec)?;
        check_due(due)?;
        let options = JobOptions { ttl: spec.options.ttl.or(self.ttl), ..spec.options };
        Ok(NewJob { spec: JobSpec { options, ..spec }, due })
    }

    /// Whether a new job of `topic`, of which these are the rules, may have a body of this many bytes.
    ///
    /// # Errors
    /// [`Refused::Body`] or [`Refused::BodyOfTenant`].
    pub fn check_body(&self, topic: &TopicId, bytes: u64) -> Result<(), Refused> {
        if bytes > self.payload_bytes {
            return Err(Refused::Body { topic: topic.clone(), bytes, allowed: self.payload_bytes });
        }
        match self.tenant.payload_bytes {
            Some(allowed) if bytes > allowed => {
                Err(Refused::BodyOfTenant { tenant: topic.tenant.clone(), bytes, allowed })
            }
            _ => Ok(()),
        }
    }
}

/// Whether a job may become due then.
///
/// # Errors
/// [`Refused::Span`] or [`Refused::Due`]: it is too far in the future. [`Refused::Seconds`]: too far in the past.
pub fn check_due(due: Due) -> Result<(), Refused> {
    match due {
        Due::After(delay) => check_span("delay", Some(delay)),
        Due::At(at) if at > LATEST => Err(Refused::Due { ms: at.as_millis() }),
        Due::At(at) if at < EARLIEST => Err(Refused::Seconds { ms: at.as_millis() }),
        Due::Now | Due::At(_) => Ok(()),
    }
}

fn check_headers(spec: &JobSpec) -> Result<(), Refused> {
    if let Some(name) = spec.metadata.iter().find_map(|(name, _)| reserved(name)) {
        return Err(Refused::Reserved { name });
    }
    if spec.body.content_type.as_ref().is_some_and(|media| media.contains(|c: char| c.is_control() && c != '\t')) {
        return Err(Refused::MediaType);
    }
    let unique = spec.options.unique.as_ref().map(|unique| &unique.value);
    for (field, text) in [("key", spec.options.key.as_ref()), ("unique value", unique)] {
        if text.is_some_and(String::is_empty) {
            return Err(Refused::Empty { field });
        }
    }
    let bytes = spec.header_bytes();
    if bytes > HEADER_BYTES { Err(Refused::Headers { bytes }) } else { Ok(()) }
}

fn check_span(field: &'static str, span: Option<Duration>) -> Result<(), Refused> {
    match span {
        Some(span) if span > LONGEST => Err(Refused::Span { field, ms: millis(span) }),
        _ => Ok(()),
    }
}

fn check_tenant_span(
    field: &'static str,
    span: Option<Duration>,
    allowed: Duration,
    limit: &'static str,
    spec: &JobSpec,
) -> Result<(), Refused> {
    match span {
        Some(span) if span > allowed => {
            let tenant = spec.topic.tenant.clone();
            Err(Refused::SpanOfTenant { field, tenant, ms: millis(span), allowed: millis(allowed), limit })
        }
        _ => Ok(()),
    }
}

/// How a claimed job ends before an attempt begins: it is too late, or its body is larger than its topic takes. `None` if the
/// job may start.
///
/// Raw producers write into the store and pass no other entrance, so this is where the rules hold for their jobs: they cannot
/// bring a time to live, and the topic's counts from when they became due.
pub fn before_attempt(claim: &Claim, topic: Option<&Topic>) -> Option<Outcome> {
    let raw = topic.filter(|topic| topic.raw_producers && claim.job.spec.options.ttl.is_none());
    let raw_end = raw.and_then(|topic| topic.ttl).map(|ttl| claim.job.due_at.plus(ttl));
    if claim.job.expires_at().or(raw_end).is_some_and(|end| claim.claimed_at > end) {
        return Some(Outcome::Expired);
    }
    let allowed = topic?.limits.payload_bytes;
    let is_too_large = claim.job.spec.body.data.len() as u64 > allowed;
    is_too_large.then_some(Outcome::LimitExceeded { limit: LimitName::Payload, allowed })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::{Job, Lease, Payload, RESERVED, Unique, WorkerId};

    const RULES: Rules = Rules {
        payload_bytes: 10,
        tenant: TenantRules { payload_bytes: Some(8), ..TenantRules::ANY },
        ttl: Some(Duration::from_secs(60)),
    };

    fn job(change: impl FnOnce(&mut NewJob)) -> NewJob {
        let spec = JobSpec::new("acme/mail".parse().unwrap(), Payload::default());
        let mut job = NewJob { spec, due: Due::Now };
        change(&mut job);
        job
    }

    fn with_body(bytes: usize) -> NewJob {
        job(|job| job.spec.body.data = vec![7; bytes])
    }

    /// Each change at its bound, and one past it.
    type Edge = (fn(&mut NewJob, u64), u64);

    #[test]
    fn every_bound_holds_at_its_edge_and_not_one_past_it() {
        let edges: [Edge; 11] = [
            (|job, names| job.spec.options.after = vec![job.spec.id.clone(); names as usize], AFTER as u64),
            (|job, bytes| job.spec.options.key = Some("k".repeat(bytes as usize)), HEADER_BYTES),
            (|job, bytes| job.spec.body.content_type = Some("c".repeat(bytes as usize)), HEADER_BYTES),
            (|job, bytes| job.spec.metadata = vec![("n".into(), "v".repeat(bytes as usize - 1))], HEADER_BYTES),
            (|job, pairs| job.spec.metadata = vec![Default::default(); pairs as usize], HEADER_BYTES / 4),
            (|job, attempts| job.spec.options.max_attempts = Some(attempts as u32), 1000),
            (|job, ms| job.spec.options.ttl = Some(Duration::from_millis(ms)), millis(LONGEST)),
            (|job, ms| job.spec.options.keep_result = Some(Duration::from_millis(ms)), millis(LONGEST)),
            (|job, ms| job.due = Due::After(Duration::from_millis(ms)), millis(LONGEST)),
            (|job, ms| job.due = Due::At(Timestamp::from_millis(ms)), LATEST.as_millis()),
            (
                |job, ms| {
                    let window = Some(Duration::from_millis(ms));
                    job.spec.options.unique = Some(Unique { value: "u".into(), window });
                },
                millis(LONGEST),
            ),
        ];
        for (index, (change, bound)) in edges.into_iter().enumerate() {
            assert!(RULES.admit(job(|job| change(job, bound))).is_ok(), "edge {index}");
            assert!(RULES.admit(job(|job| change(job, bound + 1))).is_err(), "one past edge {index}");
        }
        let due = |ms| RULES.admit(job(|job| job.due = Due::At(Timestamp::from_millis(ms))));
        assert!(due(1_000_000_000_000).is_ok());
        for seconds in [0, 1_800_000_000, 999_999_999_999] {
            let refused = due(seconds).unwrap_err();
            assert!(refused.to_string().contains("is it in seconds?"), "{refused}");
        }
        assert!(RULES.admit(job(|job| job.spec.options.ttl = Some(Duration::from_millis(1)))).is_ok());
        assert_eq!(RULES.admit(job(|job| job.spec.options.ttl = Some(Duration::ZERO))), Err(Refused::Ttl));
        assert_eq!(
            RULES.admit(job(|job| job.spec.options.max_attempts = Some(0))).unwrap_err(),
            Refused::Attempts { asked: 0 }
        );
    }

    #[test]
    fn metadata_that_only_the_runner_gives_is_refused() {
        let admit = |name: &str| RULES.admit(job(|job| job.spec.metadata = vec![(name.into(), "[]".into())]));
        for name in RESERVED {
            // Each becomes the same variable of a program, or the same header.
            for spelling in [name.into(), name.to_uppercase(), name.replace('-', "_"), name.replace('-', ".")] {
                assert_eq!(admit(&spelling).unwrap_err(), Refused::Reserved { name }, "{spelling}");
            }
        }
        for name in ["predecessor", "predecessorstotal", "my-predecessors"] {
            assert!(admit(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_key_and_a_unique_value_are_not_empty() {
        let key = RULES.admit(job(|job| job.spec.options.key = Some(String::new()))).unwrap_err();
        let unique = Unique { value: String::new(), window: None };
        let unique = RULES.admit(job(|job| job.spec.options.unique = Some(unique))).unwrap_err();
        assert!(key.to_string().starts_with("the key is empty"), "{key}");
        assert!(unique.to_string().starts_with("the unique value is empty"), "{unique}");
    }

    #[test]
    fn a_media_type_has_no_control_characters() {
        let admit = |media: &str| RULES.admit(job(|job| job.spec.body.content_type = Some(media.into())));
        assert!(admit("text/plain; charset=\"utf-8\"").is_ok() && admit("").is_ok());
        for media in ["text/plain\r\nx-evil: 1", "text/plain\n", "a/b\0", "a/b\u{7f}", "a/b\u{85}"] {
            assert_eq!(admit(media).unwrap_err(), Refused::MediaType, "{media:?}");
        }
    }

    #[test]
    fn a_body_is_held_to_the_topic_and_to_the_tenant() {
        assert!(RULES.admit(with_body(8)).is_ok());
        let tenant = "acme".parse().unwrap();
        assert_eq!(RULES.admit(with_body(9)), Err(Refused::BodyOfTenant { tenant, bytes: 9, allowed: 8 }));
        let topic = "acme/mail".parse().unwrap();
        assert_eq!(RULES.admit(with_body(11)), Err(Refused::Body { topic, bytes: 11, allowed: 10 }));
    }

    #[test]
    fn results_and_unique_windows_are_held_to_the_tenant() {
        let (keep_result, unique_window) = (Duration::from_secs(5), Duration::from_secs(7));
        let rules = Rules { tenant: TenantRules { keep_result, unique_window, ..TenantRules::ANY }, ..RULES };
        let keeping = |ms| rules.admit(job(|job| job.spec.options.keep_result = Some(Duration::from_millis(ms))));
        let holding = |ms| {
            let unique = |window| Some(Unique { value: "u".into(), window });
            rules.admit(job(|job| job.spec.options.unique = unique(Some(Duration::from_millis(ms)))))
        };
        assert!(keeping(5000).is_ok() && holding(7000).is_ok());
        let refused = keeping(5001).unwrap_err();
        assert_eq!(refused.allowed(), 5000);
        let expected = "the keeping of the result of 5001 ms (5s) is longer than jobs of tenant `acme` may ask for, 5000 ms (5s): ask for \
                        less, or see `keep-result` in its `limits`";
        assert_eq!(refused.to_string(), expected);
        assert!(holding(7001).unwrap_err().to_string().contains("`unique-window`"));
    }

    #[test]
    fn the_topics_time_to_live_holds_for_jobs_that_bring_none() {
        let ttl = |job| RULES.admit(job).unwrap().spec.options.ttl;
        assert_eq!(ttl(job(|_| {})), RULES.ttl);
        assert_eq!(ttl(job(|job| job.spec.options.ttl = Some(Duration::from_secs(90)))), Some(Duration::from_secs(90)));
    }

    #[test]
    fn a_raw_producers_job_is_held_to_the_topic_when_it_is_claimed() {
        let mut topic = Topic::with_defaults("mail".parse().unwrap(), "mail".parse().unwrap());
        (topic.raw_producers, topic.ttl, topic.limits.payload_bytes) = (true, Some(Duration::from_millis(100)), 5);
        let claim = |bytes: usize, claimed_at: u64| {
            let spec = JobSpec::new(topic.id.clone(), Payload { data: vec![7; bytes], content_type: None });
            let (enqueued_at, due_at) = (Timestamp::from_millis(0), Timestamp::from_millis(1000));
            let worker = WorkerId::new("w");
            let lease = Lease { job: spec.id.clone(), topic: topic.id.clone(), worker, delivery: 1, batch: None };
            let job = Arc::new(Job { spec, enqueued_at, due_at });
            let claimed_at = Timestamp::from_millis(claimed_at);
            Claim { job, lease, attempt: 1, claimed_at, lease_until: claimed_at, previous: None, checkpoint: None }
        };
        let too_large = Outcome::LimitExceeded { limit: LimitName::Payload, allowed: 5 };
        for (claim, expected) in
            [(claim(5, 1100), None), (claim(5, 1101), Some(Outcome::Expired)), (claim(6, 1100), Some(too_large))]
        {
            assert_eq!(before_attempt(&claim, Some(&topic)), expected);
        }
        let other = Topic { raw_producers: false, ..topic.clone() };
        assert_eq!(before_attempt(&claim(5, 1101), Some(&other)), None, "other jobs got theirs when they were pushed");
        assert_eq!(before_attempt(&claim(6, 1101), None), None);
    }
}
