//! Push: one job, many, bytes as they are; what is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill::job::{JobId, Priority};
use gristmill_tests::http_client::Answer;
use gristmill_tests::test_runner::{TestRunner, tenant};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::{Value, json};

use super::{ECHO, NOBODY, job_path, refused, runner};

on_both_stores! {
    a_pushed_document_is_stored_as_it_is_written
    every_field_of_a_job_reaches_the_handler
    bytes_of_any_other_media_type_are_the_job
    many_jobs_are_answered_one_by_one
    a_list_and_lines_are_many_jobs
    jobs_that_cannot_be_stored_all_or_none_are_refused
    a_body_at_the_limit_is_taken_and_one_byte_more_is_not
    a_push_that_waits_is_answered_with_the_result
    an_id_or_a_unique_value_that_is_there_stores_nothing
    delayed_jobs_of_a_tenant_outside_the_manifest_become_due
}

async fn stored(runner: &TestRunner, answer: &Answer) -> gristmill::job::Job {
    assert_eq!(answer.status, 201, "{}", answer.text());
    let id: JobId = answer.json()["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(answer.header("location"), format!("/v1/tenants/default/jobs/{id}"));
    runner.store.job(&tenant(), &id).await.unwrap().unwrap().job.unwrap()
}

async fn raw(runner: &TestRunner, path: &str, media: &str, body: &[u8]) -> Answer {
    runner.client().send(Request::post(path).header("content-type", media), body.to_vec()).await
}

async fn a_pushed_document_is_stored_as_it_is_written(runner: TestRunner) {
    let written = r#"{ "n": 12345678901234567890.10, "a": [ 1,2 ] }"#;
    for body in [written, "null", "\"x\"", "false"] {
        let answer = raw(&runner, NOBODY, "application/json", format!(r#"{{"body": {body}}}"#).as_bytes()).await;
        let job = stored(&runner, &answer).await;
        assert_eq!(job.spec.body.data, body.as_bytes());
        assert_eq!(job.spec.body.content_type.as_deref(), Some("application/json"));
    }
    // Some editors begin a text with a mark that says nothing.
    let marked = "\u{feff}{\"body\": 1}".as_bytes();
    assert_eq!(stored(&runner, &raw(&runner, NOBODY, "application/json", marked).await).await.spec.body.data, b"1");
    assert_eq!(raw(&runner, NOBODY, "application/x-ndjson", marked).await.status, 201);
    let job = stored(&runner, &runner.client().post(NOBODY, &json!({})).await).await;
    assert_eq!((job.spec.body.data.len(), job.spec.body.content_type), (0, None));
}

async fn every_field_of_a_job_reaches_the_handler(runner: TestRunner) {
    let said = json!({
        "id": "j", "body_base64": STANDARD.encode([0, 255]), "content_type": "image/x", "at_ms": 4_000_000_000_000_u64,
        "priority": "high", "unique": { "value": "u", "window_ms": 1000 }, "attempts_max": 7, "ttl_ms": 2000,
        "keep_result_ms": 3000, "metadata": { "z": "1", "a": "ü" }, "key": "k",
    });
    let job = stored(&runner, &runner.client().post(NOBODY, &said).await).await;
    assert_eq!((job.spec.id.as_str(), job.spec.body.data), ("j", vec![0, 255]));
    assert_eq!(job.spec.body.content_type.as_deref(), Some("image/x"));
    assert_eq!(job.due_at.as_millis(), 4_000_000_000_000);
    assert_eq!(
        (job.spec.options.priority, job.spec.options.max_attempts, job.spec.options.key.as_deref()),
        (Priority::High, Some(7), Some("k"))
    );
    let unique = job.spec.options.unique.unwrap();
    assert_eq!((unique.value.as_str(), unique.window.unwrap().as_millis()), ("u", 1000));
    assert_eq!(
        (job.spec.options.ttl.unwrap().as_millis(), job.spec.options.keep_result.unwrap().as_millis()),
        (2000, 3000)
    );
    let mut metadata = job.spec.metadata;
    metadata.sort();
    assert_eq!(metadata, [("a".to_owned(), "ü".to_owned()), ("z".to_owned(), "1".to_owned())]);
}

async fn bytes_of_any_other_media_type_are_the_job(runner: TestRunner) {
    let path = format!("{NOBODY}?id=r&delay_ms=3600000&priority=low&attempts_max=2&key=k&unique=u&unique_window_ms=9");
    let answer = raw(&runner, &path, "image/png; x=1", &[0, 255, 10]).await;
    let job = stored(&runner, &answer).await;
    assert_eq!((job.spec.id.as_str(), job.spec.body.data), ("r", vec![0, 255, 10]));
    assert_eq!(job.spec.body.content_type.as_deref(), Some("image/png; x=1"));
    assert_eq!((job.spec.options.priority, job.spec.options.max_attempts), (Priority::Low, Some(2)));
    assert_eq!(job.spec.options.unique.unwrap().window.unwrap().as_millis(), 9);
    assert!(job.due_at > job.enqueued_at);
    // What a page could make a browser send by itself gets in only with a header that it could not.
    refused(&raw(&runner, NOBODY, "text/plain", b"x").await, 415, "media-type");
    let request = Request::post(NOBODY).header("content-type", "text/plain").header("x-request-id", "r-1");
    let answer = runner.client().send(request, b"x".to_vec()).await;
    assert_eq!((answer.status, answer.header("x-request-id")), (201, "r-1"));
    refused(&raw(&runner, &format!("{NOBODY}?prio=1"), "image/png", b"x").await, 400, "bad-request");
    refused(&raw(&runner, &format!("{NOBODY}?unique_window_ms=1"), "image/png", b"x").await, 400, "bad-request");
}

async fn many_jobs_are_answered_one_by_one(runner: TestRunner) {
    runner.client().post(NOBODY, &json!({ "id": "b" })).await;
    let jobs = json!({ "jobs": [{ "id": "a" }, { "id": "b" }, { "body": 1 }] });
    let answer = runner.client().post(NOBODY, &jobs).await;
    assert_eq!(answer.status, 201);
    let answers = answer.json()["jobs"].clone();
    let statuses: Vec<_> =
        answers.as_array().unwrap().iter().map(|answer| answer["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["stored", "exists", "stored"]);
    assert_eq!(answers[0]["id"], "a");

    let of = |count: usize| json!({ "jobs": vec![json!({}); count] });
    assert_eq!(runner.client().post(NOBODY, &of(1000)).await.json()["jobs"].as_array().unwrap().len(), 1000);
    refused(&runner.client().post(NOBODY, &of(1001)).await, 413, "too-large");
    // One mistake, and none is stored.
    let mistaken = json!({ "jobs": [{ "id": "c" }, { "delay_ms": 1, "at_ms": 1 }] });
    assert!(refused(&runner.client().post(NOBODY, &mistaken).await, 400, "bad-request").contains("jobs[1]"));
    assert_eq!(runner.client().get("/v1/tenants/default/jobs/c").await.status, 404);
}

async fn a_list_and_lines_are_many_jobs(runner: TestRunner) {
    const LINES: &str = "application/x-ndjson";
    let list = r#" [{"id": "a", "body": 1.50}, {"id": "b", "unique": "u", "delay_ms": 5}, {"id": "b"}]"#;
    let lines = "{\"id\": \"c\", \"body\": 1.50}\n\n{\"id\": \"d\", \"unique\": \"v\"}\r\n{\"id\": \"d\"}";
    for (media, written, ids) in [("application/json", list, ["a", "b", "b"]), (LINES, lines, ["c", "d", "d"])] {
        let answer = raw(&runner, NOBODY, media, written.as_bytes()).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let jobs = answer.json()["jobs"].as_array().unwrap().clone();
        assert_eq!(jobs.iter().map(|job| job["id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
        assert_eq!(jobs[2]["status"], "exists", "one job is stored once");
        let first = runner.store.job(&tenant(), &ids[0].parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(first.job.unwrap().spec.body.data, b"1.50");
    }
    // The first mistake is named, and nothing is stored.
    let mistakes = [
        ("application/json", r#"[{"id": "e"}, {"bdy": 1}]"#, "jobs[1]: there is no field `bdy`"),
        ("application/json", r#"[{"id": "e"}, {"delay_ms": 1, "at_ms": 1}]"#, "jobs[1]: "),
        (LINES, "{\"id\": \"e\"}\n\n{\"bdy\": 1}", "line 3"),
        (LINES, "{\"id\": \"e\"}\n\n{\"delay_ms\": 1, \"at_ms\": 1}", "line 3: "),
        (LINES, "{\"id\": \"e\"}\n[]", "each line has one job, an object, and this is a list"),
        ("application/json", r#"{"priority": 5}"#, "priority: `5` is none of `high`, `normal`, `low`"),
    ];
    for (media, written, named) in mistakes {
        let said = refused(&raw(&runner, NOBODY, media, written.as_bytes()).await, 400, "bad-request");
        assert!(said.contains(named) && !said.contains("deserialize"), "{written}: {said}");
    }
    assert_eq!(runner.client().get("/v1/tenants/default/jobs/e").await.status, 404);
    for (media, count, status) in [(LINES, 1000, 201), (LINES, 1001, 413), ("application/json", 1001, 413)] {
        let written = if media == LINES { "{}\n".repeat(count) } else { format!("[{}{{}}]", "{},".repeat(count - 1)) };
        assert_eq!(raw(&runner, NOBODY, media, written.as_bytes()).await.status, status, "{media} {count}");
    }
    refused(&raw(&runner, &format!("{ECHO}?wait_ms=1"), LINES, b"{}").await, 400, "bad-request");
}

async fn jobs_that_cannot_be_stored_all_or_none_are_refused(runner: TestRunner) {
    let of = |count: usize| json!({ "jobs": vec![json!({ "body": "x".repeat(900 << 10) }); count] });
    let too_many = runner.client().post(NOBODY, &of(5)).await;
    refused(&too_many, 413, "too-large");
    assert!(too_many.text().contains("send them in several requests"), "{}", too_many.text());
    assert!(runner.store.counts(&tenant()).await.unwrap().is_empty());
    assert_eq!(runner.client().post(NOBODY, &of(4)).await.status, 201);
}

async fn a_body_at_the_limit_is_taken_and_one_byte_more_is_not(runner: TestRunner) {
    let path = "/v1/tenants/default/topics/small/jobs";
    assert_eq!(raw(&runner, path, "image/png", &[7; 10]).await.status, 201);
    let detail = refused(&raw(&runner, path, "image/png", &[7; 11]).await, 413, "too-large");
    assert!(detail.contains("11 bytes") && detail.contains("takes 10") && detail.contains("payload-limit"), "{detail}");
    // Of one that is longer no more is read than is needed to know that.
    let detail = refused(&raw(&runner, path, "image/png", &[7; 100]).await, 413, "too-large");
    assert!(
        detail.contains("has at least") && detail.contains("`small` takes 10: see its `payload-limit`"),
        "{detail}"
    );
    let detail =
        refused(&runner.client().post(path, &json!({ "jobs": [{}, { "body": "123456789" }] })).await, 413, "too-large");
    assert!(detail.contains("jobs[1]"), "{detail}");
}

async fn a_push_that_waits_is_answered_with_the_result(runner: TestRunner) {
    let answer = runner.client().post(&format!("{ECHO}?wait_ms=60000"), &json!({ "body": { "a": 1 } })).await.json();
    assert_eq!((&answer["status"], &answer["job"]["state"]), (&json!("stored"), &json!("finished")));
    assert_eq!(answer["job"]["result"]["outcome"], "complete");
    let output = &answer["job"]["result"]["output"];
    assert_eq!((&output["text"], output.get("base64")), (&json!(r#"{"a":1}"#), None), "{output}");
    // Nobody does this one.
    let answer = runner.client().post(&format!("{NOBODY}?wait_ms=1"), &json!({})).await.json();
    assert_eq!((&answer["job"]["state"], &answer["job"]["result"]), (&json!("ready"), &Value::Null));
    let many = json!({ "jobs": [{}] });
    refused(&runner.client().post(&format!("{ECHO}?wait_ms=1"), &many).await, 400, "bad-request");
    refused(&runner.client().post(&format!("{ECHO}?wait_ms=60001"), &json!({})).await, 400, "bad-request");
}

async fn an_id_or_a_unique_value_that_is_there_stores_nothing(runner: TestRunner) {
    let first = json!({ "id": "first", "unique": { "value": "u" } });
    assert_eq!(runner.client().post(NOBODY, &first).await.status, 201);
    let again = runner.client().post(NOBODY, &first).await;
    assert_eq!((again.status, again.json()), (200, json!({ "id": "first", "status": "exists" })));
    let other = runner.client().post(NOBODY, &json!({ "unique": { "value": "u" } })).await;
    assert_eq!((other.status, other.json()), (200, json!({ "id": "first", "status": "duplicate" })));
    assert_eq!(runner.client().get(&job_path(&other.json()["id"])).await.status, 200);
}

async fn delayed_jobs_of_a_tenant_outside_the_manifest_become_due(runner: TestRunner) {
    let answer = runner.client().post("/v1/tenants/visitor/topics/t/jobs", &json!({ "delay_ms": 50 })).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let due = json!({ "jobs": [{ "id": "j", "tenant": "guest", "topic": "t", "delay_ms": 50 }] });
    assert_eq!(runner.client().post("/v1/jobs", &due).await.status, 200);
    for tenant in ["visitor", "guest"] {
        until(format!("the job of {tenant} to be due"), SOON, async || {
            let counts = runner.store.counts(&tenant.parse().unwrap()).await.unwrap();
            counts.iter().any(|counts| counts.ready == 1).then_some(())
        })
        .await;
    }
}
