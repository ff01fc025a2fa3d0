//! What `gristmill store move` has to do.

use std::ops::RangeInclusive;

use serde_json::json;

use super::super::global::Global;
use super::super::screen;
use super::{deployments_of, tokens_of};
use gristmill_core::bill::Day;
use gristmill_core::job::{Name, TopicId};
use gristmill_store::Transfer;

/// What a move has to do, as counted before it begins.
#[derive(Debug, Default)]
pub(super) struct Plan {
    topics: Vec<Planned>,
    /// How many there are of everything else.
    schedules: usize,
    states: usize,
    bill_lines: usize,
    results: usize,
    deployments: usize,
    tokens: usize,
    /// What cannot be moved, in words.
    pub(super) stays: Vec<String>,
}

#[derive(Debug)]
struct Planned {
    topic: TopicId,
    jobs: u64,
    unique_values: usize,
}

impl Plan {
    /// `named` are the tenants that the operator has named, if any, and `tenants` all that are moved.
    pub(super) async fn of(
        from: &dyn Transfer,
        (named, tenants): (&[Name], &[Name]),
        days: &RangeInclusive<Day>,
    ) -> anyhow::Result<Self> {
        let (deployments, tokens) = (deployments_of(from, named).await?.len(), tokens_of(from, named).await?.len());
        let mut plan = Self { deployments, tokens, ..Self::default() };
        for tenant in tenants {
            plan.schedules += from.schedules(tenant, None).await?.len();
            plan.states += from.keys_with_state(tenant).await?.len();
            plan.bill_lines += from.bill(tenant, days).await?.len();
            plan.results += from.jobs_with_result(tenant).await?.len();
            for counts in from.counts(tenant).await? {
                let (topic, jobs) = (counts.topic.clone(), counts.jobs() - counts.running);
                let unique_values = from.export_windows(&topic, usize::MAX).await?.len();
                if counts.running > 0 {
                    plan.stays.push(format!("`{topic}`: {} running", counts.running));
                }
                plan.topics.push(Planned { topic, jobs, unique_values });
            }
            if from.has_links(tenant).await? {
                plan.stays.push(format!("jobs of `{tenant}` that wait for other jobs, or are waited for"));
            }
        }
        Ok(plan)
    }

    pub(super) fn show(&self, global: &Global) -> anyhow::Result<()> {
        for Planned { topic, jobs, unique_values } in &self.topics {
            if global.json {
                let (tenant, name) = (topic.tenant.as_str(), topic.topic.as_str());
                screen::document(
                    &json!({ "tenant": tenant, "topic": name, "jobs": jobs, "unique_values": unique_values }),
                )?;
            } else {
                screen::line(&format!("{topic}: {jobs} jobs, {unique_values} unique values of jobs that are over"))?;
            }
        }
        let Self { schedules, states, bill_lines, results, deployments, tokens, stays, .. } = self;
        if global.json {
            return screen::document(&json!({
                "schedules": schedules,
                "states": states,
                "bill_lines": bill_lines,
                "results": results,
                "deployments": deployments,
                "tokens": tokens,
                "stays": stays,
            }));
        }
        screen::line(&format!(
            "{schedules} schedules, {states} states of keys, {bill_lines} lines of bills, {results} results, {deployments} decisions about \
             versions of handlers, {tokens} tokens"
        ))?;
        stays.iter().try_for_each(|stays| screen::line(&format!("cannot be moved: {stays}")))
    }

    pub(super) fn refusal(&self) -> String {
        format!(
            "nothing was moved, because this cannot be:\n  {}\nHave it run in the old store first, or leave it there with --leave-behind",
            self.stays.join("\n  ")
        )
    }
}
