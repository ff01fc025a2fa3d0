//! What a job is: its names, its payload, and an attempt at it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::json::{self, json_and_stored, object, schema};
use crate::outcome::Reason;
use crate::time::Timestamp;

/// What the texts below have in common: they are shown and written as they are.
macro_rules! text {
    ($($type:ident),*) => {$(
        impl $type {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    )*};
}

/// What names and ids have in common besides: a text is checked before it becomes one.
macro_rules! checked_text {
    ($($type:ident or $error:ident),*) => {$(
        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(text: $type) -> Self {
                text.as_str().to_owned()
            }
        }
    )*};
}

schema!(named Name: { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$" });
schema!(named JobId: { "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" });
text!(Name, JobId, WorkerId);
checked_text!(Name or BadName, JobId or BadJobId);

/// The tenant of a job that names none.
pub const DEFAULT_TENANT: &str = "default";

/// The name of a tenant or a topic: 1 to 128 characters of `A-Z a-z 0-9 - _ .`, beginning with a letter or a digit.
///
/// Cheap to clone. The rule keeps names safe in file names, Redis keys, URLs and metric labels.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(Arc<str>);

/// The text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name: use 1 to 128 of A-Z a-z 0-9 - _ . and begin with a letter or a digit")]
pub struct BadName(pub String);

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let fits = (1..=128).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if fits { Ok(Self(text.into())) } else { Err(BadName(text.into())) }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A topic of a tenant. Shown as `topic` for the default tenant, else as `tenant/topic`, and parsed alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TopicId {
    /// The tenant.
    pub tenant: Name,
    /// The name of the topic, which is unique in its tenant.
    pub topic: Name,
}

impl FromStr for TopicId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let (tenant, topic) = text.split_once('/').unwrap_or((DEFAULT_TENANT, text));
        Ok(Self { tenant: tenant.parse()?, topic: topic.parse()? })
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tenant.as_str() == DEFAULT_TENANT {
            fmt::Display::fmt(&self.topic, f)
        } else {
            f.pad(&format!("{}/{}", self.tenant, self.topic))
        }
    }
}

/// A job's id: 26 characters of a ULID when we make it; 1 to 64 characters of `A-Z a-z 0-9 - _ .` when a producer does.
/// Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct JobId(Arc<str>);

/// The text is not a job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no job id: use 1 to 64 of A-Z a-z 0-9 - _ .")]
pub struct BadJobId(pub String);

impl JobId {
    /// A new ULID. Its time part is this host's clock and is never used as a time.
    pub fn generate() -> Self {
        Self(ulid::Ulid::generate().to_string().into())
    }
}

impl FromStr for JobId {
    type Err = BadJobId;

    fn from_str(text: &str) -> Result<Self, BadJobId> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if fits { Ok(Self(text.into())) } else { Err(BadJobId(text.into())) }
    }
}

/// Bytes and the format they are in. Opaque to the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Payload {
    /// The bytes, which the host never looks into.
    #[schemars(rename = "base64", with = "json::Base64")]
    pub data: Vec<u8>,
    /// A media type such as `application/json`; none means opaque octets.
    pub content_type: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Payload", deny_unknown_fields)]
struct JsonPayload {
    #[serde(rename = "base64", with = "json::Base64")]
    data: Vec<u8>,
    content_type: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Payload")]
struct StoredPayload {
    #[serde(with = "serde_bytes")]
    data: Vec<u8>,
    content_type: Option<String>,
}

json_and_stored!(Payload, JsonPayload, StoredPayload);

/// Bytes that each pair of metadata counts at least, so that a million empty pairs are not free.
const PAIR_BYTES: usize = 4;

/// What a producer says about a job. It never changes once pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Unique in its tenant.
    pub id: JobId,
    /// Where the job is pushed to.
    #[serde(flatten)]
    pub topic: TopicId,
    /// What the handler gets.
    #[serde(default, deserialize_with = "object::one")]
    pub body: Payload,
    /// Headers in order; names may repeat.
    #[serde(default)]
    pub metadata: Vec<(String, String)>,
    /// A label that the handler sees, to group jobs by. It implies neither an order nor shared state.
    pub key: Option<String>,
    /// Which of the topic's ready jobs come first.
    #[serde(default)]
    pub priority: Priority,
    /// At most one job per topic and value.
    #[serde(default, deserialize_with = "object::maybe")]
    pub unique: Option<Unique>,
    /// Overrides the topic's attempts.
    #[serde(rename = "attempts_max")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts: Option<u32>,
    /// How long after it became due the job may still start; then it is expired: counted and gone.
    #[serde(rename = "ttl_ms", default, with = "json::OptionalWaitMs")]
    pub ttl: Option<Duration>,
    /// Keep the job's result for this long, and notify clients that wait for it. Raises the topic's retention, never lowers it.
    #[serde(rename = "keep_result_ms", default, with = "json::OptionalWaitMs")]
    pub keep_result: Option<Duration>,
}

