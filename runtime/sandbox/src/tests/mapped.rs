//! Components that were compiled before: when their code is mapped, and when it goes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guest::{core_module, handler};
use super::{attempt, limited, sandbox, settings};
use crate::{Component, Sandbox};
use gristmill_core::outcome::Outcome;

/// A handler that differs from those of other numbers.
fn numbered(number: usize) -> Vec<u8> {
    handler(&format!("(data (i32.const 3000) \"{number:04}\")"), "(call $done)")
}

/// Takes it into the cache, with another sandbox than the test's.
async fn compile(cache: &Path, wasm: &[u8]) {
    sandbox(cache).prepare(wasm).await.unwrap().keep().await;
}

/// Finds it in the cache.
async fn found(sandbox: &Sandbox, wasm: Vec<u8>) -> Component {
    sandbox.find(&Arc::from(wasm)).await.unwrap().unwrap().keep().await
}

/// The files of the cache that this process has open.
fn open_files(cache: &Path) -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    files.filter(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(cache))).count()
}

async fn works(component: &Component) {
    assert_eq!(component.invoke(attempt("")).await.outcome, Outcome::Complete(None));
}

#[tokio::test]
async fn code_is_mapped_for_the_first_job_and_says_the_same_as_the_facts() {
    let cache = tempfile::tempdir().unwrap();
    let wasm = numbered(0);
    let loaded = sandbox(cache.path()).load(&wasm).await.unwrap();
    let sandbox = sandbox(cache.path());
    let component = found(&sandbox, wasm).await;
    let all = |component: &Component| {
        let names = [component.imports().to_vec(), component.exports().to_vec()];
        (component.version(), component.kind(), names, component.demands().clone(), component.needs())
    };
    assert_eq!(all(&component), all(&loaded));
    drop(loaded);
    assert_eq!((sandbox.mapped(), open_files(cache.path())), (0, 0));
    works(&component).await;
    assert_eq!((sandbox.mapped(), open_files(cache.path())), (1, 1));
    drop(component);
    assert_eq!((sandbox.mapped(), open_files(cache.path())), (0, 0));
}

#[tokio::test]
async fn the_code_that_was_not_used_for_longest_goes_and_comes_back() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(&settings(cache.path()), 2).unwrap();
    let mut components = Vec::new();
    for number in 0..3 {
        compile(cache.path(), &numbered(number)).await;
        components.push(found(&sandbox, numbered(number)).await);
    }
    let is_mapped = |number: usize| components[number].code_if_mapped().is_some();
    for number in [0, 1, 0, 2] {
        works(&components[number]).await;
    }
    assert_eq!([is_mapped(0), is_mapped(1), is_mapped(2)], [true, false, true]);
    works(&components[1]).await;
    assert_eq!([is_mapped(0), is_mapped(1), is_mapped(2)], [false, true, true]);
    assert_eq!((sandbox.mapped(), open_files(cache.path())), (2, 2));
}

#[tokio::test]
async fn an_attempt_keeps_the_code_that_it_began_with() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(&settings(cache.path()), 1).unwrap();
    let endless = handler("", "(loop $for_ever (br $for_ever)) (call $done)");
    for wasm in [&endless, &numbered(0)] {
        compile(cache.path(), wasm).await;
    }
    let (endless, other) = (found(&sandbox, endless).await, found(&sandbox, numbered(0)).await);
    let running =
        endless.invoke(limited("", |limits| (limits.fuel, limits.timeout) = (50_000_000, Duration::from_secs(600))));
    let mut running = Box::pin(running);
    while sandbox.mapped() == 0 {
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut running).await.is_err());
    }
    works(&other).await;
    assert_eq!(sandbox.mapped(), 1);
    assert!(matches!(running.await.outcome, Outcome::OutOfFuel { .. }));
}

#[tokio::test]
async fn the_time_that_mapping_takes_is_not_the_jobs() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = sandbox(cache.path());
    sandbox.prepare(&numbered(0)).await.unwrap().keep().await;
    let component = found(&sandbox, numbered(0)).await;
    let turns = component.all_turns().await;
    let begun = Instant::now();
    let mut job = Box::pin(component.invoke(attempt("")));
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut job).await.is_err());
    let waited = begun.elapsed();
    drop(turns);
    let report = job.await;
    assert_eq!(report.outcome, Outcome::Complete(None));
    assert!(report.duration <= begun.elapsed() - waited, "{:?} of {:?}", report.duration, begun.elapsed());
}

fn artifact(cache: &Path) -> PathBuf {
    let mut files = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "cwasm")).unwrap()
}

#[tokio::test]
async fn an_artifact_that_is_gone_or_damaged_is_reported_and_compiled_again() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = sandbox(cache.path());
    let damages: [fn(&Path); 2] = [
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
            let mut bytes = fs::read(path).unwrap();
            bytes[100] ^= 1;
            fs::write(path, bytes).unwrap();
        },
    ];
    for damage in damages {
        compile(cache.path(), &numbered(0)).await;
        let component = found(&sandbox, numbered(0)).await;
        damage(&artifact(cache.path()));
        let outcome = component.invoke(attempt("")).await.outcome;
        assert!(matches!(&outcome, Outcome::HostFault(why) if why.contains("compiled")), "{outcome:?}");
        assert_eq!(sandbox.lost().await, [component.version()]);
        assert!(sandbox.find(&Arc::from(numbered(0))).await.unwrap().is_none());
        works(&sandbox.prepare(&numbered(0)).await.unwrap().keep().await).await;
    }
}

#[tokio::test]
async fn trials_that_passed_are_remembered() {
    let cache = tempfile::tempdir().unwrap();
    let check = r#"(func (export "gristmill:job/self-test@0.1.0#check") (result i32) (i32.const 3000))"#;
    let wasm = core_module(check, "(call $done)");
    let prepared = sandbox(cache.path()).prepare(&wasm).await.unwrap();
    assert!(!prepared.component().passed_trials());
    assert!(!prepared.keep().await.passed_trials());
    let prepared = sandbox(cache.path()).prepare(&wasm).await.unwrap();
    assert!(!prepared.component().passed_trials());
    prepared.component().try_out().await.unwrap();
    prepared.keep().await;
    assert!(found(&sandbox(cache.path()), wasm).await.passed_trials());
}
