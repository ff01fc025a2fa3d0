//! Recordings of attempts of real guests, and replays of them in another sandbox.

use std::sync::Arc;

use gristmill::job::{Due, JobId, JobOptions, TopicId};
use gristmill::sandbox::{LogSink, NativeReplay, NativeRequest, Recording, Refusal, ReplayInput, ReplayVerdict};
use gristmill_tests::guests;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{On, TestRunner, sandbox, spec_with};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use serde_json::json;

const MANIFEST: &str = r#"
    [defaults]
    attempts = 1
    record = "all"
    random = true
    [topics.puppet]
    [topics.quiet]
    handler = "puppet"
    record = "failures"
    [topics.caller.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
    [topics.wasi-client.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
    [topics.keeper]
    state = true
    [topics.bucket]
    state = true
    [topics.program]
    adapter = "command"
    args = ["--colour", "never"]
    [topics.program.env]
    GRANTED = "yes"
    [topics.http-component]
    adapter = "proxy"
    [topics.http-component.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
"#;

const GUESTS: [(&str, &str); 7] = [
    ("puppet", guests::PUPPET),
    ("caller", guests::CALLER),
    ("wasi-client", guests::WASI_CLIENT),
    ("keeper", guests::KEEPER),
    ("bucket", guests::BUCKET),
    ("program", guests::PROGRAM),
    ("http-component", guests::HTTP_COMPONENT),
];

on_both_stores! {
    attempts_of_all_kinds_of_guests_end_the_same_when_they_are_replayed
    a_job_that_completes_leaves_no_recording_unless_all_are_kept
    an_answer_by_the_standards_interface_is_put_together_for_a_native_handler
    a_completed_job_is_in_its_recording_also_when_nothing_else_is_known_of_it
    erasing_finds_completed_jobs_by_their_recordings
}

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &GUESTS).await
}

async fn recording(runner: &TestRunner, topic: &str, id: &JobId) -> Arc<Recording> {
    let topic: TopicId = topic.parse().unwrap();
    let found = async || runner.store.recording(&topic, id).await.unwrap();
    Arc::new(Recording::parse(&until("the recording", SOON, found).await).unwrap())
}

async fn attempts_of_all_kinds_of_guests_end_the_same_when_they_are_replayed(runner: TestRunner) {
    let server = Server::start(|request| match request {
        moved if moved.starts_with("GET /moved") => Answer::Now("302 Found", "location: /there\r\n", String::new()),
        _ => Answer::ok(&"all is well ".repeat(10_000)),
    })
    .await;
    let talk = Script::new([
        Step::Log("grinding".into()),
        Step::Stdout("plain".into()),
        Step::HostCalls(10),
        Step::Progress(5000, Some("half".into())),
        Step::Burn(10_000),
        Step::SleepMs(1),
        Step::Checkpoint("saved".into()),
        Step::End(End::Panic("on fire".into())),
    ]);
    let call = caller::Call { redirects: 1, times: 2, ..caller::Call::get(server.url("/moved")) };
    let jobs: [(&str, Vec<u8>, &str); 12] = [
        ("puppet", talk.to_json(), "trapped"),
        ("puppet", Script::end(End::MemoryBomb).to_json(), "memory-exceeded"),
        ("puppet", Script::end(End::StackOverflow).to_json(), "trapped"),
        ("puppet", b"no script".to_vec(), "reject"),
        ("caller", call.alone(), "complete"),
        ("wasi-client", server.url("/moved").replace("/moved", "/there").into_bytes(), "complete"),
        ("wasi-client", b"http://127.0.0.1:1/".to_vec(), "retry"),
        ("keeper", b"reject this".to_vec(), "reject"),
        ("program", b"say hello\nenv\ncomplain\nfail now".to_vec(), "retry"),
        ("http-component", format!("get {}", server.url("/there")).into_bytes(), "complete"),
        ("http-component", format!("post {} 500000", server.url("/there")).into_bytes(), "complete"),
        ("bucket", b"add".to_vec(), ""),
    ];
    for (topic, body, ended) in jobs {
        let spec = spec_with(topic, &body, JobOptions { key: Some("ann".into()), ..JobOptions::default() });
        let id = runner.push_job(spec, Due::Now).await;
        runner.end_of(&id).await;
        let recording = recording(&runner, topic, &id).await;
        assert_eq!((recording.incomplete.as_deref(), recording.head.attempt), (None, 1), "{topic}");
        assert!(ended.is_empty() || recording.end.outcome == ended, "{topic}: {}", recording.end.outcome);
        let (_, guest) = GUESTS.iter().find(|(name, _)| *name == topic).unwrap();
        let component = sandbox().load(&std::fs::read(guest).unwrap()).await.unwrap();
        let env = if topic == "program" { [("GRANTED".into(), "yes".into())].into() } else { Default::default() };
        let input = ReplayInput { body, secrets: Default::default(), env, logs: LogSink::Trace };
        let replayed = component.replay(&recording, input).await.unwrap();
        let calls: Vec<_> = recording.calls().collect();
        assert_eq!(replayed.verdict, ReplayVerdict::Same, "{topic}: {:?}: {calls:?}", replayed.report);
    }
}

async fn a_job_that_completes_leaves_no_recording_unless_all_are_kept(runner: TestRunner) {
    let done = Script::end(End::Complete).to_json();
    let (quiet, loud) = (runner.push("quiet", &done).await, runner.push("puppet", &done).await);
    runner.end_of(&quiet).await;
    runner.end_of(&loud).await;
    assert_eq!(recording(&runner, "puppet", &loud).await.end.outcome, "complete");
    // Those that come later are stored later.
    let failed = runner.push("quiet", &Script::end(End::Unreachable).to_json()).await;
    runner.end_of(&failed).await;
    assert_eq!(recording(&runner, "quiet", &failed).await.end.outcome, "trapped");
    assert_eq!(runner.store.recording(&"quiet".parse().unwrap(), &quiet).await.unwrap(), None);
    let recording = runner.client().get(&format!("/v1/tenants/default/jobs/{failed}/recording")).await.json();
    assert_eq!((recording["id"].as_str(), recording["recording"].is_string()), (Some(failed.as_str()), true));
    let none = runner.client().get(&format!("/v1/tenants/default/jobs/{quiet}/recording")).await.json();
    assert_eq!((none["id"].as_str(), none["recording"].is_null()), (Some(quiet.as_str()), true));
    let calls = runner.client().get(&format!("/v1/tenants/default/jobs/{failed}/recording/calls")).await.json();
    assert_eq!((&calls["recorded"]["outcome"], &calls["recorded"]["attempt"]), (&json!("trapped"), &json!(1)));
    let none = runner.client().get(&format!("/v1/tenants/default/jobs/{quiet}/recording/calls")).await.json();
    assert_eq!(none, json!({ "id": quiet, "recorded": null }));
    let unknown = runner.client().get("/v1/tenants/default/jobs/nowhere/recording").await;
    assert_eq!((unknown.status, unknown.json()["code"].as_str()), (404, Some("job-unknown")));
}

async fn an_answer_by_the_standards_interface_is_put_together_for_a_native_handler(runner: TestRunner) {
    let text = "all is well ".repeat(5_000);
    let answered = text.clone();
    let server = Server::start(move |_| Answer::ok(&answered)).await;
    for (url, status) in [(server.url("/there"), Ok(200)), ("http://127.0.0.1:1/".to_owned(), Err("unreachable"))] {
        let id = runner.push("wasi-client", url.as_bytes()).await;
        runner.end_of(&id).await;
        let recording = recording(&runner, "wasi-client", &id).await;
        let (body, logs) = (url.as_bytes().to_vec(), LogSink::Trace);
        let input = ReplayInput { body, secrets: Default::default(), env: Default::default(), logs };
        let mut replay = NativeReplay::new(&recording, input).unwrap();
        let (method, headers) = ("GET".to_owned(), Vec::new());
        let request =
            NativeRequest { method, url, headers, body: None, timeout: None, redirects: 0, is_by_library: false };
        match replay.send(&request) {
            Ok(answer) => assert_eq!((Ok(answer.status), answer.body.data), (status, text.clone().into_bytes())),
            Err(refusal) => assert_eq!(Err(refusal.code), status),
        }
        assert_eq!(replay.send(&request).unwrap_err().code, Refusal::ASKS_ELSE);
    }
}

async fn a_completed_job_is_in_its_recording_also_when_nothing_else_is_known_of_it(runner: TestRunner) {
    let done = Script::end(End::Complete).to_json();
    let known = runner.push("puppet", &done).await;
    runner.end_of(&known).await;
    assert_eq!(recording(&runner, "puppet", &known).await.body.as_deref(), Some(&done));
    // As if its end was long ago.
    let (topic, forgotten): (TopicId, JobId) = ("puppet".parse().unwrap(), "forgotten".parse().unwrap());
    let bytes = runner.store.recording(&topic, &known).await.unwrap().unwrap();
    let keep = std::time::Duration::from_secs(7200);
    runner.store.keep_recordings(&topic, &[(forgotten.clone(), bytes)], keep).await.unwrap();
    let (client, job) = (runner.client(), "/v1/tenants/default/jobs/forgotten");
    assert_eq!(client.get(job).await.status, 404);
    let calls = client.get(&format!("{job}/recording/calls")).await.json();
    assert_eq!(calls["recorded"]["outcome"], "complete");
    for (query, is_there) in [("", true), ("?topic=puppet", true), ("?topic=quiet", false)] {
        let found = client.get(&format!("{job}/recording{query}")).await.json();
        assert_eq!((found["id"].as_str(), found["recording"].is_string()), (Some("forgotten"), is_there), "{query}");
        let calls = client.get(&format!("{job}/recording/calls{query}")).await.json();
        assert_eq!(calls["recorded"].is_object(), is_there, "{query}");
    }
    let listed = "/v1/tenants/default/topics/puppet/recordings";
    let first = client.get(&format!("{listed}?limit=1")).await.json();
    let next = first["next"].as_str().unwrap();
    let second = client.get(&format!("{listed}?limit=1&after={next}")).await.json();
    let mut found = [&first, &second].map(|page| page["jobs"][0]["id"].as_str().unwrap());
    found.sort_unstable();
    let mut expected = ["forgotten", known.as_str()];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(client.get(&format!("{listed}?limit=2")).await.json()["jobs"].as_array().unwrap().len(), 2);
    let wrong = client.get(&format!("{listed}?after=nowhere")).await;
    assert_eq!((wrong.status, wrong.json()["code"].as_str()), (400, Some("bad-request")));
}

async fn erasing_finds_completed_jobs_by_their_recordings(runner: TestRunner) {
    let of = |name: &str| Script::new([Step::Log(format!("for {name}")), Step::End(End::Complete)]).to_json();
    let (ann, bob) = (runner.push("puppet", &of("Ann")).await, runner.push("puppet", &of("Bob")).await);
    for id in [&ann, &bob] {
        runner.end_of(id).await;
        recording(&runner, "puppet", id).await;
    }
    // As of a job that failed once, and completed long ago.
    let topic: TopicId = "puppet".parse().unwrap();
    let bytes = runner.store.recording(&topic, &bob).await.unwrap().unwrap();
    let mut recording = Recording::parse(&bytes).unwrap();
    recording.body = None;
    let without_body = recording.to_bytes().unwrap();
    let (forgotten, keep): (JobId, _) = ("forgotten".parse().unwrap(), std::time::Duration::from_secs(7200));
    runner.store.keep_recordings(&topic, &[(forgotten, without_body)], keep).await.unwrap();
    let (client, path) = (runner.client(), "/v1/tenants/default/bulk");
    let until_it_is = async |bulk: &str, state: &str| {
        let look = async || Some(client.get(bulk).await.json()).filter(|bulk| bulk["state"] == state);
        until(format!("erasing to be {state}"), SOON, look).await
    };
    let counted = async |query: &str| {
        let made = client.post(path, &json!({ "q": query, "action": "erase" })).await.json();
        let bulk = format!("{path}/{}", made["id"].as_str().unwrap());
        let matched = until_it_is(&bulk, "counted").await["matched"].as_u64().unwrap();
        (bulk, matched)
    };
    for (more, matched) in [("topic:puppet", 1), ("attempts:1", 1), ("attempts<1", 0), ("priority:normal", 0)] {
        assert_eq!(counted(&format!("id:forgotten {more}")).await.1, matched, "{more}");
    }
    let (bulk, matched) = counted("\"for Ann\"").await;
    assert_eq!(matched, 1);
    client.post(&format!("{bulk}/start"), &json!({ "expect": 1 })).await;
    assert_eq!(until_it_is(&bulk, "done").await["changed"], 1);
    assert_eq!(runner.store.recording(&topic, &ann).await.unwrap(), None);
    assert!(runner.store.recording(&topic, &bob).await.unwrap().is_some());
}

/// A version that would undo what went well is found out before it does a job.
#[tokio::test(flavor = "multi_thread")]
async fn completed_jobs_show_what_another_version_would_make_of_them() {
    let manifest = "[defaults]\nattempts = 1\nclock = true\nrecord = \"all\"\n[topics.puppet]";
    let project = TestProject::new(manifest, &[("puppet", guests::PUPPET)]).await;
    let server = project.serve().await;
    project.pipe(&Script::end(End::Complete).to_json(), &["push", "puppet", "--id", "fine", "--wait"]).ended(0);
    project.pipe(&Script::end(End::Unreachable).to_json(), &["push", "puppet", "--id", "broken", "--wait"]).ended(4);
    for id in ["fine", "broken"] {
        let kept = async || (project.run(&["replay", id]).code == 0).then_some(());
        until("the recording", SOON, kept).await;
    }
    let recorded = |more: &[&str]| project.run(&[&["replay", "--recorded", "puppet"], more].concat());
    let same = recorded(&[]);
    assert!(same.ended(0).err.contains("2 same"), "{}", same.err);
    let again = recorded(&["--component", guests::PUPPET]);
    assert!(again.ended(1).err.contains("1 still completes, 1 still fails"), "{}", again.err);
    // This one asks for the state of a key.
    let worse = recorded(&["--component", guests::KEEPER, "--json"]).ended(1).text();
    let of = |id: &str| {
        let lines = worse.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.into_iter().find(|line| line["job"] == id).unwrap()
    };
    assert_eq!(of("fine")["verdict"], "regressed", "{worse}");
    assert_ne!(of("broken")["verdict"], "regressed", "{worse}");
    assert_eq!(recorded(&["--last", "1", "--json"]).ended(0).text().lines().count(), 1);
    let deployed = project.run(&["deploy", "puppet", guests::KEEPER]);
    assert!(deployed.ended(1).err.contains("1 regressed"), "{}", deployed.err);
    assert!(deployed.err.contains("regressed: fine it completed, and now "), "{}", deployed.err);
    let deployed = project.run(&["deploy", "puppet", guests::PUPPET]);
    assert!(deployed.ended(1).err.contains("replayed  1 still completes, 1 still fails"), "{}", deployed.err);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_is_replayed_on_the_command_line() {
    let project =
        TestProject::new("[defaults]\nattempts = 1\nclock = true\n[topics.puppet]", &[("puppet", guests::PUPPET)])
            .await;
    let server = project.serve().await;
    let script =
        Script::new([Step::Log("grinding".into()), Step::HostCalls(2), Step::End(End::Panic("on fire".into()))]);
    let id = "odd-one";
    project.pipe(&script.to_json(), &["push", "puppet", "--id", id, "--wait"]).ended(4);
    let file = project.manifest().with_file_name("failed.json");
    let file = file.to_str().unwrap();
    let exported = async || (project.run(&["replay", id, "--export", file]).code == 0).then_some(());
    until("the recording", SOON, exported).await;
    // Another version has come: the server keeps the one that was recorded.
    let handler = project.handlers().join("puppet.wasm");
    std::fs::copy(guests::KEEPER, &handler).unwrap();
    let from_server = async || (project.run(&["replay", id]).code == 0).then_some(());
    until("the recorded version from the server", SOON, from_server).await;
    assert!(project.run(&["replay", file]).ended(0).err.contains("same as recorded"), "the file has it");
    drop(server);
    let unlike = project.run(&["replay", id]);
    assert!(unlike.ended(1).err.contains("the attempt ran version "), "{}", unlike.err);
    std::fs::copy(guests::PUPPET, &handler).unwrap();
    for of in [id, file] {
        let said = project.run(&["replay", of]);
        said.ended(0);
        for text in ["recorded as trapped", "calls    3 of the host", "outcome  trap: ", "grinding", "same as recorded"]
        {
            assert!(said.err.contains(text), "no {text:?} in\n{}", said.err);
        }
    }
    let document = project.run(&["replay", id, "--json"]).ended(0).document();
    assert_eq!(
        (document["verdict"].as_str(), document["calls"][1]["name"].as_str()),
        (Some("same"), Some("context.now"))
    );
    let stepped = project.run(&["replay", id, "--step"]).ended(0).text();
    let steps: Vec<_> = stepped.lines().map(str::trim_start).collect();
    let begins =
        ["INFO     grinding", "1  context.now: ", "2  context.now: ", "3  environment: not kept", "stderr   thread"];
    for (step, begin) in steps.iter().zip(begins) {
        assert!(step.starts_with(begin), "no {begin:?} in\n{stepped}");
    }
    assert!(steps.contains(&"stderr   on fire"), "{stepped}");
    let other = project.run(&["replay", id, "--component", guests::KEEPER]);
    assert!(other.ended(1).err.contains("asks something else") || other.err.contains("another way"), "{}", other.err);
    let mended = project.run(&["replay", id, "--component", guests::ECHO]);
    assert!(mended.ended(0).err.contains("mended: it failed as recorded, and now completes"), "{}", mended.err);
    let against = project.run(&["replay", "--against", "state:dead", "--component", guests::PUPPET]);
    assert!(against.ended(1).text().contains("still fails"), "{}", against.text());
    let again = project.run(&["replay", "--against", "state:dead", "--json"]).ended(0).document();
    assert_eq!((&again["job"], &again["verdict"]), (&json!(id), &json!("same")));
    let damaged = std::fs::read_to_string(file).unwrap().replacen("\"recording\": \"R01S", "\"recording\": \"AAAA", 1);
    std::fs::write(file, damaged).unwrap();
    let refused = project.run(&["replay", file]);
    assert!(refused.ended(1).err.contains("this is no recording of an attempt"), "{}", refused.err);
    assert!(project.run(&["replay", "no job!"]).ended(2).err.contains("no file, and no job"));
}
