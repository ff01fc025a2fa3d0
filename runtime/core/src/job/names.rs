//! The names of tenants, topics, jobs and workers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::json::schema;
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
schema!(named JobId: { "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$", "not": { "enum": [".", ".."] } });
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

impl Name {
    /// The tenant of a job that names none.
    pub fn default_tenant() -> Self {
        Self(DEFAULT_TENANT.into())
    }
}

/// As much of a refused text as people need to find it.
fn beginning(text: &str) -> String {
    match text.get(..text.floor_char_boundary(200)) {
        Some(part) if part.len() < text.len() => format!("{part}…"),
        _ => text.to_owned(),
    }
}

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
        if fits { Ok(Self(text.into())) } else { Err(BadName(beginning(text))) }
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

/// A job's id: 26 characters of a ULID when we make it; 1 to 64 characters of `A-Z a-z 0-9 - _ .` when a producer does, but
/// neither `.` nor `..`, which clients take out of paths. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct JobId(Arc<str>);

/// The text is not a job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no job id: use 1 to 64 of A-Z a-z 0-9 - _ . (but not `.` or `..`)")]
pub struct BadJobId(pub String);

/// An id is pushed within this time after it was made, ms, unless its maker stood still.
const FRESH_MS: u64 = 60_000;

impl JobId {
    /// A new ULID. Its time part is this host's clock and is never used as a time.
    pub fn generate() -> Self {
        Self(ulid::Ulid::generate().to_string().into())
    }

    /// Whether this is [one of ours](Self::generate), made a moment ago by this host's clock: then no earlier job has had it. A ULID that a producer made a
    /// moment ago counts as one of ours, also if that producer uses it twice.
    pub fn is_fresh(&self) -> bool {
        let made = ulid::Ulid::from_string(&self.0).ok().map(|ulid| ulid.timestamp_ms());
        made.is_some_and(|made| Timestamp::now().as_millis().abs_diff(made) < FRESH_MS)
    }
}

impl FromStr for JobId {
    type Err = BadJobId;

    fn from_str(text: &str) -> Result<Self, BadJobId> {
        let fits = (1..=64).contains(&text.len())
            && !matches!(text, "." | "..")
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if fits { Ok(Self(text.into())) } else { Err(BadJobId(beginning(text))) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_of_ours_of_this_minute_is_fresh() {
        assert!(JobId::generate().is_fresh());
        for id in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "order-17", "1"] {
            assert!(!id.parse::<JobId>().unwrap().is_fresh(), "{id}");
        }
    }

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
    fn an_id_that_clients_take_out_of_paths_is_refused() {
        for bad in [".", ".."] {
            assert!(bad.parse::<JobId>().unwrap_err().to_string().contains("but not `.` or `..`"), "{bad}");
        }
        for good in ["...", ".a", "a.", "-"] {
            assert!(good.parse::<JobId>().is_ok(), "{good}");
        }
    }
}
