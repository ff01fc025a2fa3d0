//! From one save to the next: build, wait until the runner serves it, try it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tokio::sync::watch::Receiver;

use super::super::document::with;
use super::super::global::Global;
use super::super::project::NativeProject;
use super::super::project::build::{BuildSteps, Built, build};
use super::super::project::watch::{Watch, concerned};
use super::super::screen::{self, Closed};
use super::delays;
use super::grants::{self, Lacking};
use super::jobs;
use super::keys::{Key, Keys};
use super::native::{Native, Processes, is_output};
use super::runs::Runs;
use gristmill_config::ManifestError;
use gristmill_config::units::counted;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::{Capability, Demands};
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_sandbox::{Sandbox, Version};
use gristmill_store::Store;

/// A file that has just been checked serves after some milliseconds; a machine that stands still takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The projects below a folder, and the runner that serves them.
#[derive(Debug)]
pub(super) struct Session<'a> {
    global: &'a Global,
    watch: Watch,
    sandbox: Sandbox,
    runner: LocalRunner,
    /// None: no job is run.
    runs: Option<Runs>,
    /// Of the projects whose jobs are done without a component.
    native: Native,
    keys: Keys,
    /// What serves of each project.
    serving: BTreeMap<PathBuf, Serving>,
    /// Projects whose component is made of the sources of now.
    built: BTreeSet<PathBuf>,
    /// What each project lacks.
    lacking: BTreeMap<PathBuf, Vec<Lacking>>,
}

/// The runner in this process.
#[derive(Debug)]
pub(super) struct LocalRunner {
    pub(super) registry: Receiver<Arc<HandlerRegistry>>,
    pub(super) store: Arc<dyn Store>,
    /// Where its page is, if its server listens.
    pub(super) page: Option<String>,
}

#[derive(Debug)]
struct Serving {
    /// None: a process of the machine serves.
    version: Option<Version>,
    topics: Vec<TopicId>,
}

