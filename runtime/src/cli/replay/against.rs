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
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_sandbox::{Component, ReplayVerdict, Replayed, Sandbox, Version};
use gristmill_store::QueryCursor;

/// Jobs in one answer of a server.
const PAGE: usize = 200;

/// For each job that a deployment replays, it looks at this many at most: those of which no body remains cannot be replayed.
const LOOKED_AT: usize = 10;

const MENDED: &str = "mended";
const STILL_COMPLETES: &str = "still completes";
/// A detail of that.
const OTHER_RESULT: &str = "with another result";
const STILL_FAILS: &str = "still fails";
const ASKS_ELSE: &str = "asks something else";
/// It completed, and no longer does, or asks something to which the recording has no answer.
const REGRESSED: &str = "regressed";
const SAME: &str = "same";
const DIFFERS: &str = "differs";
const NOT_REPLAYED: &str = "not replayed";

/// All of them, as they are counted.
const VERDICTS: [&str; 8] = [MENDED, STILL_COMPLETES, SAME, REGRESSED, STILL_FAILS, DIFFERS, ASKS_ELSE, NOT_REPLAYED];

/// A job, what a replay makes of it, and the detail.
type Judged = (JobId, &'static str, String);

/// Which jobs are replayed.
#[derive(Debug)]
pub(super) enum Which {
    /// Those that fit a query, of a tenant.
    Fit(Name, String),
    /// The last ones of a topic that were recorded, at most so many.
    Recorded(TopicId, usize),
}

pub(super) async fn run(
    global: &Global,
    manifest: &Manifest,
    which: Which,
    path: Option<&Path>,
) -> anyhow::Result<Exit> {
    let sandbox = sandbox::small(manifest, sandbox::compiler(manifest)?)?;
    let by = match path {
        Some(path) => By::Another(load(&sandbox, path).await?),
        None => By::Recorded(sandbox, BTreeMap::new()),
    };
    let server = global.way(&global.manifest_without_secrets()?)?.served().await?;
    let most = if let Which::Recorded(_, most) = which { most } else { usize::MAX };
    let none = match &which {
        Which::Fit(tenant, query) => format!("no job of tenant `{tenant}` fits `{query}`: nothing was replayed"),
        Which::Recorded(topic, _) => format!("no recording of topic `{topic}` is kept: nothing was replayed"),
    };
    let judged = Judge { by, server: &server, manifest }.all(which, |judged| judged.len() >= most).await;
    server.end().await;
    let judged = judged?;
    if global.json {
        for (job, verdict, detail) in &judged {
            screen::document(&json!({ "job": job, "verdict": verdict.replace(' ', "-"), "detail": detail }))?;
        }
    } else if judged.is_empty() {
        screen::note(&none);
    } else {
        let mut table = Table::new(&["JOB", "VERDICT", "DETAIL"]).last_below();
        for (job, verdict, detail) in &judged {
            table.row([job.to_string(), (*verdict).to_owned(), detail.clone()]);
        }
        table.print()?;
        screen::note(&counts(&judged));
    }
    // A mistyped name must not pass for success where this guards a release.
    let is_good = judged.iter().all(|(_, verdict, _)| [MENDED, STILL_COMPLETES, SAME].contains(verdict));
    Ok(if is_good && !judged.is_empty() { Exit::Done } else { Exit::Failed })
}

/// How many there are of each verdict that there is.
fn counts(judged: &[Judged]) -> String {
    let count = |word: &str| judged.iter().filter(|(_, verdict, _)| *verdict == word).count();
    let counts = VERDICTS.iter().map(|word| (count(word), word)).filter(|(count, _)| *count > 0);
    let mut said: Vec<_> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let changed = judged.iter().filter(|(.., detail)| detail == OTHER_RESULT).count();
    said.extend((changed > 0).then(|| format!("{changed} of them {OTHER_RESULT}")));
    said.join(", ")
}

/// What a component makes of the last `most` recorded jobs of a topic, in words: how many of each verdict, and a line for each job that regressed. Jobs that
/// cannot be replayed are passed over; it looks at no more than ten times `most`.
pub(in crate::cli) async fn judge_last(
    server: &Served,
    component: &Component,
    manifest: &Manifest,
    topic: &TopicId,
    most: usize,
) -> anyhow::Result<String> {
    let is_enough = |judged: &[Judged]| {
        let replayed = judged.iter().filter(|(_, verdict, _)| *verdict != NOT_REPLAYED).count();
        replayed >= most || judged.len() >= most.saturating_mul(LOOKED_AT)
    };
    let which = Which::Recorded(topic.clone(), most);
    let by = By::Another(component.clone());
    let mut judged = Judge { by, server, manifest }.all(which, is_enough).await?;
    judged.retain(|(_, verdict, _)| *verdict != NOT_REPLAYED);
    if judged.is_empty() {
        return Ok("no recorded job that can be replayed".into());
    }
    let regressed = judged.iter().filter(|(_, verdict, _)| *verdict == REGRESSED);
    let lines = regressed.map(|(job, verdict, detail)| format!("{verdict}: {job} {detail}"));
    Ok([counts(&judged)].into_iter().chain(lines).collect::<Vec<_>>().join("\n"))
}

/// Which component does the jobs again.
enum By {
    Another(Component),
    /// Each by the version that it had; those that were loaded so far.
    Recorded(Sandbox, BTreeMap<Version, Component>),
}

/// Does jobs again, and says what becomes of them.
struct Judge<'a> {
    by: By,
    server: &'a Served,
    manifest: &'a Manifest,
}

