//! Jobs that wait for other jobs, by real components, over HTTP and from the command line.

use gristmill::job::{AfterFailed, Due, JobId, JobOptions, JobSpec};
use gristmill::outcome::Reason;
use gristmill::store::{JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, spec, spec_with, tenant, with_clock};
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, End, Enqueue, Report, Script, Step};
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [defaults]
    backoff = "1ms"
    result-retention = "1h"
    [topics.puppet]
    [topics.later]
    handler = "puppet"
    [topics.once]
    handler = "puppet"
    attempts = 1
    [topics.closed]
    handler = "puppet"
    enqueue = ["closed"]
    [topics.told]
    handler = "puppet"
    enqueue = ["told"]
    predecessors = ["puppet"]
    # Nobody works here.
    [topics.still]
    handler = "nobody"
"#;

on_both_stores! {
    a_handler_gets_the_results_of_the_jobs_before_it
    a_job_is_dead_if_the_one_before_it_is
    a_job_may_run_though_the_one_before_it_is_dead
    a_batch_is_pushed_sealed_and_looked_at_over_http
    a_handler_learns_how_many_jobs_came_before_it_and_how_many_failed
    a_tree_is_looked_at_and_cancelled_over_http
    a_push_that_names_an_unknown_job_is_refused_over_http
    a_component_fans_out_and_another_job_gathers_the_results
    a_component_adds_to_a_batch_until_it_is_done
    a_component_enqueues_a_chain
    a_failed_attempt_leaves_neither_batch_nor_members
    a_batch_of_a_component_waits_again_for_a_member_that_is_respawned
    a_component_learns_that_its_links_contradict_each_other
    a_handler_gets_results_of_topics_only_that_have_to_do_with_its_own
    a_component_names_no_jobs_that_it_has_nothing_to_do_with
    a_tenant_that_is_full_stores_nothing_of_its_attempts
}

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

fn script(end: End) -> Vec<u8> {
    Script::end(end).to_json()
}

fn report() -> Vec<u8> {
    script(End::Report { config: vec![], secrets: vec![] })
}

async fn push(runner: &TestRunner, body: &[u8], links: JobOptions) -> JobId {
    runner.push_job(spec_with("puppet", body, links), Due::Now).await
}

/// What the handler learned of the jobs before its own.
fn predecessors(view: &JobView) -> Value {
    learned(view, "predecessors")
}

/// Metadata that the handler saw, as JSON.
fn learned(view: &JobView, of: &str) -> Value {
    let Some(ResultView::Complete(Some(payload))) = &view.result else { panic!("no result but {:?}", view.result) };
    let report: Report = serde_json::from_slice(&payload.data).unwrap();
    let (_, text) = report.metadata.iter().find(|(name, _)| name == of).expect("what became of them");
    serde_json::from_str(text).unwrap()
}

async fn a_handler_gets_the_results_of_the_jobs_before_it(runner: TestRunner) {
    let first = push(&runner, &script(End::Text("flour".into())), JobOptions::default()).await;
    let second = push(&runner, &script(End::Complete), JobOptions::default()).await;
    let links = JobOptions { after: vec![first.clone(), second.clone()], ..JobOptions::default() };
    let third = push(&runner, &report(), links).await;
    let mut expected = [
        json!({ "id": first.as_str(), "ended": "complete", "text": "flour" }),
        json!({ "id": second.as_str(), "ended": "complete" }),
    ];
    expected.sort_by_key(|job| job["id"].to_string());
    assert_eq!(predecessors(&runner.end_of(&third).await), json!(expected));
}

async fn a_job_is_dead_if_the_one_before_it_is(runner: TestRunner) {
    let first = push(&runner, &script(End::Reject(Cause::default())), JobOptions::default()).await;
    let second = push(&runner, &report(), JobOptions { after: vec![first.clone()], ..JobOptions::default() }).await;
    let third = push(&runner, &report(), JobOptions { after: vec![second.clone()], ..JobOptions::default() }).await;
    for (id, before) in [(&second, &first), (&third, &second)] {
        let view = runner.end_of(id).await;
        assert!(matches!(view.state, JobState::Dead { .. }), "{:?}", view.state);
        let failure = view.last_failure.unwrap();
        assert_eq!(failure.reason, Reason::Predecessor);
        assert!(failure.detail.message.contains(before.as_str()), "{}", failure.detail.message);
    }
}

