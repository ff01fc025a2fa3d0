//! `gristmill attempts`: what a runner has done last, with the log lines of its guests.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::exit::{Exit, NoServer};
use super::global::{Global, TopicName, whose};
use super::{describe, screen};
use gristmill_config::units;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_runner::RecentWanted;

/// Show the attempts that a runner has made last, with their log lines
///
/// The runner keeps them in memory, failures longest, and its server shows them: those of other runners are in their servers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The latest come first. What is older is in the journal, if the manifest has one.

Examples:
  gristmill attempts --failed
  gristmill attempts --job 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill attempts --topic resize-image --limit 5 --json | jq .log")]
pub(super) struct Args {
    /// Only of this topic, or tenant/topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<TopicName>,
    /// Only at this job
    #[arg(long, value_name = "ID")]
    job: Option<JobId>,
    /// Only those that failed
    #[arg(long)]
    failed: bool,
    /// Whose attempts [default: those of the topic's tenant, else of default]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// Show at most this many, up to 1000
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Of the document of an attempt, what people are shown.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    #[serde(flatten)]
    pub(super) topic: TopicId,
    pub(super) job: JobId,
    attempt: u32,
    at_ms: Timestamp,
    started_us: Option<u64>,
    ended_us: Option<u64>,
    outcome: String,
    verdict: String,
    settled: Option<String>,
    message: Option<String>,
    log: Vec<LogLine>,
    log_left_out: u64,
}

#[derive(Debug, Clone, Deserialize)]
struct LogLine {
    level: String,
    source: String,
    text: String,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Args { topic, job, failed, tenant, limit } = args;
    let (tenant, topic) = whose(topic.as_ref(), tenant.as_ref())?;
    let Some(server) = global.server(&global.manifest_without_secrets()?).await? else {
        let problem = "recent attempts are in the memory of a runner, which shows them by its server: name the server with --server URL. \
            If no runner is running, read the journal, the file that [journal] in the manifest names";
        return Err(NoServer(problem).into());
    };
    let seen = server.attempts(&RecentWanted { tenant: tenant.clone(), topic, job, failed, limit }).await?;
    if global.json {
        seen.attempts.iter().try_for_each(screen::document)?;
        return Ok(Exit::Done);
    }
    let now = Timestamp::now();
    for attempt in &seen.attempts {
        screen::line_folded(&in_words(&Attempt::read(attempt)?, now), 6)?;
    }
    let what = if failed { "failed attempts" } else { "attempts" };
    if seen.attempts.len() < limit {
        let (which, since) = (if seen.attempts.is_empty() { "no" } else { "all" }, seen.since_ms);
        let ago = describe::distance(since, now);
        screen::note(&format!(
            "{which} {what} of this runner for tenant `{tenant}` since {since} ({ago}); earlier ones may be missing"
        ));
    }
    Ok(Exit::Done)
}

impl Attempt {
    /// # Errors
    /// The document is of another version, and lacks something.
    pub(super) fn read(document: &Value) -> anyhow::Result<Self> {
        Ok(Self::deserialize(document)?)
    }

    fn took(&self) -> Option<String> {
        let took = self.started_us.zip(self.ended_us).map(|(started, ended)| ended.saturating_sub(started));
        took.map(|us| units::about_duration(Duration::from_micros(us)))
    }

    /// In one row.
    #[cfg(feature = "top")]
    pub(super) fn cells(&self, now: Timestamp) -> Vec<String> {
        vec![
            describe::distance(self.at_ms, now),
            self.topic.to_string(),
            self.job.to_string(),
            self.attempt.to_string(),
            self.outcome.clone(),
            self.verdict.clone(),
            self.took().unwrap_or_else(|| "-".into()),
            self.message.clone().unwrap_or_default(),
        ]
    }
}

/// The attempt in a line, and below it why it failed and what the guest logged.
pub(super) fn in_words(attempt: &Attempt, now: Timestamp) -> String {
    let took = attempt.took().map(|took| format!("  {took}")).unwrap_or_default();
    let Attempt { topic, job, attempt: number, outcome, verdict, .. } = attempt;
    let (when, settled) = (describe::distance(attempt.at_ms, now), attempt.settled.as_deref().unwrap_or("not settled"));
    let settled = if settled == "done" { String::new() } else { format!(" ({settled})") };
    // A handler that asks for a retry gets one: one word says both.
    let verdict = if verdict == outcome { String::new() } else { format!(", {verdict}") };
    let mut words = format!("{when:<10}  {topic}  {job}  attempt {number}  {outcome}{verdict}{settled}{took}");
    let mut below = |text: &str| words.push_str(&format!("\n    {}", screen::clean(text)));
    attempt.message.iter().for_each(|message| below(&format!("failed: {message}")));
    if attempt.log_left_out > 0 {
        let lines = units::counted(attempt.log_left_out, "line", "lines");
        below(&format!("... {lines} before, not kept"));
    }
    for LogLine { level, source, text } in &attempt.log {
        // What a guest prints has no level of its own: the stream says as much.
        let level = if source == "log" { level.to_uppercase() } else { source.clone() };
        below(&format!("{level:<8} {text}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outcome_and_a_verdict_of_the_same_name_are_said_once() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let line = |outcome: &str, verdict: &str| {
            let document = json!({
                "tenant": "default", "topic": "mail", "job": "j", "attempt": 2, "at_ms": now, "started_us": null, "ended_us": null,
                "outcome": outcome, "verdict": verdict, "settled": "done", "message": null, "log": [], "log_left_out": 0,
            });
            in_words(&Attempt::read(&document).unwrap(), now)
        };
        assert!(line("retry", "retry").ends_with("  mail  j  attempt 2  retry"), "{}", line("retry", "retry"));
        assert!(line("snooze", "snooze").ends_with("  snooze"));
        assert!(line("trap", "bury").ends_with("  trap, bury"));
    }
}