/// Jobs, page by page: after this place comes the next one.
enum Pages {
    Fit(Name, String, Option<QueryCursor>),
    Recorded(TopicId, Option<String>),
}

impl Pages {
    fn of(which: Which) -> Self {
        match which {
            Which::Fit(tenant, query) => Self::Fit(tenant, query, None),
            Which::Recorded(topic, _) => Self::Recorded(topic, None),
        }
    }

    /// Returns also whether it is the last one.
    async fn next(&mut self, server: &Served) -> anyhow::Result<(Vec<JobId>, bool)> {
        match self {
            Self::Fit(tenant, query, after) => {
                let page = server.find(tenant, query, after.as_ref(), PAGE).await?;
                *after = page.next;
                Ok((page.jobs.into_iter().map(|view| view.id).collect(), after.is_none()))
            }
            Self::Recorded(topic, after) => {
                let (ids, next) = server.recorded_jobs(topic, after.as_deref(), PAGE).await?;
                *after = next;
                Ok((ids, after.is_none()))
            }
        }
    }

    async fn fetch(&self, server: &Served, id: &JobId) -> anyhow::Result<Exported> {
        match self {
            Self::Fit(tenant, ..) => Exported::of(server, tenant, id, None).await,
            Self::Recorded(topic, _) => Exported::of(server, &topic.tenant, id, Some(topic)).await,
        }
    }
}

impl Judge<'_> {
    async fn all(&mut self, which: Which, is_enough: impl Fn(&[Judged]) -> bool) -> anyhow::Result<Vec<Judged>> {
        let (mut judged, mut pages) = (Vec::new(), Pages::of(which));
        loop {
            let (ids, is_last) = pages.next(self.server).await?;
            for id in ids {
                if is_enough(&judged) {
                    return Ok(judged);
                }
                let (verdict, detail) = match self.one(&pages, &id).await {
                    Ok(known) => known,
                    Err(error) => (NOT_REPLAYED, format!("{error:#}")),
                };
                judged.push((id, verdict, detail));
            }
            if is_last {
                return Ok(judged);
            }
        }
    }

    async fn one(&mut self, pages: &Pages, id: &JobId) -> anyhow::Result<(&'static str, String)> {
        let recorded = pages.fetch(self.server, id).await?.recorded()?;
        let is_another = matches!(self.by, By::Another(_));
        let component = self.component(&recorded).await?;
        let (replayed, _) = recorded.replay(&component, self.manifest, &recorded.topic()?).await?;
        Ok(if is_another { by_another(&recorded, &replayed) } else { as_before(&replayed) })
    }

    async fn component(&mut self, recorded: &Recorded) -> anyhow::Result<Component> {
        let (sandbox, loaded) = match &mut self.by {
            By::Another(component) => return Ok(component.clone()),
            By::Recorded(sandbox, loaded) => (sandbox, loaded),
        };
        let version = recorded.version();
        if let Some(component) = loaded.get(&version) {
            return Ok(component.clone());
        }
        let wasm = kept_component(self.server, self.manifest, recorded).await?;
        let wasm = wasm.ok_or_else(|| anyhow!("version {version} is neither here nor on the server"))?;
        let component = sandbox.load(&wasm).await?;
        loaded.insert(version, component.clone());
        Ok(component)
    }
}

/// What another component makes of a job, and the detail.
fn by_another(recorded: &Recorded, replayed: &Replayed) -> (&'static str, String) {
    let end = &recorded.recording.end;
    let completed = end.completed();
    if let ReplayVerdict::AsksElse(diverged) = &replayed.verdict {
        return match completed {
            true => (REGRESSED, format!("it completed, and now asks something else: {diverged}")),
            false => (ASKS_ELSE, diverged.to_string()),
        };
    }
    if replayed.again.is_none() {
        return (NOT_REPLAYED, "it could not be run here".to_owned());
    }
    let is_same_end = replayed.again.as_ref().is_some_and(|again| again.end.digest == end.digest);
    let outcome = invoke::outcome(&replayed.report.outcome);
    let outcome = outcome.lines().next().unwrap_or_default();
    match (completed, is_good(replayed, false)) {
        (true, true) if is_same_end => (STILL_COMPLETES, String::new()),
        (true, true) => (STILL_COMPLETES, OTHER_RESULT.to_owned()),
        (false, true) => (MENDED, String::new()),
        (true, false) => (REGRESSED, format!("it completed, and now fails: {outcome}")),
        (false, false) => (STILL_FAILS, outcome.to_owned()),
    }
}

/// What the component that was recorded makes of a job.
fn as_before(replayed: &Replayed) -> (&'static str, String) {
    match &replayed.verdict {
        ReplayVerdict::Same => (SAME, String::new()),
        ReplayVerdict::Differs(differences) => (DIFFERS, differences.join("; ")),
        ReplayVerdict::AsksElse(diverged) => (ASKS_ELSE, diverged.to_string()),
    }
}
