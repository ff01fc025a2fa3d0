//! What a program that embeds Gristmill relies on: its settings stay, its native handlers serve, its faults are named.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gristmill::Gristmill;
use gristmill::config::{Listen, Manifest};
use gristmill::handlers::Reloader;
use gristmill::job::{Due, JobSpec, NewJob, Payload, TopicId};
use gristmill::runner::native::{HandlerError, NativeHandler, NativeJob};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{drop_in, sandbox};
use gristmill_tests::wait::{SOON, until};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The log lines of this thread.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(lines))
    }

    fn count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock()).matches(words).count()
    }
}

/// A manifest for a folder of its own, as a text that is in no file.
fn manifest(folder: &Path, text: &str) -> Manifest {
    let text = format!("[handlers]\nfolder = {:?}\nrescan = \"100ms\"\n{text}", folder.join("handlers"));
    Manifest::parse(&text, &folder.join("gristmill.toml")).unwrap()
}

async fn reloader(manifest: Manifest) -> Reloader {
    let native = NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(()));
    let native = BTreeMap::from([("greet".parse().unwrap(), native)]);
    Reloader::start(manifest, native, sandbox(), Arc::default()).await.unwrap()
}

#[tokio::test]
async fn settings_that_come_from_no_file_stay_when_a_manifest_appears() {
    let folder = TempDir::new().unwrap();
    let reloader = reloader(manifest(folder.path(), "[topics.kept]\nhandler = \"greet\"")).await;
    let registry = reloader.registry();
    let stop = CancellationToken::new();
    let run = tokio::spawn(reloader.run(stop.clone()));
    std::fs::write(folder.path().join("gristmill.toml"), "[topics.other]\nhandler = \"greet\"").unwrap();
    // What reads this file has looked for the manifest before.
    drop_in(&folder.path().join("handlers"), "broken", b"no component");
    until("the folder to be read", SOON, async || {
        registry.borrow().refused(&"broken".parse().unwrap()).is_some().then_some(())
    })
    .await;
    let topics: Vec<String> = registry.borrow().entries().map(|entry| entry.topic.id.to_string()).collect();
    assert!(topics.contains(&"kept".into()) && !topics.contains(&"other".into()), "{topics:?}");
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn a_native_handler_of_a_topic_in_the_manifest_is_not_missing() {
    let (log, _guard) = Log::begin();
    let folder = TempDir::new().unwrap();
    let handlers = folder.path().join("handlers");
    std::fs::create_dir(&handlers).unwrap();
    drop_in(&handlers, "greet", &std::fs::read(guests::ECHO).unwrap());
    let reloader = reloader(manifest(folder.path(), "[topics.greet]\n[topics.without]")).await;
    let registry = reloader.registry();
    assert_eq!((log.count("`greet`"), log.count("`without`")), (0, 1), "{log:?}");
    let entry = registry.borrow().get(&"greet".parse().unwrap()).cloned().unwrap();
    assert_eq!(entry.handler.as_ref().unwrap().code.to_string(), "native");

    let stop = CancellationToken::new();
    let run = tokio::spawn(reloader.run(stop.clone()));
    for name in ["one", "two"] {
        drop_in(&handlers, name, &std::fs::read(guests::ECHO).unwrap());
        let topic: TopicId = name.parse().unwrap();
        until("the component to serve", SOON, async || {
            registry.borrow().get(&topic).is_some_and(|entry| entry.handler.is_some()).then_some(())
        })
        .await;
    }
    assert_eq!(log.count("a native handler has this name"), 1, "said once, not at each reload: {log:?}");
    stop.cancel();
    run.await.unwrap();
}

async fn embedded() -> (Gristmill, TempDir) {
    let folder = TempDir::new().unwrap();
    let builder = Gristmill::builder().store("sqlite::memory:").unwrap().listen(Listen::Off);
    (builder.handlers(folder.path()).start().await.unwrap(), folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_of_a_new_tenant_becomes_ready_at_once() {
    let (gristmill, _folder) = embedded().await;
    let topic: TopicId = "new/topic".parse().unwrap();
    let spec = JobSpec::new(topic.clone(), Payload::default());
    gristmill.push(NewJob { spec, due: Due::After(Duration::from_millis(50)) }).await.unwrap();
    // The runner asks the store for tenants every five minutes: far more than this takes.
    until("the job to be ready", SOON, async || {
        let counts = gristmill.store().counts(&topic.tenant).await.unwrap();
        (counts.first().map(|counts| counts.ready) == Some(1)).then_some(())
    })
    .await;
    gristmill.shutdown(CancellationToken::new()).await;
}