/// What a project needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Need {
    build: bool,
    /// Without a build, if its component is there: by what the manifest says now.
    check: bool,
    /// Also if it serves the same version as before.
    run: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        global: &'a Global,
        watch: Watch,
        sandbox: Sandbox,
        runner: LocalRunner,
        runs: Option<Runs>,
        native: Native,
        keys: Keys,
    ) -> Self {
        let (serving, built, lacking) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { global, watch, sandbox, runner, runs, native, keys, serving, built, lacking }
    }

    /// Builds every project once, and then what changes. Returns only if the output cannot be written. Dropping the future ends what is being
    /// built.
    pub(super) async fn work(mut self) -> anyhow::Error {
        match self.work_on().await {
            Err(error) => error,
            Ok(never) => match never {},
        }
    }

    async fn work_on(&mut self) -> anyhow::Result<Infallible> {
        let all = Need { build: true, check: true, run: true };
        let mut needs: BTreeMap<_, _> = self.watch.projects().into_iter().map(|project| (project, all)).collect();
        let mut noticed = None;
        loop {
            for (project, need) in &needs {
                self.serve(project, *need, noticed).await?;
            }
            screen::note("waiting for changes");
            let mut changes = loop {
                tokio::select! {
                    changes = self.watch.changed() => break changes,
                    key = self.keys.next() => self.press(key).await?,
                }
            };
            changes.paths.retain(|path| !self.native.keys().any(|project| is_output(project, path)));
            needs = plan(&self.watch.projects(), self.watch.manifest(), &changes.paths);
            noticed = Some(changes.noticed);
        }
    }

    /// Does what a key asks for. What fails is shown.
    async fn press(&mut self, key: Key) -> anyhow::Result<()> {
        match key {
            // The signal's token ends the session.
            Key::Quit => {}
            Key::Help => screen::note(Key::HELP),
            Key::RunAgain => {
                for project in self.watch.projects() {
                    self.serve(&project, Need { run: true, ..Need::default() }, None).await?;
                }
            }
            Key::JumpDelays => match delays::jump(&*self.runner.store).await {
                Ok(0) => screen::note("no job is delayed"),
                Ok(jumped) => screen::note(&format!("jumped over the delay of {}", counted(jumped, "job", "jobs"))),
                Err(error) => screen::note(&format!("error: {error}")),
            },
            Key::OpenPage => open(self.runner.page.as_deref()),
            Key::Grant => self.grant(),
        }
        Ok(())
    }

    /// Writes what is lacking into the manifest; the runner and this session read it when it has changed.
    fn grant(&self) {
        let lacking: Vec<_> = self.lacking.values().flatten().cloned().collect();
        if lacking.is_empty() {
            return screen::note("no grant is missing");
        }
        let written = self.global.manifest().and_then(|manifest| grants::write(&manifest, &lacking));
        match written {
            Err(error) => screen::note(&format!("error: {error:#}")),
            Ok(()) => {
                for (topic, lacking) in &lacking {
                    let names: Vec<_> = lacking.iter().map(|capability| capability.name()).collect();
                    screen::note(&format!("`{topic}` is granted {}", names.join(", ")));
                    if lacking.contains(&Capability::Http) {
                        screen::note("put the hosts that it asks into `allow`, in place of the.host.it.asks");
                    }
                }
            }
        }
    }

    /// One project, from a change to what comes of it. What fails is shown, and leaves what serves.
    async fn serve(&mut self, project: &Path, need: Need, noticed: Option<Instant>) -> anyhow::Result<()> {
        let before = self.serving.get(project).and_then(|serving| serving.version);
        if need.build {
            self.built.remove(project);
        }
        if (need.build || need.check)
            && let Err(error) = self.build(project, noticed).await
        {
            return self.failed(project, error);
        }
        let Some(Serving { version, topics }) = self.serving.get(project) else { return Ok(()) };
        if let Some(runs) = &mut self.runs
            && (need.run || version.is_none() || before != *version)
        {
            let registry = Arc::clone(&self.runner.registry.borrow());
            let topics: Vec<_> = topics.iter().filter_map(|topic| registry.get(topic).cloned()).collect();
            runs.again(self.global, project, &topics).await?;
        }
        Ok(())
    }

    async fn build(&mut self, project: &Path, noticed: Option<Instant>) -> anyhow::Result<()> {
        if let Some(processes) = self.native.get(project).cloned() {
            return self.restart(project, &processes, noticed).await;
        }
        // It may have changed.
        let manifest = self.global.manifest()?;
        let steps = if self.built.contains(project) { BuildSteps::None } else { BuildSteps::Build };
        let built = build(project, &manifest, &self.sandbox, steps).await?;
        self.built.insert(project.to_owned());
        let dropped = Instant::now();
        if !self.global.json {
            screen::note(&built.in_words());
            built.note_problems();
        }
        let (version, demands) = (Some(built.component.version()), built.component.demands());
        let lacking = manifest.topics_of(&built.name).into_iter().map(|topic| (topic.id.clone(), topic.lacks(demands)));
        let lacking: Vec<Lacking> = lacking.filter(|(_, lacking)| !lacking.is_empty()).collect();
        if !lacking.is_empty() && self.keys.are_read() {
            screen::note("press g to write these lines into the manifest");
        }
        self.lacking.insert(project.to_owned(), lacking);
        if !self.serving.contains_key(project) {
            self.learn(built.dropped.clone());
        }
        let topics = self.until_it_serves(&built.name, version, Some(demands)).await?;
        self.say(&built, &topics, dropped.elapsed(), noticed.map(|noticed| noticed.elapsed()))?;
        self.serving.insert(project.to_owned(), Serving { version, topics });
        Ok(())
    }

    /// Has the compiler know the functions of a component that was compiled before this session, so that the first save serves as soon as the
    /// others.
    fn learn(&self, component: PathBuf) {
        let sandbox = self.sandbox.clone();
        tokio::spawn(async move {
            if let Ok(wasm) = tokio::fs::read(component).await {
                sandbox.learn(&wasm.into()).await;
            }
        });
    }

    /// The same without a component.
    async fn restart(&mut self, project: &Path, processes: &Processes, noticed: Option<Instant>) -> anyhow::Result<()> {
        let began = Instant::now();
        let NativeProject { name, language, .. } = processes.restart().await?;
        let start = began.elapsed();
        let topics = self.until_it_serves(&name, None, None).await?;
        let whole = noticed.map(|noticed| noticed.elapsed());
        if self.global.json {
            screen::document(&json!({
                "kind": "native",
                "handler": name.as_str(),
                "language": language,
                "topics": topics.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "start_ms": ms(start),
                "since_save_ms": whole.map(ms),
            }))?;
        } else {
            let whole = after_the_save(whole);
            screen::note(&format!("`{name}` serves natively{whole}: start {start:.1?}"));
        }
        self.serving.insert(project.to_owned(), Serving { version: None, topics });
        Ok(())
    }

    /// Waits until the runner has the topics of the manifest, but for those that lack what is demanded, each with this version of the handler.
    /// Returns their names.
    async fn until_it_serves(
        &mut self,
        name: &Name,
        version: Option<Version>,
        demands: Option<&Demands>,
    ) -> anyhow::Result<Vec<TopicId>> {
        let global = self.global;
        let mut ids = Vec::new();
        let serves = |registry: &Arc<HandlerRegistry>| {
            // Each time as it is then: people save it while handlers are built.
            let Ok(manifest) = global.manifest() else { return false };
            let mut topics = manifest.topics_of(name);
            topics.retain(|topic| demands.is_none_or(|demands| topic.lacks(demands).is_empty()));
            ids = topics.iter().map(|topic| topic.id.clone()).collect();
            topics.iter().all(|topic| {
                let entry = registry.get(&topic.id).filter(|entry| entry.topic == *topic);
                entry.and_then(|entry| entry.handler.as_ref()).is_some_and(|handler| handler.version() == version)
            })
        };
        let is_served = tokio::time::timeout(PATIENCE, self.runner.registry.wait_for(serves))
            .await
            .is_ok_and(|served| served.is_ok());
        ensure!(is_served, "`{name}` does not serve {}; the log says why", in_words(version));
        Ok(ids)
    }

    /// How long each step took: of the whole from the save, if there was one.
    fn say(&self, built: &Built, topics: &[TopicId], swap: Duration, whole: Option<Duration>) -> anyhow::Result<()> {
        let (build, check) = built.took;
        if self.global.json {
            let topics: Vec<_> = topics.iter().map(ToString::to_string).collect();
            let document = with(
                built.as_document(),
                [
                    ("kind", "build".into()),
                    ("topics", topics.into()),
                    ("build_ms", ms(build).into()),
                    ("check_ms", ms(check).into()),
                    ("swap_ms", ms(swap).into()),
                    ("since_save_ms", json!(whole.map(ms))),
                ],
            );
            return screen::document(&document);
        }
        let (name, version) = (&built.name, built.component.version());
        if topics.is_empty() {
            screen::note(&format!("`{name}` does not serve version {version}: no topic grants what it imports"));
            return Ok(());
        }
        let whole = after_the_save(whole);
        let build = if build.is_zero() { String::new() } else { format!("build {build:.1?}, ") };
        screen::note(&format!("`{name}` serves version {version}{whole}: {build}check {check:.1?}, swap {swap:.1?}"));
        Ok(())
    }

    fn failed(&self, project: &Path, error: anyhow::Error) -> anyhow::Result<()> {
        if error.is::<Closed>() {
            return Err(error);
        }
        if self.global.json {
            let project = project.to_string_lossy();
            return screen::document(&json!({ "kind": "failed", "project": project, "message": format!("{error:#}") }));
        }
        match error.downcast_ref::<ManifestError>() {
            Some(invalid @ ManifestError::Invalid { .. }) => screen::note_rendered(|colour| invalid.render(colour)),
            _ => screen::note(&format!("error: {error:#}")),
        }
        if let Some(Serving { version, topics }) = self.serving.get(project)
            && !topics.is_empty()
        {
            screen::note(&format!("{} goes on serving", in_words(*version)));
        }
        Ok(())
    }
}

