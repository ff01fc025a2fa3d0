//! What a component costs by itself: in the sandbox alone, with no queue around it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde::Serialize;

use super::progress::Progress;
use super::test_bed::{read, temporary_folder};
use gristmill_core::admission::{Rules, TenantRules};
use gristmill_core::job::{JobSpec, Payload};
use gristmill_core::topic::Topic;
use gristmill_sandbox::{Attempt, LogSink, Producers, Sandbox, SandboxSettings, Steps, Version};

/// Loads of a compiled component.
const LOADS: usize = 5;
/// Calls of an instance after its first.
const AGAIN: usize = 10;
/// Instances by default: as many as there is time for, within these.
const ROUNDS: std::ops::RangeInclusive<usize> = 11..=501;
const TIME: Duration = Duration::from_secs(2);

/// What is measured, and with which job.
#[derive(Debug, Clone)]
pub struct ComponentRun {
    /// The file of the component.
    pub component: PathBuf,
    /// Its limits and grants hold; it may enqueue to itself, and nothing comes of it.
    pub topic: Topic,
    /// The body of each job.
    pub body: Payload,
    /// Instances to start; `None` for as many as a reliable figure takes.
    pub rounds: Option<usize>,
    /// Where progress is shown.
    pub progress: Progress,
}

/// One row, as printed with `--json`. Times and fuel are medians.
#[derive(Debug, Clone, Serialize)]
pub struct ComponentFigure {
    /// The file of the component.
    pub component: PathBuf,
    /// The first digits of the SHA-256 of the component.
    pub version: String,
    /// What it is written in, if it says so.
    pub language: Option<String>,
    /// The tools that built it, as the file names them.
    pub tools: Vec<Tool>,
    /// Bytes of the component.
    pub bytes: u64,
    /// From the file to a component, never compiled before; most of it in the compiler's process.
    pub compile_ms: f64,
    /// Bytes of the compiled artifact.
    pub artifact_bytes: u64,
    /// From the file to a component, compiled before.
    pub load_ms: f64,
    /// Microseconds to start an instance.
    pub start_us: f64,
    /// Of a fresh instance.
    pub first_call_us: f64,
    /// Of an instance that has done the same job before.
    pub kept_call_us: f64,
    /// Fuel that a start costs.
    pub start_fuel: u64,
    /// Of the first job, without the start.
    pub job_fuel: u64,
    /// Fuel of a job in an instance that was kept.
    pub kept_job_fuel: u64,
    /// Linear memory.
    pub start_memory_bytes: u64,
    /// After eleven jobs.
    pub memory_bytes: u64,
    /// How the handler decided on the job.
    pub outcome: &'static str,
    /// Instances that were measured.
    pub rounds: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// Measures one component, in a sandbox with an empty cache.
///
/// # Errors
/// It does not load, or does not return normally from the job.
pub async fn component(run: &ComponentRun, sandbox: &SandboxSettings) -> anyhow::Result<ComponentFigure> {
    let wasm = read(&run.component)?;
    run.progress.begin(format!("{}", run.component.display()), run.rounds.unwrap_or(*ROUNDS.start()) + LOADS);
    let loads = loads(&wasm, sandbox, run).await?;
    let steps = steps(&loads.component, run).await?;
    let Producers { language, tools } = Producers::of(&wasm);
    let median_of = |of: fn(&Steps) -> Duration| micros(median(steps.iter().map(of)));
    Ok(ComponentFigure {
        component: run.component.clone(),
        version: Version::of(&wasm).to_string(),
        language,
        tools: tools.into_iter().map(|(name, version)| Tool { name, version }).collect(),
        bytes: wasm.len() as u64,
        compile_ms: micros(loads.cold) / 1000.0,
        artifact_bytes: loads.artifact_bytes,
        load_ms: micros(loads.warm) / 1000.0,
        start_us: median_of(|steps| steps.start),
        first_call_us: median_of(|steps| steps.first_call),
        kept_call_us: micros(median(steps.iter().flat_map(|steps| steps.kept_calls.iter().copied()))),
        start_fuel: median(steps.iter().map(|steps| steps.start_fuel)),
        job_fuel: median(steps.iter().map(|steps| steps.job_fuel)),
        kept_job_fuel: median(steps.iter().map(|steps| steps.kept_fuel)),
        start_memory_bytes: median(steps.iter().map(|steps| steps.start_memory_bytes)),
        memory_bytes: median(steps.iter().map(|steps| steps.memory_bytes)),
        outcome: steps.first().map_or("", |steps| steps.outcome.kind().into()),
        rounds: steps.len(),
    })
}

struct Loads {
    component: gristmill_sandbox::Component,
    cold: Duration,
    warm: Duration,
    artifact_bytes: u64,
}

async fn loads(wasm: &[u8], sandbox: &SandboxSettings, run: &ComponentRun) -> anyhow::Result<Loads> {
    let cache = temporary_folder()?;
    let sandbox = Sandbox::new(&SandboxSettings { cache: cache.path().to_owned(), ..sandbox.clone() })?;
    let begun = Instant::now();
    let mut component = sandbox.load(wasm).await?;
    let cold = begun.elapsed();
    let mut warm = Vec::with_capacity(LOADS);
    for _ in 0..LOADS {
        let begun = Instant::now();
        component = sandbox.load(wasm).await?;
        warm.push(begun.elapsed());
        run.progress.add(1);
    }
    Ok(Loads { component, cold, warm: median(warm), artifact_bytes: bytes_in(cache.path()) })
}

/// Of its files.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten();
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

/// One after the other, on one thread.
async fn steps(component: &gristmill_sandbox::Component, run: &ComponentRun) -> anyhow::Result<Vec<Steps>> {
    let attempt = attempt(run);
    let begun = Instant::now();
    let enough = |rounds: usize| match run.rounds {
        Some(wanted) => rounds >= wanted,
        None => rounds >= *ROUNDS.end() || rounds >= *ROUNDS.start() && begun.elapsed() >= TIME,
    };
    let mut all = Vec::new();
    while !enough(all.len()) {
        let steps = component.step_through(&attempt, AGAIN).await;
        let steps = steps.map_err(|outcome| {
            anyhow!("the component failed: {outcome:?}; give it a job that it can do with --data or --file")
        })?;
        all.push(steps);
        run.progress.add(1);
    }
    Ok(all)
}

fn attempt(run: &ComponentRun) -> Attempt {
    let topic = &run.topic;
    let itself = Rules::of(topic, TenantRules::ANY);
    Attempt {
        max_attempts: topic.retry.attempts,
        adapter: topic.adapter.clone(),
        grants: Arc::clone(&topic.grants),
        targets: Arc::new(HashMap::from([(topic.id.topic.clone(), itself)])),
        // Written, as under a runner, and dropped with the attempt.
        logs: LogSink::Collect(Arc::default()),
        ..Attempt::at(JobSpec::new(topic.id.clone(), run.body.clone()), topic.limits)
    }
}

fn median<T: Ord + Default>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    let middle = values.len() / 2;
    if middle < values.len() { std::mem::take(values.select_nth_unstable(middle).1) } else { T::default() }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([9, 1, 5]), 5);
        assert_eq!(median([2, 1]), 2);
        assert_eq!(median::<u64>([]), 0);
    }
}