async fn a_job_may_run_though_the_one_before_it_is_dead(runner: TestRunner) {
    let first = push(&runner, &script(End::Reject(Cause::default())), JobOptions::default()).await;
    let links = JobOptions { after: vec![first.clone()], after_failed: AfterFailed::Run, ..JobOptions::default() };
    let second = push(&runner, &report(), links).await;
    let expected = json!([{ "id": first.as_str(), "ended": "dead" }]);
    assert_eq!(predecessors(&runner.end_of(&second).await), expected);
}

async fn a_handler_learns_how_many_jobs_came_before_it_and_how_many_failed(runner: TestRunner) {
    let links = JobOptions { open: true, after_failed: AfterFailed::Run, ..JobOptions::default() };
    let forged = vec![("predecessors-failed".to_owned(), "0".to_owned())];
    let spec = JobSpec { metadata: forged, ..spec_with("puppet", &report(), links) };
    let batch = runner.push_job(spec, Due::Now).await;
    for n in 0..120 {
        let end = if n % 40 == 0 { End::Reject(Cause::default()) } else { End::Complete };
        push(&runner, &script(end), JobOptions { batch: Some(batch.clone()), ..JobOptions::default() }).await;
    }
    runner.store.seal(&tenant(), &batch).await.unwrap();
    let view = runner.end_of(&batch).await;
    assert_eq!((learned(&view, "predecessors-total"), learned(&view, "predecessors-failed")), (json!(120), json!(3)));
    assert_eq!(predecessors(&view).as_array().unwrap().len(), 100);
}

async fn a_tree_is_looked_at_and_cancelled_over_http(runner: TestRunner) {
    let client = runner.client();
    let jobs = "/v1/tenants/default/topics/still/jobs";
    let push = async |document: Value| client.post(jobs, &document).await.json()["id"].clone();
    let batch = push(json!({ "open": true })).await;
    let member = push(json!({ "batch": batch })).await;
    let last = push(json!({ "after": [batch] })).await;
    let path = format!("/v1/tenants/default/jobs/{}", batch.as_str().unwrap());
    let graph = client.get(&format!("{path}/graph")).await.json();
    let nodes: Vec<_> = graph["nodes"].as_array().unwrap().iter().map(|node| (&node["id"], &node["state"])).collect();
    let (ready, waiting) = (json!("ready"), json!("waiting"));
    assert_eq!(nodes, [(&batch, &waiting), (&member, &ready), (&last, &waiting)]);
    assert_eq!((&graph["cut"], &graph["nodes"][0]["waits_for"]["open"]), (&json!(false), &json!(true)));
    assert_eq!(graph["edges"][0], json!({ "waiter": batch, "job": member, "ended": null }));
    assert_eq!(client.get(&format!("{path}/graph?limit=1")).await.json()["cut"], true);
    let cancelled = client.delete(&format!("{path}?tree=true")).await.json();
    assert_eq!(cancelled, json!({ "id": batch, "gone": 3, "stopping": 0, "complete": true }));
    assert_eq!(client.delete(&format!("{path}?tree=true")).await.status, 409);
    assert_eq!(client.get(&format!("{path}/graph")).await.status, 404);
}

async fn a_batch_is_pushed_sealed_and_looked_at_over_http(runner: TestRunner) {
    let client = runner.client();
    let jobs = "/v1/tenants/default/topics/puppet/jobs";
    let body: Value = serde_json::from_slice(&report()).unwrap();
    let batch = client.post(jobs, &json!({ "body": body, "open": true })).await.json()["id"].clone();
    let batch: JobId = batch.as_str().unwrap().parse().unwrap();
    let members =
        json!({ "jobs": [{ "body": body, "batch": batch.as_str() }, { "body": body, "batch": batch.as_str() }] });
    assert_eq!(client.post(jobs, &members).await.status, 201);
    let path = format!("/v1/tenants/default/jobs/{batch}");
    let why = client.get(&format!("{path}/why")).await.json();
    assert_eq!(why["reason"], "waiting");
    let shown = client.get(&path).await.json();
    assert_eq!(
        (&shown["state"], &shown["waits_for"]["open"], &shown["waits_for"]["total"]),
        (&json!("waiting"), &json!(true), &json!(2))
    );
    assert_eq!(client.post(&format!("{path}/seal"), &json!({})).await.json()["status"], "sealed");
    let end = runner.end_of(&batch).await;
    assert_eq!(predecessors(&end).as_array().unwrap().len(), 2);
    assert_eq!(client.post(&format!("{path}/seal"), &json!({})).await.status, 409);
}