impl JobSpec {
    /// A job of `topic` with a fresh id and nothing but a body.
    pub fn new(topic: TopicId, body: Payload) -> Self {
        Self {
            id: JobId::generate(),
            topic,
            body,
            metadata: Vec::new(),
            key: None,
            priority: Priority::Normal,
            unique: None,
            max_attempts: None,
            ttl: None,
            keep_result: None,
        }
    }

    /// What the job's metadata and its other texts count against the limit of
    /// [`HEADER_BYTES`](crate::admission::HEADER_BYTES).
    pub fn header_bytes(&self) -> u64 {
        let unique = self.unique.as_ref().map_or(0, |unique| unique.value.len());
        let texts = [&self.key, &self.body.content_type].into_iter().flatten().map(String::len).sum::<usize>();
        let pairs = self.metadata.iter().map(|(name, value)| (name.len() + value.len()).max(PAIR_BYTES)).sum::<usize>();
        (unique + texts + pairs) as u64
    }
}

/// Which of a topic's ready jobs come first. Among equals the one that became ready first.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Priority {
    /// Before all others.
    High,
    /// What a job has if its producer does not say otherwise.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Priority {
    /// From the first to the last.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Whose turn it is while high or low jobs are ready: of eight jobs taken, five go to high, two to normal, one to low,
    /// so that none starves. If no job of that priority is ready, the highest that is ready is taken.
    ///
    /// Each topic counts its turns in the store. The count goes on by one for each job that a claim takes from a topic
    /// that had ready jobs of high or low priority when the claim began; with normal jobs alone there is nothing to count.
    pub const TURNS: [Self; 8] = {
        use Priority::{High, Low, Normal};
        [High, Normal, High, High, Normal, High, High, Low]
    };

    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The priority of this name; `None` if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A value that only one job of a topic may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// What must differ. At most one job with this value is in a topic at a time.
    pub value: String,
    /// How long the value is held from the push on, whatever becomes of the job meanwhile. Without it, the value is held until
    /// the job is done, dead, expired or cancelled.
    #[serde(rename = "window_ms", default, with = "json::OptionalWaitMs")]
    pub window: Option<Duration>,
}

impl Unique {
    /// The value, if the end of the job sets it free.
    pub fn held_until_done(&self) -> Option<&str> {
        self.window.is_none().then_some(&*self.value)
    }
}

/// When a job becomes due, by the store's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// At once.
    #[default]
    Now,
    /// This long after the store has accepted it.
    #[serde(rename = "after_ms", with = "json::WaitMs")]
    After(Duration),
    /// At this time, by the store's clock.
    #[serde(rename = "at_ms")]
    At(Timestamp),
}

/// A job on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What is to be done.
    pub spec: JobSpec,
    /// When.
    #[serde(default)]
    pub due: Due,
}

/// A job as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// What is to be done.
    pub spec: JobSpec,
    /// When the store accepted it, in milliseconds since 1970.
    #[serde(rename = "enqueued_at_ms")]
    pub enqueued_at: Timestamp,
    /// When the job first became due; equals `enqueued_at` for an immediate one.
    #[serde(rename = "due_at_ms")]
    pub due_at: Timestamp,
}

impl Job {
    /// From then on the job must not start any more.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.spec.ttl.map(|ttl| self.due_at.plus(ttl))
    }
}

/// What the id of a worker begins with that is no runner.
const PULL: &str = "pull:";

/// One runner process. `host-pid-random`, so that people can find it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// The worker of this id.
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// A client that claims over HTTP: it has no heartbeat, so only its leases show that it lives.
    pub fn pull(name: &str) -> Self {
        Self([PULL, name].concat().into())
    }

    /// Whether it is a pull worker, not a runner.
    pub fn is_pull(&self) -> bool {
        self.pull_name().is_some()
    }

    /// The name that [`Self::pull`] was given. `None` for a runner.
    pub fn pull_name(&self) -> Option<&str> {
        self.0.strip_prefix(PULL)
    }
}

