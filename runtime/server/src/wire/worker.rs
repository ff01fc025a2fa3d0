//! Workers: what does the jobs.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::time::Timestamp;

/// A runner, or a pull worker that has a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Of a runner: its host, its process id and a number, with `-` between them. Of a pull worker: the name under which it claims.
    pub worker: String,
    /// `runner` or `pull`.
    pub kind: WorkerKind,
    /// When the store received its last heartbeat. A runner sends one every 2 seconds, and every 3.5 seconds while no job runs. Null: pull
    /// workers do not.
    pub heartbeat_at_ms: Option<Timestamp>,
    /// How many jobs it runs.
    pub running: u64,
    /// Their topics, as `tenant/topic`; of the tenant `default` as `topic`.
    pub topics: BTreeSet<String>,
}

/// Who claims jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerKind {
    /// A process of Gristmill.
    Runner,
    /// A client that claims jobs over HTTP.
    Pull,
}

/// Every worker that the store knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workers {
    /// By name, runners first.
    pub workers: Vec<Worker>,
    /// `false`: not all running jobs were looked at, as they are many or a store is unavailable: numbers may be too small, and pull workers missing.
    pub complete: bool,
}
