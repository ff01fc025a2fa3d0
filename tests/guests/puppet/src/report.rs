//! What the puppet sees of its job and its grants.

use std::collections::BTreeMap;

use gristmill_guest::{Job, config, context};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    pub id: String,
    pub tenant: String,
    pub topic: String,
    pub attempt: u32,
    pub max_attempts: u32,
    pub enqueued_at: u64,
    pub due_at: u64,
    pub deadline: u64,
    pub now: u64,
    pub fuel_remaining: u64,
    pub cancelled: bool,
    pub key: Option<String>,
    pub content_type: Option<String>,
    pub metadata: Vec<(String, String)>,
    /// As text; bytes that are no UTF-8 are replaced.
    pub checkpoint: Option<String>,
    /// None: missing or not granted.
    pub config: BTreeMap<String, Option<String>>,
    /// As text; bytes that are no UTF-8 are replaced.
    pub secrets: BTreeMap<String, Option<String>>,
    /// What WASI shows of the world outside: both should be empty.
    pub environment: Vec<(String, String)>,
    pub arguments: Vec<String>,
    /// Whether the root directory can be listed: it should not.
    pub sees_files: bool,
}

impl Report {
    pub(crate) fn of(job: &Job, settings: Vec<String>, secrets: Vec<String>) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            id: job.id.clone(),
            tenant: job.tenant.clone(),
            topic: job.topic.clone(),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            enqueued_at: job.enqueued_at,
            due_at: job.due_at,
            deadline: job.deadline,
            now: context::now(),
            fuel_remaining: context::fuel_remaining(),
            cancelled: context::is_cancelled(),
            key: job.key.clone(),
            content_type: job.body.content_type.clone(),
            metadata: job.metadata.clone(),
            checkpoint: job.checkpoint.clone().map(text),
            config: settings.into_iter().map(|name| (name.clone(), config::get(&name))).collect(),
            secrets: secrets.into_iter().map(|name| (name.clone(), config::secret(&name).map(text))).collect(),
            environment: std::env::vars().collect(),
            arguments: std::env::args().collect(),
            sees_files: std::fs::read_dir("/").is_ok(),
        }
    }
}