async fn a_push_that_names_an_unknown_job_is_refused_over_http(runner: TestRunner) {
    let client = runner.client();
    let jobs = "/v1/tenants/default/topics/still/jobs";
    let refused = client.post(jobs, &json!({ "after": ["nobody"] })).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("the store has no job `nobody`"), "{}", refused.text());
    let listed = client.post(jobs, &json!({ "jobs": [{ "after": ["nobody"] }, {}] })).await.json();
    assert_eq!((&listed["jobs"][0]["status"], &listed["jobs"][1]["status"]), (&json!("refused"), &json!("stored")));
    let first = listed["jobs"][1]["id"].clone();
    let waiting = client.post(jobs, &json!({ "after": [first] })).await.json();
    let links = client.get(&format!("/v1/tenants/default/jobs/{}/links", first.as_str().unwrap())).await.json();
    assert_eq!((&links["waits_for"], &links["waiters"]), (&Value::Null, &json!([waiting["id"]])));
}

fn play(steps: impl IntoIterator<Item = Step>) -> String {
    String::from_utf8(Script::new(steps).to_json()).unwrap()
}

/// A follow-up for `topic` that ends like this.
fn follow_up(topic: &str, end: End) -> Enqueue {
    Enqueue { topic: topic.into(), data: play([Step::End(end)]), ..Enqueue::default() }
}

/// A follow-up that says what it learned of the jobs before it.
fn gather(after: &[&str]) -> Enqueue {
    let after = after.iter().map(|name| (*name).to_owned()).collect();
    Enqueue { after, ..follow_up("later", End::Report { config: vec![], secrets: vec![] }) }
}

/// A member of the first job that the attempt has enqueued.
fn member(text: &str) -> Enqueue {
    Enqueue { batch: Some("0".into()), ..follow_up("puppet", End::Text(text.into())) }
}

/// The end of the first job of a topic that ends.
async fn end_in(runner: &TestRunner, topic: &str) -> JobView {
    let id = until(format!("the end of a job of {topic}"), SOON, async || {
        let last = runner
            .records()
            .into_iter()
            .find(|record| record.verdict.is_final() && record.claim.lease.topic.topic.as_str() == topic);
        last.map(|record| record.claim.lease.job.clone())
    });
    runner.end_of(&id.await).await
}

/// How many jobs were stored at a topic.
async fn stored(runner: &TestRunner, topic: &str) -> u64 {
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.into_iter().find(|counts| counts.topic.topic.as_str() == topic).map_or(0, |counts| counts.totals["pushed"])
}

/// What became of the jobs before one, without their ids, in no order.
fn ends(view: &JobView) -> Vec<String> {
    let found = predecessors(view);
    let mut ends: Vec<_> =
        found.as_array().unwrap().iter().map(|job| format!("{} {}", job["ended"], job["text"])).collect();
    ends.sort();
    ends.iter().map(|end| end.replace('"', "")).collect()
}

async fn a_component_fans_out_and_another_job_gathers_the_results(runner: TestRunner) {
    let members = ["rye", "spelt", "wheat"].map(|text| Step::Enqueue(member(text)));
    let steps =
        [Step::Enqueue(gather(&["itself"]))].into_iter().chain(members).chain([Step::End(End::Text("sown".into()))]);
    push(&runner, play(steps).as_bytes(), JobOptions::default()).await;
    assert_eq!(
        ends(&end_in(&runner, "later").await),
        ["complete rye", "complete sown", "complete spelt", "complete wheat"]
    );
}

/// A member may add members, however late: its batch waits for it.
async fn a_component_adds_to_a_batch_until_it_is_done(runner: TestRunner) {
    let inner = Enqueue { topic: "puppet".into(), ..member("inner") };
    let add = |batch: &JobId| play([Step::Enqueue(Enqueue { batch: Some(batch.as_str().into()), ..inner.clone() })]);
    let batch = runner
        .push_job(spec_with("later", &report(), JobOptions { open: true, ..JobOptions::default() }), Due::Now)
        .await;
    let links = JobOptions { batch: Some(batch.clone()), ..JobOptions::default() };
    runner.push_job(spec_with("puppet", add(&batch).as_bytes(), links), Due::Now).await;
    runner.store.seal(&tenant(), &batch).await.unwrap();
    assert_eq!(ends(&runner.end_of(&batch).await), ["complete inner", "complete null"]);
}

