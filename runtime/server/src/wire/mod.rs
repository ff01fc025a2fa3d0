//! The JSON documents of requests and answers: version 1. A job, its state and its end are written as the types of
//! `gristmill-core` and `gristmill-store` are; see [`gristmill_core::json`].

pub(super) mod attempts;
pub(super) mod bill;
pub(super) mod bulk;
pub(super) mod dead;
pub(super) mod handler;
pub(super) mod history;
pub(super) mod limits;
mod pull;
pub(super) mod push;
mod recording;
pub(super) mod schedule;
mod token;
pub(super) mod topic;
pub(super) mod worker;

use std::collections::BTreeSet;

use axum::http::HeaderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::Action;
use gristmill_core::job::{Due, JobId, MEMBERS, Name, NewJob, Priority};
use gristmill_core::json::{self, at_most};
use gristmill_core::time::Timestamp;
use gristmill_core::token::{Scope, Token};
use gristmill_store::TenantPlacement;
use gristmill_store::{BatchSealed, Cancelled, JobChanged, JobView, Pushed, WaitsFor};

pub(super) use pull::{
    Checkpoint, Claim, Claimed, Claims, Extend, ExtendAnswer, Extended, Saved, Settle, SettleAnswer, Settlement,
    TOPICS, WorkerError,
};
pub(super) use recording::{JobCalls, RecordedJobs, RecordedPage};
pub(super) use token::{NewToken, NewTokenAnswer, RequirementLifted, Revoked, Tokens};

/// The most jobs or ids in one request.
pub(super) const BATCH: usize = 1000;

/// The most jobs of a graph, and the most steps away from the first one.
pub(super) const NODES: usize = 1000;

/// A query or a document that says which tenants it is about.
pub(super) trait NamesTenants {
    fn tenants(&self) -> impl Iterator<Item = &Name> + Send;
}

/// The header with the id of the store that a request is meant for.
pub(super) const MEANT_STORE: HeaderName = HeaderName::from_static("gristmill-store");

/// The server that answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct About {
    pub(super) version: String,
    /// The id of its store: another store has another one, also at the same address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) store_id: Option<String>,
    /// Another one after each start of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<String>,
    /// Only the operator sees this and the store's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<String>,
    /// What the manifest calls this server, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Name>,
    /// The colour of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) colour: Option<String>,
}

/// What the request may do.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Me {
    /// The token of the request. Null if it needs none; then it may do everything.
    pub(super) token: Option<Token>,
    /// The tenant that it is for. Null: all.
    pub(super) tenant: Option<Name>,
    /// What it allows there.
    pub(super) scopes: BTreeSet<Scope>,
}

/// Changes and refusals.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Actions {
    /// The latest first.
    pub(super) actions: Vec<Action>,
}

/// Every tenant that has or had jobs, or has topics in the manifest.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Tenants {
    pub(super) tenants: Vec<Name>,
}

/// Jobs of any topics, as they are written: each names its own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "push::Bulk")]
pub(super) struct Push {
    pub(super) jobs: Vec<NewJob>,
}

impl TryFrom<push::Bulk> for Push {
    type Error = String;

    fn try_from(push::Bulk { jobs }: push::Bulk) -> Result<Self, String> {
        let tenant = Name::default_tenant();
        let named = |(index, job): (usize, push::Job)| {
            job.into_addressed(&tenant).map_err(|wrong| format!("jobs[{index}]: {wrong}"))
        };
        Ok(Self { jobs: jobs.into_iter().enumerate().map(named).collect::<Result<_, _>>()? })
    }
}

/// What became of each job, in the order of the request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct PushAnswer {
    pub(super) pushed: Vec<Pushed>,
    /// One for each unknown topic, whose jobs wait until something makes it a topic. Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// Jobs by their ids.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ids {
    #[serde(deserialize_with = "at_most::list::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(super) ids: Vec<JobId>,
}

/// Jobs to cancel.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    #[serde(deserialize_with = "at_most::list::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(super) ids: Vec<JobId>,
    /// End the attempts at those that run now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) kill: bool,
}

/// How to cancel a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HowToCancel {
    /// End the attempt now, if the job runs.
    #[serde(default)]
    pub(super) kill: bool,
    /// Also cancel the jobs that wait for it, the members of batches, and so on.
    #[serde(default)]
    pub(super) tree: bool,
}

/// The job that was cancelled, or with `tree` how many were.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum CancelledJob {
    One(CancelledOne),
    Tree(CancelledTree),
}

/// How many jobs of a tree were cancelled.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct CancelledTree {
    pub(super) id: JobId,
    /// Jobs that waited, and are gone.
    pub(super) gone: u64,
    /// Jobs that run: their handlers are asked to stop, or they are killed.
    pub(super) stopping: u64,
    /// No job of the tree remains to be cancelled. If not, repeat the request.
    pub(super) complete: bool,
}

/// What became of each job, in the order of the ids.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct CancelAnswer {
    pub(super) cancelled: Vec<Cancelled>,
}

/// The job that was cancelled.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CancelledOne {
    pub(super) id: JobId,
    /// `gone` or `stopping`.
    pub(super) status: Cancelled,
}

/// Jobs by their ids, and what is to be different about them: at least one of the two.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["due"]}, {"required": ["priority"]}]))]
pub(super) struct ChangeJobs {
    #[serde(deserialize_with = "at_most::list::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(super) ids: Vec<JobId>,
    /// When they become due.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Due::maybe")]
    pub(super) due: Option<Due>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<Priority>,
}

