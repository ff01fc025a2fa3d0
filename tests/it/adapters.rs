//! Components that were not written for Gristmill, by the adapter that their topic names.

use gristmill::outcome::Reason;
use gristmill::store::{JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{TestRunner, spec};

use gristmill::job::Due;

fn result(view: &JobView) -> String {
    match &view.result {
        Some(ResultView::Complete(Some(payload))) => String::from_utf8(payload.data.clone()).unwrap(),
        other => panic!("no result but {other:?}"),
    }
}

const PROGRAM: &str = r#"
[defaults]
result-retention = "1h"
attempts = 1

[topics.program]
adapter = "command"
args = ["--colour", "never"]

[topics.program.env]
GRANTED = "yes"

[topics.strict]
handler = "program"
adapter = "command"

[topics.strict.exit-codes]
1 = "dead"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_rust_program_built_for_wasi_does_jobs() {
    let runner = TestRunner::start(PROGRAM, &[("program", guests::PROGRAM)]).await;
    let said = runner.work("program", b"say hello\nargs\ncomplain about it\nsay bye").await;
    assert_eq!(result(&said), "hello\nprogram --colour never\nbye\n");

    let mut job = spec("program", b"env");
    job.metadata = vec![("content-language".into(), "de".into()), ("Content_Language".into(), "fr".into())];
    job.options.key = Some("user-1".into());
    let id = runner.push_job(job, Due::Now).await;
    let variables = result(&runner.end_of(&id).await);
    let variables: Vec<_> = variables.lines().collect();
    let expected = [
        "GRANTED=yes",
        "GRISTMILL_ATTEMPT=1",
        "GRISTMILL_KEY=user-1",
        "GRISTMILL_MAX_ATTEMPTS=1",
        "GRISTMILL_META_CONTENT_LANGUAGE=de",
        "GRISTMILL_TENANT=default",
        "GRISTMILL_TOPIC=program",
    ];
    let timeless = |line: &&&str| !["_ID=", "_AT=", "_DEADLINE="].iter().any(|part| line.contains(part));
    assert_eq!(variables.iter().filter(timeless).copied().collect::<Vec<_>>(), expected);
    assert!(variables.contains(&format!("GRISTMILL_ID={id}").as_str()), "{variables:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_asks_for_a_socket_or_a_name_gets_an_error_of_its_language_and_goes_on() {
    let runner = TestRunner::start(PROGRAM, &[("program", guests::PROGRAM)]).await;
    let view = runner.work("program", b"connect 127.0.0.1:80\nlook-up localhost:80\nsay bye").await;
    let said = result(&view);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines.len() == 3 && lines[0].contains("Permission denied"), "{said}");
    assert!(!lines[1].contains("it worked") && lines[2] == "bye", "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_programs_failure_is_its_exit_code_and_its_last_words() {
    let runner = TestRunner::start(PROGRAM, &[("program", guests::PROGRAM)]).await;
    for (topic, reason) in [("program", Reason::Failed), ("strict", Reason::Rejected)] {
        let view = runner.work(topic, b"say half\ncomplain no such customer\nexit 1").await;
        assert!(matches!(view.state, JobState::Dead { .. }), "{view:?}");
        let failure = view.last_failure.unwrap();
        assert_eq!((failure.reason, failure.detail.code.as_str()), (reason, "exit-1"));
        assert_eq!(failure.detail.message, "no such customer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_refused_until_its_topic_says_that_it_is_one() {
    let project = TestProject::new("[topics.program]", &[("program", guests::PROGRAM)]).await;
    let lines = ["cannot call its handler `program`, which exports `wasi:cli/run`", "adapter = \"command\""];
    let says_all = |text: &str| lines.iter().all(|line| text.contains(line));
    let checked = project.run(&["check"]);
    assert!(says_all(&checked.ended(1).text()), "{}", checked.text());
    let invoked = project.run(&["invoke", guests::PROGRAM, "--topic", "program"]);
    assert!(says_all(&invoked.ended(1).err), "{}", invoked.err);
    project.write_manifest("[topics.program]\nadapter = \"command\"\nclock = true");
    let invoked = project.run(&["invoke", guests::PROGRAM, "--topic", "program", "--data", "say hello"]);
    assert_eq!(invoked.ended(0).text(), "hello\n");
}

const PROXY: &str = r#"
[defaults]
result-retention = "1h"
attempts = 1
clock = true
random = true

[topics.server]
handler = "http-component"
adapter = "proxy"
path = "/hooks?a=1"
output-limit = "100KiB"

[topics.server.status-codes]
404 = "ack"

[topics.server.http]
allow = ["http://127.0.0.1:*", "http://10.0.0.1"]
networks = ["127.0.0.1"]
request-limit = "64KiB"
response-limit = "64KiB"
requests = 2

[topics.many]
handler = "http-component"
adapter = "proxy"

[topics.many.http]
allow = ["http://127.0.0.1:*"]
networks = ["127.0.0.1"]

[topics.public]
handler = "http-component"
adapter = "proxy"

[topics.public.http]
allow = ["http://127.0.0.1:*"]

[topics.bare]
handler = "http-component"
adapter = "proxy"
"#;

async fn proxies() -> TestRunner {
    TestRunner::start(PROXY, &[("http-component", guests::HTTP_COMPONENT)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_serves_http_gets_jobs_as_requests() {
    let runner = proxies().await;
    let mut job = spec("server", b"show");
    job.body.content_type = Some("text/plain".into());
    let metadata = [("traceparent", "00-1-2-01"), ("gristmill-id", "forged"), ("host", "forged"), ("no header", "x")];
    job.metadata = metadata.map(|(name, value)| (name.into(), value.into())).to_vec();
    let id = runner.push_job(job, Due::Now).await;
    let view = runner.end_of(&id).await;
    let shown = result(&view);
    let timeless: Vec<_> = shown.lines().filter(|line| !line.contains("-at: ") && !line.contains("deadline")).collect();
    let expected = [
        "Method::Post /hooks?a=1",
        "content-length: 4",
        "content-type: text/plain",
        "gristmill-attempt: 1",
        &format!("gristmill-id: {id}"),
        "gristmill-max-attempts: 1",
        "gristmill-tenant: default",
        "gristmill-topic: server",
        "traceparent: 00-1-2-01",
    ];
    assert_eq!(timeless, expected);
    let Some(ResultView::Complete(Some(payload))) = view.result else { panic!() };
    assert_eq!(payload.content_type.as_deref(), Some("text/plain"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_the_answer_says_what_becomes_of_the_job() {
    let runner = proxies().await;
    assert_eq!(result(&runner.work("server", b"status 404").await), "as you wish");
    let large = runner.work("server", b"bytes 90000").await;
    assert_eq!(result(&large).len(), 90_000, "more than is buffered between guest and host");
    let failures = [
        ("status 400", Reason::Rejected, "status-400", "as you wish"),
        ("status 503", Reason::Failed, "status-503", "as you wish"),
        ("status 429 60", Reason::Failed, "status-429", "answered with status 429"),
        ("error", Reason::Failed, "no-answer", "it answered with an error: ErrorCode::LoopDetected"),
        ("halve", Reason::Failed, "no-answer", "its answer broke off"),
        ("nothing", Reason::Failed, "no-answer", "it returned without an answer"),
        ("bytes 102401", Reason::Limit, "", ""),
    ];
    for (order, reason, code, message) in failures {
        let failure = runner.work("server", order.as_bytes()).await.last_failure.unwrap();
        assert_eq!(failure.reason, reason, "{order}: {failure:?}");
        assert!(code.is_empty() || failure.detail.code == code, "{order}: {failure:?}");
        assert!(failure.detail.message.contains(message), "{order}: {failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_read_while_it_comes_in_and_no_longer_than_the_guest_wants() {
    let runner = proxies().await;
    let there = Server::start(|_| Answer::Begun).await;
    let begun = runner.work("many", format!("begin {}", there.url("/")).as_bytes()).await;
    assert_eq!(result(&begun), "at ");
    there.until_given_up(1).await;
    let impatient = runner.work("many", format!("impatient {}", there.url("/")).as_bytes()).await;
    assert_eq!(result(&impatient), "200 no body");
    there.release();
    assert_eq!(result(&runner.work("many", format!("get {}", there.url("/")).as_bytes()).await), "200 at long last");
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_requests_of_an_attempt_are_on_their_way_at_once_and_the_others_wait() {
    let runner = proxies().await;
    let there = Server::start(|_| Answer::Held).await;
    let id = runner.push("many", format!("many {} 20", there.url("/")).as_bytes()).await;
    there.until_held(8).await;
    there.release();
    assert_eq!(result(&runner.end_of(&id).await), vec!["200 at last"; 20].join(","));
    assert_eq!((there.held_at_most(), there.requests().len()), (8, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_standard_pass_the_same_checks_as_our_own() {
    let runner = proxies().await;
    let there = Server::start(|_| Answer::ok("hello")).await;
    let target = there.url("/");
    let redirecting = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/long") => Answer::ok(&"x".repeat((64 << 10) + 1)),
        _ => Answer::Now("302 Found", "location: http://10.0.0.1/\r\n", String::new()),
    })
    .await;
    let sent = async |topic: &str, order: String| result(&runner.work(topic, order.as_bytes()).await);

    assert_eq!(sent("server", format!("get {target}")).await, "200 hello");
    assert_eq!(sent("server", format!("post {target} 65536")).await, "200 hello");
    assert!(there.requests()[1].ends_with(&"x".repeat(65536)));
    assert_eq!(sent("server", format!("get {}", redirecting.url("/"))).await, "302 ", "the guest's to follow");
    let refused = [
        ("server", "get http://10.0.0.1/".to_owned(), "HttpRequestDenied"),
        ("server", "get http://other.example/".to_owned(), "HttpRequestDenied"),
        ("public", format!("get {target}"), "HttpRequestDenied"),
        ("bare", format!("get {target}"), "HttpRequestDenied"),
        ("server", format!("post {target} 65537"), "HttpRequestBodySize"),
        ("server", format!("get {}", redirecting.url("/long")), "HttpResponseBodySize"),
    ];
    for (topic, order, error) in refused {
        let answer = sent(topic, order.clone()).await;
        assert!(answer.contains(error), "{topic}: {order}: {answer}");
    }
    assert_eq!(there.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_body_is_sent_while_the_guest_writes_it() {
    let runner = proxies().await;
    let there = Server::start(|_| Answer::ok("hello")).await;
    let sent = async |order: String| result(&runner.work("many", order.as_bytes()).await);
    assert_eq!(sent(format!("early {}", there.url("/early"))).await, "200 hello");
    assert_eq!(sent(format!("post {} 500000", there.url("/"))).await, "200 hello");
    let request = there.requests().pop().unwrap();
    assert_eq!(request.matches('x').count(), 500_000, "{}", &request[..300]);
    let over = sent(format!("post {} 1100000", there.url("/"))).await;
    assert!(over.contains("HttpRequestBodySize"), "{over}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_standards_error_leaves_out_is_in_the_jobs_log() {
    let manifest = "[topics.bare]\nadapter = \"proxy\"\nclock = true\nrandom = true\n";
    let project = TestProject::new(manifest, &[]).await;
    let order = "get http://good.example/";
    let invoked = project.run(&["invoke", guests::HTTP_COMPONENT, "--topic", "bare", "--data", order]);
    assert!(invoked.ended(0).text().contains("HttpRequestDenied"), "{invoked:?}");
    assert!(invoked.err.contains("this topic may send no requests: grant it [topics.NAME.http]"), "{}", invoked.err);
}
