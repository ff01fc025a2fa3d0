//! New components: how soon one that is renamed into the folder does jobs, and how soon a runner with many is ready.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::figure::{Figure, Spread};
use super::load::job;
use super::stopwatch::figure;
use super::test_bed::{TestBed, read, temporary_folder};
use super::usage;
use super::variant::variant;
use gristmill_config::Manifest;
use gristmill_core::job::Due;
use gristmill_core::topic::Limits;
use gristmill_runner::AttemptRecord;
use gristmill_runner::handlers::{Code, Handler, Reloader};
use gristmill_sandbox::{Component, Sandbox, SandboxSettings, Version};

/// A version replaces the one before, again and again, on a runner that does one job after the other: from the rename of
/// the file to the start of the first job on the new version. `compiled`: it was compiled some time before; else it
/// never was.
///
/// # Errors
/// If the component does not load, or the store fails.
pub async fn reload(bed: &TestBed, sandbox: &Sandbox, compiled: bool, reloads: usize) -> anyhow::Result<Figure> {
    let case = if compiled { "compiled before" } else { "never compiled" };
    bed.settings.progress.begin(format!("reload: {case}"), reloads);
    let folder = Folder::new()?;
    let bytes = read(&bed.settings.handler)?;
    folder.put(bed, &bytes)?;
    let reloader = Reloader::start(folder.manifest(), BTreeMap::new(), sandbox.clone(), Arc::default()).await?;
    let (sender, mut records) = mpsc::unbounded_channel();
    let observer = Arc::new(move |record: &AttemptRecord| drop(sender.send(record.clone())));
    let runner = bed.observed(reloader.registry(), observer)?;
    let stop = CancellationToken::new();
    let reloading = tokio::spawn(reloader.run(stop.clone()));

    let mut delays = Vec::with_capacity(reloads);
    for number in 0..reloads {
        // Never seen before in this cache, whichever process made it.
        let next = variant(&bytes, &format!("{} {number}", ulid::Ulid::generate()));
        let version = if compiled { sandbox.load(&next).await?.version() } else { Version::of(&next) };
        let renamed = folder.put(bed, &next)?;
        delays.push(first_on(bed, version, &mut records).await?.saturating_duration_since(renamed));
        bed.settings.progress.add(1);
    }
    runner.end().await;
    stop.cancel();
    reloading.await?;
    Ok(Figure { delay: Spread::of(delays), ..figure(bed, "reload", reloads).case(case) })
}

/// Pushes one job after the other until one starts on this version; returns when.
async fn first_on(
    bed: &TestBed,
    version: Version,
    records: &mut mpsc::UnboundedReceiver<AttemptRecord>,
) -> anyhow::Result<Instant> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        bed.store.store.push(&[job(bed, Due::Now)]).await?;
        let Some(record) = records.recv().await else { break };
        if let Some(run) = record.run.filter(|run| run.version == Some(version)) {
            return Ok(run.started);
        }
    }
    bail!("version {version} did no job within {PATIENCE:?}")
}

/// A folder of many components that were all compiled before: from nothing to a runner that works on all of them. A
/// sandbox, too, is made anew each time. Then what the process holds for the components: after the start, and once an instance of
/// each has started.
///
/// # Errors
/// If a component does not load, or the store fails.
pub async fn start(
    bed: &TestBed,
    settings: &SandboxSettings,
    components: usize,
    starts: usize,
) -> anyhow::Result<Vec<Figure>> {
    bed.settings.progress.begin(format!("start: {components} components"), components + starts);
    let folder = Folder::new()?;
    let bytes = read(&bed.settings.handler)?;
    let sandbox = Sandbox::new(settings)?;
    for number in 0..components {
        let component = variant(&bytes, &number.to_string());
        sandbox.load(&component).await?;
        let name = format!("bench-{number}.wasm");
        std::fs::write(folder.0.path().join(name), &component)?;
        bed.settings.progress.add(1);
    }
    drop(sandbox);
    let mut delays = Vec::with_capacity(starts);
    let mut measured = [ProcessUsage::default(); 2];
    for _ in 0..starts {
        let begun = Instant::now();
        let sandbox = Sandbox::new(settings)?;
        let before = ProcessUsage::now();
        let reloader = Reloader::start(folder.manifest(), BTreeMap::new(), sandbox, Arc::default()).await?;
        let registry = reloader.registry().borrow().clone();
        let loaded = registry.entries().filter_map(|entry| entry.handler.as_ref()).filter_map(component_of);
        let loaded: Vec<&Component> = loaded.collect();
        let runner = bed.observed(reloader.registry(), Arc::new(|_| ()))?;
        delays.push(begun.elapsed());
        let started = ProcessUsage::now().since(before);
        runner.end().await;
        ensure!(loaded.len() == components, "{} of {components} components were loaded", loaded.len());
        for component in &loaded {
            component.try_start(&Limits::default()).await.map_err(anyhow::Error::msg)?;
        }
        measured = [started, ProcessUsage::now().since(before)];
        bed.settings.progress.add(1);
    }
    let case = format!("{components} components, compiled before");
    let [started, mapped] = measured;
    let start = Figure { delay: Spread::of(delays), ..figure(bed, "start", starts).case(case) };
    let used = figure(bed, "start", components).case(format!("{components} components, each started once"));
    Ok(vec![started.of(start), mapped.of(used)])
}

fn component_of(handler: &Handler) -> Option<&Component> {
    match &handler.code {
        Code::Component(component) => Some(component),
        Code::Native(_) => None,
    }
}

/// What this process holds.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessUsage {
    memory_bytes: u64,
    open_files: u64,
    mappings: u64,
}

impl ProcessUsage {
    fn now() -> Self {
        Self { memory_bytes: usage::own_memory(), open_files: usage::open_files(), mappings: usage::mappings() }
    }

    fn since(self, before: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.saturating_sub(before.memory_bytes),
            open_files: self.open_files.saturating_sub(before.open_files),
            mappings: self.mappings.saturating_sub(before.mappings),
        }
    }

    fn of(self, figure: Figure) -> Figure {
        let Self { memory_bytes, open_files, mappings } = self;
        Figure { memory_bytes: Some(memory_bytes), open_files: Some(open_files), mappings: Some(mappings), ..figure }
    }
}

/// A handlers folder.
struct Folder(TempDir);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        temporary_folder().map(Self)
    }

    fn manifest(&self) -> Manifest {
        let mut manifest = Manifest::default_at(Path::new("."));
        manifest.file = None;
        manifest.handlers.folder = self.0.path().to_owned();
        manifest
    }

    /// Writes the component of the bed's topic beside its place and renames it there; returns when it was renamed.
    fn put(&self, bed: &TestBed, component: &[u8]) -> anyhow::Result<Instant> {
        let landing = self.0.path().join(".landing");
        std::fs::write(&landing, component)?;
        let renamed = Instant::now();
        let target = self.0.path().join(format!("{}.wasm", bed.topic.topic));
        std::fs::rename(landing, target)?;
        Ok(renamed)
    }
}
