//! Many recorded jobs at once: what another component makes of them, or whether each still ends as it was recorded.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use serde_json::json;

use super::super::exit::Exit;
use super::super::global::Global;
use super::super::store::Served;
use super::super::table::Table;
use super::super::{invoke, sandbox, screen};
use super::exported::{Exported, Recorded, kept_component};
use super::{is_good, load};
use gristmill_config::Manifest;
use gristmill_core::job::{JobId, Name};
use gristmill_sandbox::{Component, ReplayVerdict, Sandbox, Version};

/// Jobs in one answer of a server.
const PAGE: usize = 200;

/// What becomes of the jobs with another component.
const OF_ANOTHER: [&str; 4] = ["mended", "still fails", "asks something else", "not replayed"];
/// And with the versions that they had.
const OF_RECORDED: [&str; 4] = ["same", "differs", "asks something else", "not replayed"];

/// A job, what a replay makes of it, and the detail.
pub(in crate::cli) type Judged = (JobId, &'static str, String);

pub(super) async fn run(
    global: &Global,
    manifest: &Manifest,
    tenant: &Name,
    query: &str,
    path: Option<&Path>,
) -> anyhow::Result<Exit> {
    let sandbox = sandbox::small(manifest, sandbox::compiler(manifest)?)?;
    let (mut by, words) = match path {
        Some(path) => (By::Another(load(&sandbox, path).await?), OF_ANOTHER),
        None => (By::Recorded(sandbox, BTreeMap::new()), OF_RECORDED),
    };
    let server = global.way(&global.manifest_without_secrets()?)?.served().await?;
    let judged = judge_by(&mut by, &server, manifest, tenant, query, usize::MAX).await;
    server.end().await;
    let judged = judged?;
    if global.json {
        for (job, verdict, detail) in &judged {
            screen::document(&json!({ "job": job, "verdict": verdict.replace(' ', "-"), "detail": detail }))?;
        }
    } else if judged.is_empty() {
        screen::note("there is no such job");
    } else {
        let mut table = Table::new(&["JOB", "VERDICT", "DETAIL"]).last_below();
        for (job, verdict, detail) in &judged {
            table.row([job.to_string(), (*verdict).to_owned(), detail.clone()]);
        }
        table.print()?;
        screen::note(&count(&judged, words));
    }
    let is_good = judged.iter().all(|(_, verdict, _)| *verdict == words[0]);
    Ok(if is_good { Exit::Done } else { Exit::Failed })
}

/// How many of each kind another component makes.
pub(in crate::cli) fn counts(judged: &[Judged]) -> String {
    count(judged, OF_ANOTHER)
}

fn count(judged: &[Judged], words: [&str; 4]) -> String {
    let count = |word: &str| judged.iter().filter(|(_, verdict, _)| *verdict == word).count();
    words.map(|word| format!("{} {word}", count(word))).join(", ")
}

/// Judges by a component the first `most` jobs that fit.
pub(in crate::cli) async fn judge(
    server: &Served,
    component: &Component,
    manifest: &Manifest,
    tenant: &Name,
    query: &str,
    most: usize,
) -> anyhow::Result<Vec<Judged>> {
    judge_by(&mut By::Another(component.clone()), server, manifest, tenant, query, most).await
}

/// Which component does the jobs again.
enum By {
    Another(Component),
    /// Each by the version that it had; those that were loaded so far.
    Recorded(Sandbox, BTreeMap<Version, Component>),
}

async fn judge_by(
    by: &mut By,
    server: &Served,
    manifest: &Manifest,
    tenant: &Name,
    query: &str,
    most: usize,
) -> anyhow::Result<Vec<Judged>> {
    let (mut judged, mut after) = (Vec::new(), None);
    loop {
        let page = server.find(tenant, query, after.as_ref(), PAGE).await?;
        for view in page.jobs.into_iter().take(most - judged.len()) {
            let (verdict, detail) = match by.judge(server, manifest, tenant, &view.id).await {
                Ok(known) => known,
                Err(error) => ("not replayed", format!("{error:#}")),
            };
            judged.push((view.id, verdict, detail));
        }
        after = page.next;
        if after.is_none() || judged.len() >= most {
            return Ok(judged);
        }
    }
}

impl By {
    async fn judge(
        &mut self,
        server: &Served,
        manifest: &Manifest,
        tenant: &Name,
        id: &JobId,
    ) -> anyhow::Result<(&'static str, String)> {
        let recorded = Exported::of(server, tenant, id).await?.recorded()?;
        let is_another = matches!(self, Self::Another(_));
        let component = self.component(server, manifest, &recorded).await?;
        let (replayed, _) = recorded.replay(&component, manifest, &recorded.topic()?).await?;
        Ok(match &replayed.verdict {
            ReplayVerdict::AsksElse(diverged) => ("asks something else", diverged.to_string()),
            ReplayVerdict::Same if !is_another => ("same", String::new()),
            ReplayVerdict::Differs(differences) if !is_another => ("differs", differences.join("; ")),
            _ if is_good(&replayed, false) => ("mended", String::new()),
            _ => {
                let outcome = invoke::outcome(&replayed.report.outcome);
                ("still fails", outcome.lines().next().unwrap_or_default().to_owned())
            }
        })
    }

    async fn component(
        &mut self,
        server: &Served,
        manifest: &Manifest,
        recorded: &Recorded,
    ) -> anyhow::Result<Component> {
        let (sandbox, loaded) = match self {
            Self::Another(component) => return Ok(component.clone()),
            Self::Recorded(sandbox, loaded) => (sandbox, loaded),
        };
        let version = recorded.version();
        if let Some(component) = loaded.get(&version) {
            return Ok(component.clone());
        }
        let wasm = kept_component(server, manifest, recorded).await?;
        let wasm = wasm.ok_or_else(|| anyhow!("version {version} is neither here nor on the server"))?;
        let component = sandbox.load(&wasm).await?;
        loaded.insert(version, component.clone());
        Ok(component)
    }
}
