//! Components and manifests that change while jobs flow.

use std::time::{Duration, Instant, UNIX_EPOCH};

use gristmill::handlers::Folder;
use gristmill::job::{JobId, TopicId};
use gristmill::outcome::Verdict;
use gristmill::runner::AttemptRecord;
use gristmill::store::{JobState, ResultView};
use gristmill::token::Scope;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, drop_in, sandbox, tenant};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, MARKER, Script, Step};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::deployments::puppet;
use crate::tokens::token;

const MANIFEST: &str = r#"
    [handlers]
    rescan = "1h"
    [defaults]
    clock = true
    memory = "16MiB"
    [topics.puppet]
    attempts = 1
    timeout = "10m"
"#;

fn version_of(result: Option<ResultView>) -> u64 {
    let Some(ResultView::Complete(Some(payload))) = result else { panic!("no version but {result:?}") };
    String::from_utf8(payload.data).unwrap()[15..].parse().unwrap()
}

async fn serving(runner: &TestRunner) -> u64 {
    version_of(runner.work("puppet", &Script::end(End::Version).to_json()).await.result)
}

async fn wait_for_version(runner: &TestRunner, version: u64) {
    until(format!("version {version}"), SOON, async || (serving(runner).await == version).then_some(())).await;
}

/// What version of a topic's handler parks each of the jobs; none of one that is done.
async fn parked_by(runner: &TestRunner, jobs: &[JobId]) -> Vec<Option<String>> {
    let mut parked = Vec::new();
    for job in jobs {
        let view = runner.store.job(&tenant(), job).await.unwrap();
        parked.push(view.and_then(|view| view.last_failure?.parked_by));
    }
    parked
}

