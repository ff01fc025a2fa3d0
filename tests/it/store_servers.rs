//! Whole servers on two stores: one that goes away, and a tenant that moves under load while processes are killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gristmill::job::{Due, JobId, JobSpec, Name, NewJob, WorkerId};
use gristmill::server::RemoteStore;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill::store::{ClaimFrom, Inspect, JobState, Pushed};
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::Process;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::spec;
use gristmill_tests::wait::{SOON, until};
use parking_lot::Mutex;
use puppet::{End, Script};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// A home in a file, a store in Redis, and a tenant that lives in the store that is named.
async fn project(far: &Redis, lives_in: &str) -> TestProject {
    let manifest = format!(
        "[stores.far]\nurl = \"{}\"\n[topics.puppet]\n[tenants.acme]\nstore = \"{lives_in}\"\n\
         [tenants.acme.topics.puppet]\nattempts = 50\n[tenants.acme.topics.parking]\nhandler = \"nobody\"\n",
        far.url()
    );
    TestProject::new(&manifest, &[("puppet", guests::PUPPET)]).await
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn complete(topic: &str) -> NewJob {
    let spec: JobSpec = spec(topic, &Script::end(End::Complete).to_json());
    NewJob { spec, due: Due::Now }
}

async fn door(project: &TestProject) -> RemoteStore {
    until("the door", SOON, async || RemoteStore::connect(project.address()?).await.ok()).await
}

async fn is_finished(store: &impl Inspect, tenant: &str, id: &JobId) -> bool {
    let view = store.job(&name(tenant), id).await.ok().flatten();
    view.is_some_and(|view| view.state == JobState::Finished)
}

/// What `tenant list` says of `acme`.
fn placement(project: &TestProject) -> Value {
    let listed = project.run(&["tenant", "list", "--json"]).ended(0).documents();
    listed.into_iter().find(|lives| lives["tenant"] == "acme").unwrap()
}

async fn until_moved(project: &TestProject, to: &str) {
    until("the move to end", 4 * SOON, async || {
        let said = project.run(&["tenant", "list", "--json"]);
        if said.code != 0 {
            return None;
        }
        let lives = said.documents().into_iter().find(|lives| lives["tenant"] == "acme")?;
        (lives["store"] == to && lives["moving_from"].is_null()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_does_not_stop_the_tenants_of_others() {
    let mut far = Redis::start().await;
    let project = project(&far, "far").await;
    let runner = project.serve().await;
    let store = door(&project).await;
    let run = async |topic: &str| {
        let job = complete(topic);
        store.push(std::slice::from_ref(&job)).await.unwrap();
        until("the job to be done", SOON, async || {
            is_finished(&store, job.spec.topic.tenant.as_str(), &job.spec.id).await.then_some(())
        })
        .await;
    };
    run("acme/puppet").await;
    run("puppet").await;
    far.stop();
    until("the loss to be seen", SOON, async || {
        runner.log().contains("the tenants of other stores go on").then_some(())
    })
    .await;
    for _ in 0..20 {
        run("puppet").await;
    }
    assert!(store.push(&[complete("acme/puppet")]).await.unwrap_err().is_unavailable());
    let metrics = HttpClient::new(project.address().unwrap()).get("/metrics").await.text();
    assert!(metrics.contains("gristmill_store_up 0"), "{metrics}");
    assert!(
        metrics.contains("gristmill_store_depth{tenant=\"default\",topic=\"puppet\",state=\"ready\"} 0"),
        "{metrics}"
    );
    let stats = project.run(&["stats"]);
    assert!(stats.ended(3).text().contains("puppet") && stats.err.contains("is unavailable"), "{}", stats.text());
    assert!(project.run(&["workers"]).done().contains("runner"));
    for command in [&["topics"][..], &["top", "--once"]] {
        let said = project.run(command);
        assert!(said.ended(3).text().lines().any(|line| line.starts_with("puppet ")), "{}", said.text());
        assert!(said.err.contains("failed to read tenant `acme`: the store at "), "{command:?}: {}", said.err);
    }
    far.resume().await;
    until("the store to be back", SOON, async || store.push(&[complete("acme/puppet")]).await.ok()).await;
    run("acme/puppet").await;
}

/// Pushes all the time, and remembers what was acknowledged.
struct Producers {
    acknowledged: Arc<Mutex<BTreeSet<JobId>>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Producers {
    fn start(project: &Arc<TestProject>) -> Self {
        let (acknowledged, stop) = (Arc::<Mutex<BTreeSet<JobId>>>::default(), Arc::<AtomicBool>::default());
        let tasks = (0..3).map(|_| tokio::spawn(produce(project.clone(), acknowledged.clone(), stop.clone())));
        let tasks = tasks.collect();
        Self { acknowledged, stop, tasks }
    }

    async fn until_more(&self, count: usize) {
        let enough = self.acknowledged.lock().len() + count;
        let enough = || (self.acknowledged.lock().len() >= enough).then_some(());
        until("more pushes", 4 * SOON, async || enough()).await;
    }

    async fn end(self) -> BTreeSet<JobId> {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.acknowledged.lock().clone()
    }
}

async fn produce(project: Arc<TestProject>, acknowledged: Arc<Mutex<BTreeSet<JobId>>>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let job = complete("acme/puppet");
        // Again and again, as a producer does whose server may be killed at any moment.
        let pushed = tokio::time::timeout(4 * SOON, push(&project, &job)).await.expect("somebody takes the push");
        assert!(matches!(pushed[..], [Pushed::Stored | Pushed::Exists]), "{pushed:?}");
        acknowledged.lock().insert(job.spec.id);
    }
}

async fn push(project: &TestProject, job: &NewJob) -> Vec<Pushed> {
    loop {
        if let Some(address) = project.address()
            && let Ok(store) = RemoteStore::connect(address).await
            && let Ok(pushed) = store.push(std::slice::from_ref(job)).await
        {
            return pushed;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Every job that was acknowledged has run; how often jobs were acked and tried again.
async fn all_have_run(project: &TestProject, acknowledged: &BTreeSet<JobId>) -> (u64, u64) {
    let store = door(project).await;
    for id in acknowledged {
        until(format!("the end of {id}"), 4 * SOON, async || is_finished(&store, "acme", id).await.then_some(())).await;
    }
    let counts = store.counts(&name("acme")).await.unwrap();
    let counts = counts.into_iter().find(|counts| counts.topic.topic == name("puppet")).unwrap();
    assert_eq!((counts.ready, counts.delayed, counts.running, counts.dead), (0, 0, 0, 0), "{counts:?}");
    let total = |what: &str| counts.totals.get(what).copied().unwrap_or_default();
    (total("acked"), total("retried"))
}

/// There and back, with pushes and attempts all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_moves_under_load_loses_nothing_and_runs_nothing_twice() {
    let far = Redis::start_without_log().await;
    let project = Arc::new(project(&far, "home").await);
    let _runner = project.serve().await;
    project.run(&["push", "acme/parking", "--data", "x", "--count", "2000"]).done();
    let producers = Producers::start(&project);
    for to in ["far", "home"] {
        producers.until_more(30).await;
        let moved = project.run(&["tenant", "move", "acme", "--to", to, "--watch"]);
        assert!(moved.done().contains(&format!("`acme` has moved to `{to}`")), "{}", moved.text());
        let lives = placement(&project);
        assert_eq!((&lives["store"], &lives["moving_from"]), (&Value::from(to), &Value::Null));
        if to == "far" {
            let there = RedisStore::connect(&far.url(), "gm").await.unwrap().counts(&name("acme")).await.unwrap();
            let parked = there.iter().find(|counts| counts.topic.topic == name("parking")).unwrap();
            assert_eq!(parked.ready, 2000);
        }
    }
    producers.until_more(30).await;
    let acknowledged = producers.end().await;
    let (acked, retried) = all_have_run(&project, &acknowledged).await;
    assert_eq!((acked, retried), (acknowledged.len() as u64, 0), "each once");
    println!("{} jobs pushed during two moves, each run once", acknowledged.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_survives_killed_servers_and_commands() {
    const KILLS: usize = 3;
    let far = Redis::start_without_log().await;
    let project = Arc::new(project(&far, "home").await);
    let mut runner = project.serve().await;
    project.run(&["push", "acme/parking", "--data", "x", "--count", "5000"]).done();
    let producers = Producers::start(&project);
    producers.until_more(10).await;
    let mut moving = project.spawn(&["tenant", "move", "acme", "--to", "far", "--watch"]);
    let there = RedisStore::connect(&far.url(), "gm").await.unwrap();
    let parked = async || {
        let counts = there.counts(&name("acme")).await.unwrap();
        counts.iter().find(|counts| counts.topic.topic == name("parking")).map_or(0, |counts| counts.ready)
    };
    // The first time before anything is carried, unless we are slow to see it.
    until("the move to begin", SOON, async || {
        let said = project.run(&["tenant", "list", "--json"]);
        let begun = |lives: &Value| lives["tenant"] == "acme" && lives["store"] == "far";
        (said.code == 0 && said.documents().iter().any(begun)).then_some(())
    })
    .await;
    drop(moving.kill());
    moving.wait().unwrap();
    for kill in 0..KILLS {
        let before = parked().await;
        if kill > 0 {
            until("some to be moved", 4 * SOON, async || (before == 5000 || parked().await > before).then_some(()))
                .await;
        }
        runner.kill();
        runner = project.serve().await;
        // All of them write into one log.
        until("the server to be back", SOON, async || {
            (runner.log().matches("ready for jobs").count() > kill + 1).then_some(())
        })
        .await;
        // Nothing is begun anew.
        project.run(&["tenant", "move", "acme", "--to", "far"]).done();
    }
    until_moved(&project, "far").await;
    assert_eq!(parked().await, 5000);
    let acknowledged = producers.end().await;
    let (acked, retried) = all_have_run(&project, &acknowledged).await;
    assert!(acked >= acknowledged.len() as u64, "none is lost");
    // What was in flight at a kill is run again, and only that; a push may have been taken although its server was killed.
    assert!(acked <= acknowledged.len() as u64 + retried + 3 * KILLS as u64, "{acked} of {}", acknowledged.len());
    drop(runner);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_was_lost_is_given_back_once_its_store_is_back() {
    let mut redis = Redis::start().await;
    let project = project(&redis, "far").await;
    let server = project.serve().await;
    let there = RedisStore::connect(&redis.url(), "gm").await.unwrap();
    let worker: String =
        until("the worker", SOON, async || redis.ask::<Vec<String>>("ZRANGE", &["gm:workers", "0", "0"]).await?.pop())
            .await;
    // What a claim does whose reply is lost on its way to the runner.
    let lost = complete("acme/parking");
    there.push(std::slice::from_ref(&lost)).await.unwrap();
    let from = ClaimFrom::new("acme/parking".parse().unwrap(), 1, Duration::from_secs(3600));
    assert_eq!(there.claim(&WorkerId::new(&worker), &[from]).await.unwrap().claims.len(), 1);

    redis.stop();
    until("the server to notice", SOON, async || {
        server.log().contains("the tenants of other stores go on").then_some(())
    })
    .await;
    redis.resume().await;
    until("the job to be back", SOON / 4, async || {
        let view = there.job(&name("acme"), &lost.spec.id).await.ok()??;
        (view.state == JobState::Ready).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_learns_of_a_move_and_works_in_both_stores() {
    let redis = Redis::start().await;
    let manifest = format!(
        "[store]\nurl = \"{0}\"\n[stores.far]\nurl = \"{0}\"\nprefix = \"far\"\n[tenants.acme.topics.puppet]\n",
        redis.url()
    );
    let (one, two) =
        (TestProject::new(&manifest, &[("puppet", guests::PUPPET)]).await, TestProject::new(&manifest, &[]).await);
    let _first = one.serve().await;
    let second = two.serve().await;
    let address = until("the second node's door", SOON, async || {
        let log = second.log();
        log.split("listening on http://").nth(1)?.split_whitespace().next()?.parse().ok()
    })
    .await;
    let there = RedisStore::connect(&redis.url(), "far").await.unwrap();
    one.run(&["push", "acme/puppet", "--delay", "1h", "--data", "x"]).done();
    one.run(&["tenant", "move", "acme", "--to", "far"]).done();
    let node = RemoteStore::connect(address).await.unwrap();
    // The command wrote to the home store only.
    until("the second node to push to the new store", SOON, async || {
        let job = complete("acme/puppet");
        node.push(std::slice::from_ref(&job)).await.unwrap();
        there.job(&name("acme"), &job.spec.id).await.unwrap()
    })
    .await;
    until_moved(&one, "far").await;
    let counts = there.counts(&name("acme")).await.unwrap();
    assert_eq!(counts[0].delayed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_without_a_server_is_carried_out_by_the_command_that_watches_it() {
    let far = Redis::start().await;
    let project = project(&far, "home").await;
    project.run(&["push", "acme/parking", "--data", "x", "--count", "300"]).done();
    let said = project.run(&["tenant", "move", "acme", "--to", "far", "--watch", "--json"]);
    let document = said.ended(0).document();
    assert_eq!(said.err, "");
    let said = project.run(&["tenant", "move", "acne", "--to", "far"]);
    assert!(said.ended(0).err.contains("a tenant `acne` (did you mean `acme`?)"), "{}", said.err);
    let listed = project.run(&["tenant", "list", "--json"]).ended(0).documents();
    assert!(listed.iter().any(|lives| lives["tenant"] == "acne" && lives["store"] == "far"), "{listed:?}");
    assert_eq!((&document["store"], &document["remaining"]), (&Value::from("far"), &Value::from(Vec::<Value>::new())));
    assert!(project.run(&["job", "show", "unknown"]).ended(1).err.contains("unknown"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_store_there_is_nothing_to_move() {
    let project = TestProject::new("[topics.parking]\nhandler = \"nobody\"", &[]).await;
    project.run(&["push", "parking", "--data", "x"]).done();
    let said = project.run(&["tenant", "list"]);
    assert!(said.ended(2).err.contains("[stores.NAME]"), "{}", said.err);
    let _runner: Process = project.serve().await;
    let said = project.run(&["tenant", "move", "acme", "--to", "far"]);
    assert!(said.ended(1).err.contains("one store only"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_cannot_be_made_is_refused_with_the_reason() {
    let far = Redis::start().await;
    let project = project(&far, "home").await;
    let _runner = project.serve().await;
    let client = HttpClient::new(project.address().unwrap());
    let answer = client.post("/v1/tenants/acme/move", &json!({ "to": "nowhere" })).await;
    assert_eq!((answer.status, &answer.json()["code"]), (409, &json!("move-refused")), "{}", answer.text());
    assert!(answer.text().contains("no store `nowhere`"), "{}", answer.text());
}