async fn a_component_enqueues_a_chain(runner: TestRunner) {
    let second = Enqueue { after: vec!["0".into()], ..follow_up("puppet", End::Text("second".into())) };
    let chain = [follow_up("puppet", End::Text("first".into())), second, gather(&["1"])];
    push(&runner, play(chain.map(Step::Enqueue)).as_bytes(), JobOptions::default()).await;
    assert_eq!(ends(&end_in(&runner, "later").await), ["complete second"]);
    let finals = runner.records().into_iter().filter(|record| record.verdict.is_final());
    let texts: Vec<_> = finals.map(|record| record.claim.job.spec.body.data.clone()).collect();
    let place = |text: &str| {
        texts
            .iter()
            .position(|body| String::from_utf8_lossy(body).starts_with(&play([Step::End(End::Text(text.into()))])))
    };
    assert_eq!((texts.len(), place("first"), place("second")), (4, Some(1), Some(2)));
}

async fn a_failed_attempt_leaves_neither_batch_nor_members(runner: TestRunner) {
    let batch = Enqueue { topic: "still".into(), open: true, after: vec!["itself".into()], ..Enqueue::default() };
    let linked = [batch, Enqueue { topic: "still".into(), ..member("") }].map(Step::Enqueue);
    let ended = async |last: Step| {
        push(&runner, play(linked.clone().into_iter().chain([last])).as_bytes(), JobOptions::default()).await
    };
    let rejected = ended(Step::End(End::Reject(Cause::default()))).await;
    let trapped = ended(Step::End(End::Unreachable)).await;
    for id in [rejected, trapped] {
        assert!(matches!(runner.end_of(&id).await.state, JobState::Dead { .. }));
    }
    assert_eq!(stored(&runner, "still").await, 0);
    let retried = ended(Step::RetryUntilAttempt { attempt: 3, after_ms: Some(1) }).await;
    runner.end_of(&retried).await;
    assert_eq!((runner.attempts_at(&retried).len(), stored(&runner, "still").await), (3, 2));
}

async fn a_batch_of_a_component_waits_again_for_a_member_that_is_respawned(runner: TestRunner) {
    let late = play([Step::RetryUntilCheckpoint("once".into()), Step::End(End::Text("late".into()))]);
    let late = Enqueue { topic: "once".into(), data: late, ..member("") };
    let steps = [gather(&["itself"]), late, member("early")].map(Step::Enqueue);
    push(&runner, play(steps).as_bytes(), JobOptions::default()).await;
    let batch = end_in(&runner, "later").await;
    assert_eq!(batch.last_failure.as_ref().map(|failure| failure.reason), Some(Reason::Predecessor));
    let failed = end_in(&runner, "once").await;
    for dead in [&failed, &batch] {
        let topic = &dead.job.as_ref().unwrap().spec.topic;
        assert_eq!(runner.store.respawn(topic, std::slice::from_ref(&dead.id)).await.unwrap(), [true]);
    }
    let gathered = until("the batch to be done", SOON, async || {
        let view = runner.store.job(&tenant(), &batch.id).await.unwrap()?;
        matches!(view.state, JobState::Finished).then_some(view)
    });
    assert_eq!(ends(&gathered.await), ["complete early", "complete late", "complete null"]);
}

async fn a_component_learns_that_its_links_contradict_each_other(runner: TestRunner) {
    let plain = follow_up("later", End::Complete);
    let linked = |after: &[&str], batch: Option<&str>, open| Enqueue {
        batch: batch.map(str::to_owned),
        open,
        data: plain.data.clone(),
        ..gather(after)
    };
    let no_batch = [plain.clone(), linked(&[], Some("0"), false)];
    let circle = [linked(&[], None, true), linked(&["0"], Some("0"), false)];
    let no_id = [plain.clone(), linked(&["no id!"], None, false)];
    let many = [plain.clone(), linked(&vec!["0"; 1001], None, false)];
    for (steps, problem) in [
        (no_batch, "is no open batch"),
        (circle, "waits for jobs outside of the batch"),
        (no_id, "`no id!` is no job id"),
        (many, "the job names 1001 jobs in `after`, but it may name 1000"),
    ] {
        let steps = steps.map(Step::Enqueue);
        let id = runner
            .push_job(
                spec_with(
                    "puppet",
                    play(steps).as_bytes(),
                    JobOptions { max_attempts: Some(1), ..JobOptions::default() },
                ),
                Due::Now,
            )
            .await;
        let message = runner.end_of(&id).await.last_failure.unwrap().detail.message;
        assert!(
            message.contains("the job for topic `later` has invalid links: ") && message.contains(problem),
            "{message}"
        );
    }
    assert_eq!(stored(&runner, "later").await, 0);
}