/// Opens the page in a browser, or says where it is.
fn open(page: Option<&str>) {
    let Some(page) = page else { return screen::note("there is no page: [http] listens nowhere") };
    let opens = |program: &str| {
        let mut command = std::process::Command::new(program);
        command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
    };
    let is_opened = ["xdg-open", "open"].into_iter().any(opens);
    screen::note(&if is_opened { format!("the page is at {page}") } else { format!("open {page} in a browser") });
}

fn in_words(version: Option<Version>) -> String {
    version.map_or_else(|| "the version before".into(), |version| format!("version {version}"))
}

fn after_the_save(whole: Option<Duration>) -> String {
    whole.map(|whole| format!(", {whole:.1?} after the save")).unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

/// What each project needs after these files have changed.
fn plan(projects: &[PathBuf], manifest: Option<&Path>, changed: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, Need> {
    let mut needs: BTreeMap<PathBuf, Need> = BTreeMap::new();
    for path in changed {
        let is_manifest = manifest == Some(path);
        for project in concerned(projects, manifest, path) {
            let is_job = jobs::is_job(path) && path.starts_with(project.join(jobs::FOLDER));
            let need = needs.entry(project.to_owned()).or_default();
            need.build |= !is_job && !is_manifest;
            need.check |= is_manifest;
            need.run |= is_job || is_manifest;
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_run_a_source_is_built_and_by_a_manifest_all_are_checked_and_run() {
        let projects = ["/p/a", "/p/b"].map(PathBuf::from);
        let manifest = PathBuf::from("/p/gristmill.toml");
        let plan = |paths: &[&str]| {
            let changed = paths.iter().map(PathBuf::from).collect();
            plan(&projects, Some(&manifest), &changed)
        };
        let need = |build, run| Need { build, run, ..Need::default() };
        let of = |project: &str, need| (PathBuf::from(project), need);
        assert_eq!(plan(&["/p/a/src/lib.rs"]), BTreeMap::from([of("/p/a", need(true, false))]));
        assert_eq!(plan(&["/p/b/jobs/ada.json"]), BTreeMap::from([of("/p/b", need(false, true))]));
        assert_eq!(plan(&["/p/b/jobs/read.me", "/p/b/jobs/x.json"]), BTreeMap::from([of("/p/b", need(true, true))]));
        let check = Need { check: true, ..need(false, true) };
        let both = BTreeMap::from([of("/p/a", check), of("/p/b", check)]);
        assert_eq!(plan(&["/p/gristmill.toml"]), both);
    }
}
