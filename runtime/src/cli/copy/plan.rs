//! What `gristmill store move` has to do.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::json;

use super::super::global::Global;
use super::super::screen;
use super::{deployments_of, tokens_of};
use gristmill_config::units::counted;
use gristmill_core::bill::Day;
use gristmill_core::job::{Name, TopicId};
use gristmill_store::{Check, Finding, FsckReport, Transfer};

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
    /// Of that, the jobs that no move finds, because the old store is damaged.
    pub(super) lost: Vec<String>,
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
        plan.lost = lost(&from.fsck().await?, tenants);
        plan.stays.extend_from_slice(&plan.lost);
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
                let jobs = counted(*jobs, "job", "jobs");
                let values = counted(*unique_values as u64, "unique value", "unique values");
                screen::line(&format!("{topic}: {jobs}, {values} of jobs that are over"))?;
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
            "{}, {}, {}, {}, {}, {}",
            counted(*schedules as u64, "schedule", "schedules"),
            counted(*states as u64, "state of a key", "states of keys"),
            counted(*bill_lines as u64, "line of bills", "lines of bills"),
            counted(*results as u64, "result", "results"),
            counted(*deployments as u64, "decision about versions of handlers", "decisions about versions of handlers"),
            counted(*tokens as u64, "token", "tokens")
        ))?;
        screen::line("totals, recordings and how finished jobs ended stay in the old store")?;
        stays.iter().try_for_each(|stays| screen::line(&format!("cannot be moved: {stays}")))
    }

    pub(super) fn refusal(&self) -> String {
        format!(
            "nothing was moved, because this cannot be:\n  {}\nHave what waits run in the old store first, or leave all that there with --leave-behind",
            self.stays.join("\n  ")
        )
    }
}

/// The jobs of these tenants that are stored and stand nowhere, by topic, in words.
fn lost(report: &FsckReport, tenants: &[Name]) -> Vec<String> {
    let is_lost = |finding: &&Finding| {
        let tenant = finding.tenant.as_deref();
        finding.check == Check::JobInNoPlace && tenants.iter().any(|moved| Some(moved.as_str()) == tenant)
    };
    let mut lost: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for Finding { tenant, topic, job, .. } in report.findings.iter().filter(is_lost) {
        lost.entry((tenant.as_deref(), topic.as_deref())).or_default().extend(job.as_deref());
    }
    let in_words = |((tenant, topic), jobs): ((Option<&str>, Option<&str>), Vec<&str>)| {
        let whose = [tenant, topic].into_iter().flatten().collect::<Vec<_>>().join("/");
        let (count, first) = (jobs.len(), jobs.first().unwrap_or(&"?"));
        let jobs = counted(count, "job that stands", "jobs that stand");
        format!("`{whose}`: {jobs} in no line, {first} first: `gristmill fsck` says what to do")
    };
    let mut lost: Vec<_> = lost.into_iter().map(in_words).collect();
    let all = report.count_of(Check::JobInNoPlace);
    if all > report.findings.iter().filter(|finding| finding.check == Check::JobInNoPlace).count() as u64 {
        lost.push(format!("more jobs that stand in no line: {all} in the whole store"));
    }
    lost
}