async fn until_dead(runner: &TestRunner, jobs: &[JobId]) {
    for job in jobs {
        assert!(matches!(runner.end_of(job).await.state, JobState::Dead { .. }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_version_parks_is_done_by_a_better_one_ten_first() {
    const JOBS: usize = 25;
    for on in [On::Memory, On::Redis] {
        let manifest = format!("{MANIFEST}\n[topics.stays]\nhandler = \"puppet\"\nattempts = 1\npark = false\n");
        let runner = TestRunner::start_on(on, &manifest, &[("puppet", guests::PUPPET)]).await;
        let (mut jobs, trap) = (Vec::new(), Script::end(End::Unreachable).to_json());
        for _ in 0..JOBS {
            jobs.push(runner.push("puppet", &trap).await);
        }
        let stays = runner.push("stays", &trap).await;
        until_dead(&runner, &jobs).await;
        until_dead(&runner, std::slice::from_ref(&stays)).await;
        let first = parked_by(&runner, &jobs).await;
        assert!(first[0].is_some() && first.iter().all(|version| *version == first[0]), "{first:?}");
        assert_eq!(parked_by(&runner, std::slice::from_ref(&stays)).await, [None]);

        // It ends in the same way: nothing more than ten is tried.
        runner.drop_in("puppet", &puppet(1));
        until("ten jobs to be tried", SOON, async || {
            let parked = parked_by(&runner, &jobs).await;
            let again = parked.iter().filter(|version| version.is_some() && **version != first[0]).count();
            (again == 10).then_some(())
        })
        .await;
        wait_for_version(&runner, 1).await;

        runner.drop_in("puppet", &std::fs::read(guests::ECHO).unwrap());
        let done = |record: &AttemptRecord| matches!(record.verdict, Verdict::Ack(_));
        until("all to be done", SOON, async || {
            jobs.iter().all(|job| runner.attempts_at(job).iter().any(done)).then_some(())
        })
        .await;
        let tried = |job: &JobId| runner.attempts_at(job).len();
        assert_eq!(jobs.iter().map(tried).sum::<usize>(), 2 * JOBS + 10, "each once by the good one");
        assert!(matches!(runner.end_of(&stays).await.state, JobState::Dead { .. }));
        assert_eq!(tried(&stays), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_parked_jobs_count_as_tried_only_after_their_last_try() {
    // A trap gets one more try, a second later.
    let manifest = MANIFEST.replace("attempts = 1", "attempts = 2\nbackoff = { base = \"1s\", jitter = 0 }");
    let runner = TestRunner::start(&manifest, &[("puppet", guests::PUPPET)]).await;
    let (mut jobs, trap) = (Vec::new(), Script::end(End::Unreachable).to_json());
    for _ in 0..20 {
        jobs.push(runner.push("puppet", &trap).await);
    }
    until_dead(&runner, &jobs).await;

    runner.drop_in("puppet", &puppet(1));
    let attempts = || jobs.iter().map(|job| runner.attempts_at(job).len()).sum::<usize>();
    until("ten jobs to be tried twice", SOON, async || (attempts() >= 2 * (20 + 10)).then_some(())).await;
    assert_eq!(attempts(), 2 * (20 + 10), "the others stay parked");
    let again = jobs.iter().filter(|job| runner.attempts_at(job).len() > 2).count();
    assert_eq!(again, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_version_parks_after_another_serves_is_done_by_that_one() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let script = Script::new([Step::SleepMs(3000), Step::End(End::Unreachable)]).to_json();
    let job = runner.push("puppet", &script).await;
    let started = || async { runner.store.job(&tenant(), &job).await.unwrap().map(|view| view.state) };
    until("the attempt to run", SOON, async || matches!(started().await, Some(JobState::Running { .. })).then_some(()))
        .await;
    runner.drop_in("puppet", &std::fs::read(guests::ECHO).unwrap());
    let done = |record: &AttemptRecord| matches!(record.verdict, Verdict::Ack(_));
    until("the job to be done", SOON, async || runner.attempts_at(&job).iter().any(done).then_some(())).await;
    assert_eq!(runner.attempts_at(&job).len(), 2, "once by each version");
}

/// By whom the topic is paused; none if it is not.
async fn paused_by(runner: &TestRunner) -> Option<String> {
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.into_iter().find(|counts| counts.topic.topic.as_str() == "puppet")?.pause?.by
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_traps_on_job_after_job_pauses_its_topic_until_another_serves() {
    const MORE: &str = r#"
        pause-after-traps = 3
        [topics.held]
        handler = "puppet"
        pause-after-traps = 1
        [topics.twin]
        handler = "puppet"
        attempts = 1
        pause-after-traps = 1
    "#;
    let trap = Script::end(End::Unreachable).to_json();
    let done = Script::end(End::Complete).to_json();
    for on in [On::Memory, On::Redis] {
        let runner = TestRunner::start_on(on, &format!("{MANIFEST}{MORE}"), &[("puppet", guests::PUPPET)]).await;
        for _ in 0..2 {
            for _ in 0..2 {
                runner.work("puppet", &trap).await;
            }
            assert_eq!(runner.work("puppet", &done).await.last_failure, None, "two in a row are not three");
        }
        assert_eq!(paused_by(&runner).await, None);
        let mut failure = None;
        for _ in 0..3 {
            failure = runner.work("puppet", &trap).await.last_failure;
        }
        let version = failure.and_then(|failure| failure.parked_by).expect("a version");
        let by = until("the topic to be paused", SOON, async || paused_by(&runner).await).await;
        assert_eq!(by, format!("version {version}, of which 3 jobs in a row ended as trap"));
        let why = runner.client().get("/v1/tenants/default/topics/puppet/why").await.json();
        assert!(why["detail"].as_str().unwrap().contains("ended as trap"), "{why}");
        let waits = runner.push("puppet", &done).await;
        runner.work("twin", &trap).await;
        let held: TopicId = "held".parse().unwrap();
        assert!(runner.store.set_paused(&held, true).await.unwrap());

        runner.drop_in("puppet", &std::fs::read(guests::ECHO).unwrap());
        assert_eq!(runner.end_of(&waits).await.last_failure, None, "no command was needed");
        until("the parked jobs to be done", SOON, async || {
            let counts = runner.store.counts(&tenant()).await.unwrap();
            counts.iter().all(|counts| counts.dead + counts.ready + counts.running == 0).then_some(())
        })
        .await;
        assert_eq!(paused_by(&runner).await, None);
        // What an operator has paused stays so. Topics are resumed in the order of their names, and `twin` was.
        assert!(runner.store.set_paused(&held, false).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_load_fail_no_job() {
    const RELOADS: u64 = 12;
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    wait_for_version(&runner, 0).await;
    let enough = CancellationToken::new();
    let (mut delays, compiler): (Vec<Duration>, _) = (Vec::new(), sandbox());
    let load = async {
        let work = Script::new([Step::Burn(1000), Step::End(End::Complete)]).to_json();
        while !enough.is_cancelled() {
            runner.work("puppet", &work).await;
        }
    };
    let reloads = async {
        for version in 1..=RELOADS {
            let component = puppet(version);
            // Into the cache: what is measured is what comes after compiling.
            compiler.load(&component).await.unwrap();
            runner.drop_in("puppet", &component);
            let renamed = Instant::now();
            wait_for_version(&runner, version).await;
            delays.push(renamed.elapsed());
        }
        enough.cancel();
    };
    tokio::join!(load, reloads);

    let records = runner.records();
    assert!(records.iter().all(|record| matches!(record.verdict, Verdict::Ack(_))), "no job fails for a reload");
    let versions: std::collections::HashSet<_> = records.iter().filter_map(|record| record.run?.version).collect();
    assert_eq!(versions.len() as u64, RELOADS + 1);
    delays.sort();
    let (quartile, longest) = (delays[delays.len() / 4], delays[delays.len() - 1]);
    println!(
        "{} jobs, {RELOADS} reloads: from rename to the first job on the new version {quartile:?}, at most {longest:?}",
        records.len()
    );
    // It takes milliseconds. A machine that stands still at times, or compiles beside it, delays some and not most.
    assert!(quartile < Duration::from_secs(1), "{quartile:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_attempt_ends_on_the_version_it_began_with() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let slow = Script::new([Step::WaitUntilCancelled, Step::End(End::Version)]).to_json();
    let slow = runner.push("puppet", &slow).await;
    until("it to run", SOON, async || {
        let view = runner.store.job(&tenant(), &slow).await.unwrap()?;
        matches!(view.state, JobState::Running { .. }).then_some(())
    })
    .await;
    runner.drop_in("puppet", &puppet(1));
    wait_for_version(&runner, 1).await;
    // It asks, and completes all the same.
    runner.store.cancel(&tenant(), std::slice::from_ref(&slow)).await.unwrap();
    assert_eq!(version_of(runner.end_of(&slow).await.result), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_never_replaces_a_good_version() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let truncated = &puppet(2)[..20_000];
    for bad in [b"not wasm at all".as_slice(), truncated, b"\0asm\x01\0\0\0", b""] {
        runner.drop_in("puppet", bad);
        assert_eq!(serving(&runner).await, 0);
    }
    // Its self-test refuses this one.
    runner.drop_in("puppet", &puppet(6_666_666));
    let mut refuses_itself = puppet(0);
    let at = refuses_itself.windows(15).position(|window| window == &MARKER[..15]).unwrap();
    refuses_itself[at + 15..at + 25].copy_from_slice(b"6666666666");
    wait_for_version(&runner, 6_666_666).await;
    runner.drop_in("puppet", &refuses_itself);
    assert_eq!(serving(&runner).await, 6_666_666);
    // Its start traps, before it could do any job.
    let no_start = r#"(module (memory (export "memory") 1)
        (func $start unreachable) (start $start)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "gristmill:job/handler@0.1.0#handle") (param i32) (result i32) unreachable))"#;
    runner.drop_in("puppet", &wat::parse_str(no_start).unwrap());
    let refused = until("it to be refused", SOON, async || {
        let refused = component(&runner, "puppet").await.1.as_str()?.to_owned();
        refused.contains("start").then_some(refused)
    })
    .await;
    assert!(refused.contains("an instance does not start: it trapped: wasm trap: wasm `unreachable`"), "{refused}");
    assert_eq!(serving(&runner).await, 6_666_666);
    runner.drop_in("puppet", &puppet(3));
    wait_for_version(&runner, 3).await;
}

/// What the server says of a topic's component: the version that serves, and why the file in the folder does not.
async fn component(runner: &TestRunner, topic: &str) -> (Value, Value) {
    let answer = runner.client().get(&format!("/v1/tenants/default/topics/{topic}")).await.json();
    (answer["version"].clone(), answer["refused"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_file_leaves_the_version_before_in_service_also_after_a_restart() {
    let mut runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET), ("echo", guests::ECHO)]).await;
    runner.drop_in("puppet", &puppet(4));
    wait_for_version(&runner, 4).await;
    let version = component(&runner, "puppet").await.0;
    // The file of `echo` makes its topic as well.
    for name in ["puppet", "echo"] {
        runner.drop_in(name, b"not wasm at all");
        until(format!("{name} to be refused"), SOON, async || component(&runner, name).await.1.as_str().map(drop))
            .await;
    }
    for restart in 0..3 {
        assert_eq!(serving(&runner).await, 4, "after {restart} restarts");
        assert_eq!(runner.work("echo", b"x").await.state, JobState::Finished);
        let (serves, refused) = component(&runner, "puppet").await;
        assert!(serves == version && refused.as_str().unwrap().contains("no WebAssembly"), "{serves} {refused}");
        let ready = runner.client().get("/readyz").await;
        let named =
            ["echo", "puppet"].map(|name| format!("handler {name}: its file was refused, the version before serves"));
        assert!(ready.status == 200 && named.iter().all(|line| ready.text().contains(line)), "{}", ready.text());
        runner.restart().await;
    }
    // It never comes back once its file is removed.
    std::fs::remove_file(runner.handlers().join("puppet.wasm")).unwrap();
    until("puppet to be removed", SOON, async || component(&runner, "puppet").await.0.is_null().then_some(())).await;
    runner.drop_in("puppet", b"not wasm at all");
    runner.restart().await;
    until("puppet to be refused", SOON, async || component(&runner, "puppet").await.1.as_str().map(drop)).await;
    assert!(component(&runner, "puppet").await.0.is_null());
    runner.drop_in("puppet", &puppet(5));
    wait_for_version(&runner, 5).await;
    // The first token closes the server, so this comes last.
    let client = runner.client().with_token(&token(&*runner.store, None, &[Scope::Read]).await);
    let ready = runner.client().get("/readyz").await.text();
    assert!(ready.contains("the file of 1 handler was refused") && !ready.contains("echo"), "{ready}");
    let ready = client.get("/readyz").await.text();
    assert!(!ready.contains("puppet") && ready.contains("handler echo: its file was refused"), "{ready}");
    let client = runner.client().with_token(&token(&*runner.store, Some("acme"), &Scope::ALL).await);
    assert!(!client.get("/readyz").await.text().contains("echo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_lacks_a_grant_leaves_the_version_before_in_service_also_after_a_restart() {
    // The puppet imports the clock, which this manifest grants to none.
    let manifest = MANIFEST.replace("clock = true", "clock = false").replace("[topics.puppet]", "[topics.echo]");
    let mut runner = TestRunner::start(&manifest, &[("echo", guests::ECHO)]).await;
    let version = component(&runner, "echo").await.0;
    // Its file is kept before another one is looked at.
    runner.drop_in("later", &std::fs::read(guests::ECHO).unwrap());
    until("a later component to serve", SOON, async || component(&runner, "later").await.0.as_str().map(drop)).await;
    runner.drop_in("echo", &puppet(0));
    until("it to lack a grant", SOON, async || {
        runner.client().get("/v1/tenants/default/topics/echo").await.json()["lacking"].get(0).map(drop)
    })
    .await;
    for _ in 0..2 {
        runner.restart().await;
        assert_eq!(component(&runner, "echo").await.0, version);
        assert_eq!(runner.work("echo", b"x").await.state, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_without_an_entry_makes_a_topic_and_its_jobs_outlive_it() {
    let runner = TestRunner::start(MANIFEST, &[]).await;
    let early = runner.push("echo", b"early").await;
    runner.drop_in("echo", &std::fs::read(guests::ECHO).unwrap());
    assert_eq!(runner.end_of(&early).await.state, JobState::Finished);

    std::fs::remove_file(runner.handlers().join("echo.wasm")).unwrap();
    let waiting = runner.push("echo", b"waiting").await;
    runner.drop_in("echo", &std::fs::read(guests::ECHO).unwrap());
    assert_eq!(runner.end_of(&waiting).await.state, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_is_swapped_whole_or_not_at_all() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let again = Script::new([Step::RetryUntilAttempt { attempt: 2, after_ms: Some(1) }]).to_json();
    assert!(matches!(runner.work("puppet", &again).await.state, JobState::Dead { .. }));

    // A mistake in one topic: the whole old one keeps ruling.
    let better = MANIFEST.replace("attempts = 1", "attempts = 2");
    runner.rewrite(&format!("{better}\n[topics.other]\nfule = 1"));
    let is_refused = async || {
        runner.client().get("/readyz").await.text().contains("the manifest was refused, and the one before is in force")
    };
    until("readyz to say it", SOON, async || is_refused().await.then_some(())).await;
    assert!(matches!(runner.work("puppet", &again).await.state, JobState::Dead { .. }));
    runner.rewrite(&better);
    until("the new manifest to rule", SOON, async || {
        (runner.work("puppet", &again).await.state == JobState::Finished).then_some(())
    })
    .await;
    assert!(!is_refused().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_empty_while_it_is_written_takes_no_limits_away() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    runner.rewrite("");
    // The look that finds this file has read the manifest before.
    runner.drop_in("echo", &std::fs::read(guests::ECHO).unwrap());
    assert_eq!(runner.work("echo", b"").await.state, JobState::Finished);
    let again = Script::new([Step::RetryUntilAttempt { attempt: 2, after_ms: Some(1) }]).to_json();
    assert!(matches!(runner.work("puppet", &again).await.state, JobState::Dead { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_over_the_limit_is_refused_unread() {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let disk = std::fs::File::create(folder.path().join("disk.wasm")).unwrap();
    disk.set_len(1 << 40).unwrap();
    disk.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let mut folder = Folder::new(folder.path().to_owned(), sandbox());
    folder.look().unwrap();
    let changes = folder.loaded().await;
    assert!(changes.refused[0].reason.contains("over the limit"), "{changes:?}");
}

/// The same component with other bytes, so that no cache knows it: a custom section of its own behind it.
fn never_compiled(component: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(component).unwrap();
    let content: Vec<u8> = [1, b'x'].into_iter().chain(fastrand::u64(..).to_le_bytes()).collect();
    bytes.extend([0, content.len() as u8].into_iter().chain(content));
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_takes_long_to_compile_holds_up_no_other() {
    let place = TempDir::with_prefix("gristmill-").unwrap();
    // Twenty times the size of the other, and first by name.
    drop_in(place.path(), "a-slow", &never_compiled(guests::RESIZE_IMAGE));
    drop_in(place.path(), "b-quick", &never_compiled(guests::ECHO));
    let mut folder = Folder::new(place.path().to_owned(), sandbox());
    folder.look().unwrap();
    assert_eq!(all_loaded(&mut folder).await, ["b-quick", "a-slow"]);
    assert!(!folder.is_loading());
}

/// The handlers in the order in which they are loaded, until there is nothing to load.
async fn all_loaded(folder: &mut Folder) -> Vec<String> {
    let mut names = Vec::new();
    while folder.is_loading() {
        names.extend(folder.loaded().await.loaded.into_iter().map(|loaded| loaded.handler.to_string()));
    }
    names
}

/// Whether a compiler that this process started is at work.
fn compiles() -> bool {
    let children = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok());
    children.flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).any(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("compile-component"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_overwritten_while_its_predecessor_compiles_is_loaded_soon_after() {
    let runner = TestRunner::start(MANIFEST, &[]).await;
    let job = runner.push("greet", b"hello").await;
    // The first rejects what is no image; the second takes anything.
    runner.drop_in("greet", &never_compiled(guests::RESIZE_IMAGE));
    let is_over = || !runner.attempts_at(&job).is_empty();
    // It may be compiled before anybody has looked.
    until("the first to compile", SOON, async || (compiles() || is_over()).then_some(())).await;
    runner.drop_in("greet", &never_compiled(guests::ECHO));
    until("an attempt at the job", 4 * SOON, async || is_over().then_some(())).await;
    runner.end_of(&job).await;
    until("the second to serve", SOON, async || {
        (runner.work("greet", b"hello").await.state == JobState::Finished).then_some(())
    })
    .await;
}
