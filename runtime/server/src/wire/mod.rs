//! The JSON documents of requests and answers: version 1. A job, its state and its end are written as the types of
//! `gristmill-core` and `gristmill-store` are; see [`gristmill_core::json`].

pub(super) mod dead;
mod pull;
pub(super) mod push;
mod token;
pub(super) mod topic;

use serde::{Deserialize, Serialize};

use gristmill_core::job::{JobId, Name, NewJob};
use gristmill_core::json;
use gristmill_core::json::object;
use gristmill_store::TenantPlacement;
use gristmill_store::{Cancelled, DeadJob, JobView, Pushed, TopicCounts};

pub(super) use pull::{
    Checkpoint, Claim, Claimed, Claims, Extend, ExtendAnswer, Extended, Saved, Settle, SettleAnswer, Settlement,
    WorkerError,
};
pub(super) use token::{NewToken, NewTokenAnswer, RequirementLifted, Revoked, Tokens};

/// The most jobs or ids in one request.
pub(super) const BATCH: usize = 1000;

/// A query or a document that says which tenants it is about.
pub(super) trait NamesTenants {
    fn tenants(&self) -> impl Iterator<Item = &Name> + Send;
}

/// `GET /v1`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) store: String,
}

/// `GET /v1/tenants`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tenants {
    pub(super) tenants: Vec<Name>,
}

/// `POST /v1/jobs`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Push {
    #[serde(deserialize_with = "object::each")]
    pub(super) jobs: Vec<NewJob>,
}

/// In the order of the jobs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PushAnswer {
    pub(super) pushed: Vec<Pushed>,
    /// About topics that nothing makes topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// Which jobs are meant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ids {
    pub(super) ids: Vec<JobId>,
}

/// In the order of the ids.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CancelAnswer {
    pub(super) cancelled: Vec<Cancelled>,
}

/// `DELETE` of a job.
#[derive(Debug, Serialize)]
pub(super) struct CancelledOne {
    pub(super) id: JobId,
    /// `gone` or `stopping`.
    pub(super) status: Cancelled,
}

/// `PUT` and `DELETE` of a topic's component.
#[derive(Debug, Serialize)]
pub(super) struct Served {
    pub(super) handler: Name,
    /// None: no more.
    pub(super) version: Option<String>,
}

/// In the order of the ids.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WereDead {
    pub(super) were_dead: Vec<bool>,
}

/// As [`topic::Topics`] is read by whoever wants the counts only.
#[derive(Debug, Deserialize)]
pub(super) struct Topics {
    pub(super) topics: Vec<TopicCounts>,
}

/// `GET /v1/residences`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Residences {
    pub(super) residences: Vec<TenantPlacement>,
}

/// `POST /v1/tenants/{tenant}/move`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    pub(super) to: Name,
}

/// The body of a request that has nothing to say: `{}`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Whether it was otherwise before.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Changed {
    pub(super) changed: bool,
}

/// What `DELETE` of a topic does with its jobs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Purge {
    /// Remove the waiting and the dead jobs first.
    #[serde(default)]
    pub(super) jobs: bool,
}

/// `DELETE` of a topic: how many jobs were removed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TopicPurged {
    pub(super) waiting: u64,
    pub(super) dead: u64,
    /// `false`: there are more jobs. Ask again.
    pub(super) forgotten: bool,
}

/// Which part of a list is wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) skip: usize,
    pub(super) limit: usize,
}

/// Which of a topic's jobs are wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// `ready`, `delayed`, `running` or `dead`.
    pub(super) state: String,
    /// The `next` of the page before.
    pub(super) after: Option<String>,
    #[serde(default = "usual_page")]
    pub(super) limit: usize,
}

/// Jobs on a page, where nobody says how many.
fn usual_page() -> usize {
    100
}

/// A page, and where the next one begins. None: there are no more.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) jobs: Vec<JobView>,
    pub(super) next: Option<String>,
}

/// May be fewer than asked for, so that an answer does not become too long; none only if there are no more.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Dead {
    pub(super) dead: Vec<DeadJob>,
}

/// Whose signals are wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listeners {
    #[serde(with = "commas")]
    pub(super) tenants: Vec<Name>,
}

impl NamesTenants for Listeners {
    fn tenants(&self) -> impl Iterator<Item = &Name> + Send {
        self.tenants.iter()
    }
}

impl NamesTenants for Push {
    fn tenants(&self) -> impl Iterator<Item = &Name> + Send {
        self.jobs.iter().map(|job| &job.spec.topic.tenant)
    }
}

/// Names with commas between them.
mod commas {
    use gristmill_core::job::Name;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(names: &[Name], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&names.iter().map(Name::as_str).collect::<Vec<_>>().join(","))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Name>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(de::Error::custom)
    }
}

/// Bytes, as base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Base64(#[serde(with = "json::base64")] pub(super) Vec<u8>);