/// What became of each job, in the order of the ids.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct ChangeAnswer {
    pub(super) changed: Vec<JobChanged>,
}

/// The job that was to be changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChangedOne {
    pub(super) id: JobId,
    /// `changed`, or `unchanged`: it was so before.
    pub(super) status: JobChanged,
}

/// The batch that was sealed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct SealedOne {
    pub(super) id: JobId,
    /// `sealed`, or `before`: it was sealed already.
    pub(super) status: BatchSealed,
}

/// How many of the jobs that a job waits for are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinksLimit {
    #[serde(default = "links_limit")]
    #[schemars(range(max = MEMBERS))]
    pub(super) limit: usize,
}

fn links_limit() -> usize {
    100
}

/// What a job waits for, and what waits for it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct JobLinks {
    /// `null` of a job that waits for none, and of one that is gone.
    pub(super) waits_for: Option<WaitsFor>,
    /// The jobs that wait for it: at most 1,000.
    pub(super) waiters: Vec<JobId>,
}

/// How much of a graph is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphWanted {
    /// How many steps away from the job.
    #[serde(default = "graph_depth")]
    #[schemars(range(max = NODES))]
    pub(super) depth: usize,
    /// How many jobs in all.
    #[serde(default = "graph_limit")]
    #[schemars(range(min = 1, max = NODES))]
    pub(super) limit: usize,
}

fn graph_depth() -> usize {
    10
}

fn graph_limit() -> usize {
    100
}

/// How a component begins to serve.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Upload {
    /// The share of the topic's jobs that it does at first, such as `5%`. Without it: all, unless the topic is gated.
    #[serde(default)]
    pub(super) share: Option<String>,
}

/// A version of a component.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Component {
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub(super) digest: String,
    pub(super) component: Base64,
}

/// To which version of its component a topic goes back.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RollBack {
    /// The first digits of its SHA-256, at least 4. Without it: the version that served before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
}

/// The component that does the topic's jobs from now on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Served {
    pub(super) handler: Name,
    /// The first 12 hexadecimal digits of the component's SHA-256. Null: there is no component any more.
    pub(super) version: Option<String>,
}

/// For each id whether the job was dead, in the order of the request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct WereDead {
    pub(super) were_dead: Vec<bool>,
}

/// Every tenant that has or had jobs, by name.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Placements {
    pub(super) placements: Vec<TenantPlacement>,
}

/// The store to move to.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    pub(super) to: Name,
}

/// An object without fields.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Whether the request changed anything.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Changed {
    pub(super) changed: bool,
}

/// How many unique values were freed. If there were some, there may be more.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Freed {
    pub(super) freed: u64,
}

/// The state of a key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct KeyState {
    /// `null` if there is none.
    pub(super) state: Option<Base64>,
    /// Grows by one with each change, also over deletions. `null` if there is no state.
    pub(super) version: Option<u64>,
}

/// The recording of an attempt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct JobRecording {
    pub(super) id: JobId,
    /// Opaque bytes, for `gristmill replay`. `null`: none is kept.
    pub(super) recording: Option<Base64>,
}

/// Which recording of the job is wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordingOf {
    /// The job's topic: others are not looked at. Needed if the store no longer knows the job and the tenant has more than 100 topics.
    pub(super) topic: Option<Name>,
}

/// Who holds a unique value.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct UniqueHold {
    /// The job, which may be gone. `null`: the value is free.
    pub(super) holder: Option<JobId>,
    /// Until when it is held, in milliseconds since 1970. `null`: until the job is done.
    #[serde(rename = "until_ms")]
    pub(super) until: Option<Timestamp>,
}

/// What `DELETE` of a topic does with its jobs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Purge {
    /// Remove the waiting and the dead jobs first.
    #[serde(default)]
    pub(super) jobs: bool,
}

/// How many jobs were removed, and whether the topic is forgotten.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct TopicPurged {
    pub(super) waiting: u64,
    pub(super) dead: u64,
    /// `false`: there are more jobs. Send the request again.
    pub(super) forgotten: bool,
}

/// Which of a topic's jobs are wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Needed without `q`.
    #[schemars(extend("enum" = ["ready", "delayed", "running", "dead"]))]
    pub(super) state: Option<String>,
    /// The query that they fit, such as `reason:timeout age>1h body.user.id:42`.
    pub(super) q: Option<String>,
    /// The `next` of the page before.
    pub(super) after: Option<String>,
    #[serde(default = "usual_page")]
    #[schemars(range(min = 1, max = BATCH))]
    pub(super) limit: usize,
}

/// Which jobs of a tenant are wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// The query that they fit, such as `topic:mail* state:dead reason:timeout age>1h body.user.id:42`. All jobs fit an empty one.
    pub(super) q: String,
    /// The `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
    #[serde(default = "usual_page")]
    #[schemars(range(min = 1, max = BATCH))]
    pub(super) limit: usize,
}

/// Jobs on a page, if the request does not say how many.
fn usual_page() -> usize {
    100
}

/// A page of jobs. It may be short, or empty; only without a `next` there are no more.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Listed {
    pub(super) jobs: Vec<JobView>,
    pub(super) next: Option<String>,
    /// With `q`: how many jobs were held against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) looked_at: Option<usize>,
}

/// Whose signals are wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Listeners {
    /// Names with commas between them, at most 1000.
    #[schemars(
        with = "String",
        regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}(,[A-Za-z0-9][A-Za-z0-9_.-]{0,127})*$")
    )]
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(transparent)]
pub(super) struct Base64(#[serde(with = "json::Base64")] pub(super) Vec<u8>);