async fn a_handler_gets_results_of_topics_only_that_have_to_do_with_its_own(runner: TestRunner) {
    let first = push(&runner, &script(End::Text("secret".into())), JobOptions::default()).await;
    let links = JobOptions { after: vec![first.clone()], ..JobOptions::default() };
    for (topic, text) in [("closed", Value::Null), ("told", json!("secret")), ("later", json!("secret"))] {
        let job = spec_with(topic, &report(), links.clone());
        let learned = predecessors(&runner.end_of(&runner.push_job(job, Due::Now).await).await);
        let expected = (&json!(first.as_str()), &json!("complete"), &text);
        assert_eq!((&learned[0]["id"], &learned[0]["ended"], &learned[0]["text"]), expected, "{topic}");
    }
    // No link, and yet it says what became of others.
    let forged = vec![("predecessors".to_owned(), "[]".to_owned())];
    let job = JobSpec { metadata: forged.clone(), ..spec("puppet", &report()) };
    let view = runner.end_of(&runner.push_job(job, Due::Now).await).await;
    let Some(ResultView::Complete(Some(payload))) = &view.result else { panic!("{:?}", view.result) };
    let seen: Report = serde_json::from_slice(&payload.data).unwrap();
    assert!(seen.metadata.iter().all(|pair| *pair != forged[0]), "{:?}", seen.metadata);
}

async fn a_component_names_no_jobs_that_it_has_nothing_to_do_with(runner: TestRunner) {
    let foreign = push(&runner, &script(End::Text("secret".into())), JobOptions::default()).await;
    runner.end_of(&foreign).await;
    let batch = JobOptions { open: true, ..JobOptions::default() };
    let batch = runner.push_job(spec_with("still", b"", batch), Due::Now).await;
    let follow_up =
        |after: Vec<String>, batch: Option<String>| Enqueue { after, batch, ..follow_up("later", End::Complete) };
    for (id, follow_up) in [
        (&foreign, follow_up(vec![foreign.as_str().into()], None)),
        (&batch, follow_up(vec![], Some(batch.as_str().into()))),
    ] {
        let steps = play([Step::Enqueue(follow_up)]);
        let job = spec_with("puppet", steps.as_bytes(), JobOptions { max_attempts: Some(1), ..JobOptions::default() });
        let job = runner.push_job(job, Due::Now).await;
        let message = runner.end_of(&job).await.last_failure.unwrap().detail.message;
        assert!(message.contains(&format!("a follow-up may not name job {id}")), "{message}");
    }
    assert_eq!(stored(&runner, "later").await, 0);
}

async fn a_tenant_that_is_full_stores_nothing_of_its_attempts(runner: TestRunner) {
    let granted = with_clock(MANIFEST);
    runner.rewrite(&format!("{granted}\n[limits]\nstored-jobs = 3\n"));
    let held: Vec<_> = (0..3).map(|_| spec("still", b"")).collect();
    let mut ids = Vec::new();
    for job in held {
        ids.push(runner.push_job(job, Due::Now).await);
    }
    let client = runner.client();
    until("the limit to be known", SOON, async || {
        let limits = client.get("/v1/tenants/default/limits").await.json();
        (limits["stored_jobs"] == 3).then_some(())
    })
    .await;
    let steps = play([Step::Enqueue(follow_up("later", End::Complete))]);
    let job = push(&runner, steps.as_bytes(), JobOptions::default()).await;
    until("an attempt to fail because the tenant is full", SOON, async || {
        let view = runner.store.job(&tenant(), &job).await.unwrap()?;
        view.last_failure.filter(|failure| failure.reason == Reason::TenantFull).map(drop)
    })
    .await;
    assert_eq!(stored(&runner, "later").await, 0);
    runner.store.cancel(&tenant(), &ids).await.unwrap();
    runner.rewrite(&granted);
    // What it has used up of its attempts is given back as to any dead job: nothing is lost.
    until("the follow-up to be stored", SOON, async || {
        if matches!(runner.store.job(&tenant(), &job).await.unwrap()?.state, JobState::Dead { .. }) {
            let topic = spec("puppet", b"").topic;
            runner.store.respawn(&topic, std::slice::from_ref(&job)).await.unwrap();
        }
        (stored(&runner, "later").await == 1).then_some(())
    })
    .await;
    end_in(&runner, "later").await;
}
