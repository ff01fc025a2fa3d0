//! A hundred components in one folder: how they start, in which order they are compiled, and what they hold.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gristmill::config::Manifest;
use gristmill::handlers::{Code, Folder, HandlerRegistry, Reloader};
use gristmill::job::{JobSpec, Name, Payload, TopicId};
use gristmill::outcome::Outcome;
use gristmill::sandbox::{Attempt, CompilerSettings, Component, Sandbox, SandboxSettings};
use gristmill::store::JobState;
use gristmill::topic::Limits;
use gristmill_tests::test_runner::{TestRunner, drop_in};
use gristmill_tests::wait::{SOON, until};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const MANY: usize = 100;

/// A handler of a few hundred bytes that completes every job, unlike any other number's.
fn numbered(number: usize) -> Vec<u8> {
    let core = format!(
        r#"(module
          (memory (export "memory") 1)
          (global $top (mut i32) (i32.const 8192))
          (data (i32.const 3000) "{number:04} {}")
          (func (export "cabi_realloc") (param i32 i32 i32) (param $n i32) (result i32)
            (local $p i32)
            (local.set $p (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
            (global.set $top (i32.add (local.get $p) (local.get $n)))
            (local.get $p))
          (func (export "gristmill:job/handler@0.1.0#handle") (param i32) (result i32) (i32.const 1024)))"#,
        fastrand::u64(..)
    );
    wat::parse_str(core).unwrap()
}

/// A folder of components, and a cache of its own.
struct Place(TempDir);

impl Place {
    fn new(components: usize) -> Self {
        let place = Self(TempDir::with_prefix("gristmill-").unwrap());
        fs::create_dir(place.handlers()).unwrap();
        (0..components).for_each(|number| drop_in(&place.handlers(), &name(number), &numbered(number)));
        place
    }

    fn handlers(&self) -> PathBuf {
        self.0.path().join("handlers")
    }

    fn cache(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("cache")
    }

    /// One that compiles in this process: these components are tiny.
    fn sandbox(&self) -> Sandbox {
        let compiler = CompilerSettings { timeout: Duration::from_secs(600), ..CompilerSettings::default() };
        Sandbox::new(&SandboxSettings { concurrency: 2, cache: self.cache(), compiler }).unwrap()
    }

    async fn reloader(&self, sandbox: &Sandbox) -> Reloader {
        let mut manifest = Manifest::default_at(Path::new("."));
        manifest.file = None;
        manifest.handlers.folder = self.handlers();
        Reloader::start(manifest, BTreeMap::new(), sandbox.clone(), Arc::default()).await.unwrap()
    }

    /// The artifacts that this process has open.
    fn open_files(&self) -> usize {
        let (files, cache) = (fs::read_dir("/proc/self/fd").unwrap().flatten(), self.cache());
        let is_artifact = |path: PathBuf| path.starts_with(&cache) && path.extension().is_some_and(|it| it == "cwasm");
        files.filter(|file| fs::read_link(file.path()).is_ok_and(is_artifact)).count()
    }

    /// Mappings of files of the cache.
    fn mappings(&self) -> usize {
        let cache = self.cache();
        fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .filter(|line| line.contains(cache.to_str().unwrap()))
            .count()
    }
}

fn name(number: usize) -> String {
    format!("many-{number:03}")
}

fn component(registry: &HandlerRegistry, name: &str) -> Option<Component> {
    let topic: TopicId = name.parse().unwrap();
    match &registry.get(&topic)?.handler.as_ref()?.code {
        Code::Component(component) => Some(component.clone()),
        Code::Native(_) => None,
    }
}

fn served(registry: &HandlerRegistry) -> usize {
    registry.entries().filter(|entry| entry.handler.is_some()).count()
}

async fn run(component: &Component) -> Outcome {
    let spec = JobSpec::new("many".parse().unwrap(), Payload::default());
    component.invoke(Attempt::at(spec, Limits::default())).await.outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_handlers_are_compiled_behind_the_start_and_then_start_unmapped() {
    let place = Place::new(MANY);
    let reloader = place.reloader(&place.sandbox()).await;
    let mut registry = reloader.registry();
    let first = registry.borrow().clone();
    assert_eq!((first.entries().count(), served(&first)), (MANY, 0), "their topics are there, and their jobs wait");
    assert!(first.known_topics().unknown(&name(7).parse().unwrap()).is_none());
    assert_eq!(first.to_compile(), MANY);
    let stop = CancellationToken::new();
    let reloading = tokio::spawn(reloader.run(stop.clone()));
    let all = tokio::time::timeout(10 * SOON, registry.wait_for(|registry| served(registry) == MANY)).await;
    drop(all.expect("all are compiled").unwrap());
    assert_eq!(place.open_files(), 0);
    stop.cancel();
    reloading.await.unwrap();
    drop((first, registry));

    let sandbox = place.sandbox();
    let reloader = place.reloader(&sandbox).await;
    let registry = reloader.registry().borrow().clone();
    assert_eq!((served(&registry), registry.to_compile()), (MANY, 0));
    assert_eq!((sandbox.mapped(), place.open_files(), place.mappings()), (0, 0, 0));
    assert_eq!(run(&component(&registry, &name(3)).unwrap()).await, Outcome::Complete(None));
    assert_eq!((sandbox.mapped(), place.open_files()), (1, 1));
    assert!(place.mappings() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_whose_jobs_wait_are_compiled_before_others() {
    const AT_ONCE: usize = gristmill::sandbox::COMPILES_AT_ONCE;
    let place = Place::new(20);
    let mut folder = Folder::new(place.handlers(), place.sandbox());
    folder.look().unwrap();
    while folder.is_reading() {
        folder.loaded().await;
    }
    let wanted: Name = name(19).parse().unwrap();
    folder.backlog().demand(&name(19).parse().unwrap(), &wanted);
    while !folder.handlers().contains_key(&wanted) {
        folder.loaded().await;
    }
    let others = folder.handlers().len() - 1;
    // Those that the compiler had begun with, and those that ran beside it.
    assert!(others < 20 - AT_ONCE, "{others} of the others came first");
    while folder.is_loading() {
        folder.loaded().await;
    }
    assert_eq!((folder.handlers().len(), folder.backlog().len()), (20, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_whose_artifact_is_damaged_after_the_start_is_compiled_again() {
    let place = Place::new(1);
    place.sandbox().load(&fs::read(place.handlers().join("many-000.wasm")).unwrap()).await.unwrap();
    let reloader = place.reloader(&place.sandbox()).await;
    let registry = reloader.registry();
    let before = component(&registry.borrow(), &name(0)).unwrap();
    let files = fs::read_dir(place.cache()).unwrap().map(|entry| entry.unwrap().path());
    for artifact in files.filter(|path| path.is_file()) {
        fs::set_permissions(&artifact, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&artifact, "damaged").unwrap();
    }
    assert!(matches!(run(&before).await, Outcome::HostFault(_)));
    let stop = CancellationToken::new();
    let reloading = tokio::spawn(reloader.run(stop.clone()));
    until("it to be compiled again", SOON, async || {
        let again = component(&registry.borrow(), &name(0)).filter(|again| again.version() == before.version())?;
        (run(&again).await == Outcome::Complete(None)).then_some(())
    })
    .await;
    stop.cancel();
    reloading.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_while_many_handlers_are_compiled_and_readyz_counts_those() {
    let runner = TestRunner::start("", &[("echo", gristmill_tests::guests::ECHO)]).await;
    (0..12).for_each(|number| runner.drop_in(&name(number), &numbered(number)));
    let last = runner.push(&name(11), b"").await;
    let ready = runner.client().get("/readyz").await;
    assert!(ready.status == 200, "{}", ready.text());
    assert_eq!(runner.work("echo", b"x").await.state, JobState::Finished);
    assert_eq!(runner.end_of(&last).await.state, JobState::Finished);
    for number in 0..12 {
        assert_eq!(runner.work(&name(number), b"").await.state, JobState::Finished);
    }
    let ready = runner.client().get("/readyz").await.text();
    assert!(!ready.contains("compiled"), "{ready}");
}