/// The right to settle one attempt: names the job, and which delivery of it is meant.
///
/// Fencing: the store counts a job's deliveries; a settle that names an older one changes nothing.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Its topic.
    pub topic: TopicId,
    /// The worker that holds it.
    pub worker: WorkerId,
    /// How often the job has been claimed, this time included. Unlike the attempt it never goes down. A new job that has
    /// the id of one that is over begins anew: nothing distinguishes its first delivery from that of the earlier job to the same
    /// worker.
    pub delivery: u64,
    /// The number of the claim that gave it, where the store keeps leases by claim. `None`: not known, and the store looks it up.
    pub batch: Option<u64>,
}

/// Two leases are equal that name the same delivery. The batch only says where the store finds it.
impl PartialEq for Lease {
    fn eq(&self, other: &Self) -> bool {
        let Self { job, topic, worker, delivery, batch: _ } = self;
        (job, topic, worker, *delivery) == (&other.job, &other.topic, &other.worker, other.delivery)
    }
}

impl Eq for Lease {}

/// A job taken to be worked on, for a bounded time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Shared with the sandbox, so that a large body is held once.
    pub job: Arc<Job>,
    /// What the settlement must name.
    pub lease: Lease,
    /// 1 on the first try.
    pub attempt: u32,
    /// When, by the store's clock.
    pub claimed_at: Timestamp,
    /// When the lease ends unless it is extended, by the store's clock.
    pub lease_until: Timestamp,
    /// Why the last attempt failed, if one did.
    pub previous: Option<Reason>,
    /// What an earlier attempt saved.
    pub checkpoint: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_the_rule_at_both_ends() {
        let longest = "x".repeat(128);
        for good in ["a", "0", "resize-image", "A.b_c-9", &longest] {
            assert_eq!(good.parse::<Name>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", "-a", ".hidden", "_x", "a b", "a/b", "ä", "a{b}", &"x".repeat(129)] {
            assert_eq!(bad.parse::<Name>(), Err(BadName(bad.to_owned())));
        }
    }

    #[test]
    fn topic_ids_read_as_they_are_shown() -> Result<(), BadName> {
        for text in ["resize-image", "acme/resize-image"] {
            assert_eq!(text.parse::<TopicId>()?.to_string(), text);
        }
        assert_eq!("default/a".parse::<TopicId>()?.to_string(), "a");
        assert!("a/b/c".parse::<TopicId>().is_err());
        Ok(())
    }

    #[test]
    fn generated_ids_are_ulids() {
        let id = JobId::generate();
        assert_eq!(id.as_str().len(), 26);
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
    }

    #[test]
    fn a_job_in_json_is_as_the_http_api_documents_it() {
        let text = r#"{"spec":{"id":"j","tenant":"acme","topic":"mail","body":{"base64":"aGk=","content_type":null},"metadata":[["k","v"]],"key":null,"priority":"low","unique":{"value":"u","window_ms":2},"attempts_max":3,"ttl_ms":null,"keep_result_ms":60000},"due":{"after_ms":5}}"#;
        let job: NewJob = serde_json::from_str(text).unwrap();
        assert_eq!((&*job.spec.body.data, job.due), (&b"hi"[..], Due::After(Duration::from_millis(5))));
        assert_eq!(serde_json::to_string(&job).unwrap(), text);
        let least: NewJob = serde_json::from_str(r#"{"spec":{"id":"j","tenant":"acme","topic":"mail"}}"#).unwrap();
        assert_eq!((least.due, least.spec.body), (Due::Now, Payload::default()));
    }

    #[test]
    fn a_job_in_json_is_an_object_without_unknown_fields() {
        let read = |more: &str| {
            serde_json::from_str::<JobSpec>(&format!(r#"{{"id":"j","tenant":"acme","topic":"mail"{more}}}"#))
        };
        assert!(read("").is_ok());
        for wrong in [
            r#","prio":1"#,
            r#","id":"k""#,
            r#","topic":"k""#,
            r#","body":["aGk=",null]"#,
            r#","body":{"base64":"aGk=","x":1}"#,
            r#","unique":["u",1]"#,
            r#","unique":{"value":"u","x":1}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<JobSpec>(r#"["j","acme","mail"]"#).is_err());
    }
}
