//! `push`: where a body comes from, which jobs are made of it, and what is refused.

use gristmill_tests::guests;
use gristmill_tests::process::{Process, command, program};
use gristmill_tests::test_project::{Said, TestProject, fields};
use gristmill_tests::wait::{SOON, until};
use serde_json::json;

const MANIFEST: &str = r#"
    [defaults]
    payload-limit = "1KiB"
    # Nobody works here: what is pushed stays to be looked at.
    [topics.parking]
    handler = "nobody"
    payload-limit = "100B"
"#;

async fn project() -> TestProject {
    TestProject::new(MANIFEST, &[("echo", guests::ECHO)]).await
}

/// The body as the store has it.
fn body(project: &TestProject, id: &str) -> String {
    let job = project.run(&["job", "show", id.trim(), "--json"]).ended(0).document();
    job["job"]["body"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_from_an_option_a_file_or_a_pipe() {
    let project = project().await;
    let file = project.manifest().with_file_name("body.txt");
    std::fs::write(&file, "from a file").unwrap();
    let file = file.to_str().unwrap();
    let pushed = [
        (project.run(&["push", "parking", "--data", "from an option"]), "from an option"),
        (project.run(&["push", "parking", "--file", file]), "from a file"),
        (project.pipe(b"from a pipe", &["push", "parking"]), "from a pipe"),
        (project.pipe(b"from a pipe", &["push", "parking", "--file", "-"]), "from a pipe"),
        (project.run(&["push", "parking"]), ""),
    ];
    for (said, expected) in pushed {
        assert_eq!(body(&project, &said.done()), expected);
    }
    let said = project.run(&["push", "parking", "--file", "nowhere.txt"]);
    assert!(said.ended(1).err.contains("nowhere.txt"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_makes_as_many_jobs_each_with_its_own_id() {
    let project = project().await;
    // More than are sent at once.
    let said = project.run(&["push", "parking", "--data", "x", "--count", "501"]).done();
    let ids: std::collections::HashSet<_> = said.lines().collect();
    assert_eq!(ids.len(), 501);
    let counts = project.run(&["stats", "--json"]).document();
    assert_eq!(counts["ready"], 501);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_says_what_became_of_each_job() {
    let project = project().await;
    let said = project.run(&["push", "acme/parking", "--data", "x", "--count", "2", "--json"]);
    let documents = said.ended(0).documents();
    assert_eq!(documents.len(), 2);
    for document in documents {
        assert_eq!(fields(&document), ["id", "status", "tenant", "topic"]);
        assert_eq!((&document["status"], &document["tenant"]), (&json!("stored"), &json!("acme")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_pushed_again_changes_nothing() {
    let project = project().await;
    let push = |data: &str| project.run(&["push", "parking", "--id", "order-7", "--data", data, "--json"]);
    assert_eq!(push("first").document()["status"], "stored");
    assert_eq!(push("second").ended(0).document()["status"], "exists");
    assert_eq!(body(&project, "order-7"), "first");

    let said = project.run(&["push", "parking", "--id", "order-7", "--data", "third"]);
    assert_eq!((said.done().as_str(), said.err.contains("stored already")), ("order-7\n", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_value_whose_window_outlives_its_job_is_found_and_freed() {
    let project = project().await;
    let push =
        || project.run(&["push", "parking", "--unique", "u", "--unique-for", "1h", "--data", "x", "--json"]).document();
    let id = push()["id"].as_str().unwrap().to_owned();
    project.run(&["job", "cancel", &id]).done();
    assert_eq!(push()["status"], "duplicate");
    let noted = project.run(&["push", "parking", "--unique", "u", "--unique-for", "1h", "--data", "x"]);
    assert!(noted.err.contains("`gristmill unique show parking VALUE` says until when"), "{}", noted.err);
    let said = project.run(&["unique", "show", "parking", "u"]).done();
    assert!(said.contains(&format!("job {id} holds `u` in `parking`; it is free again in")), "{said}");
    assert!(project.run(&["unique", "free", "parking", "u"]).done().contains("freed `u`"));
    assert_eq!(push()["status"], "stored");
    let none = project.run(&["unique", "free", "parking", "v"]).ended(1).err.clone();
    assert!(none.contains("no job holds `v`"), "{none}");
    // Who removes a topic means its values, too.
    project.run(&["topics", "purge", "parking", "--yes"]).done();
    assert_eq!(push()["status"], "stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_value_waits_once() {
    let project = project().await;
    let push = |topic: &str| project.run(&["push", topic, "--unique", "u", "--data", "x", "--json"]).document();
    let first = push("parking");
    let second = push("parking");
    assert_eq!((&second["status"], &second["id"]), (&json!("duplicate"), &first["id"]));
    assert_eq!(push("echo")["status"], "stored", "another topic's values are its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_pushed_job_is_stored() {
    let project = project().await;
    let options = ["--meta", "a=1", "--meta", "a=2=3", "--key", "k", "--attempts", "9", "--ttl", "1h"];
    let said =
        project.run(&[&["push", "parking", "--id", "j", "--content-type", "text/x"], options.as_slice()].concat());
    said.done();
    let job = &project.run(&["job", "show", "j", "--json"]).document()["job"];
    assert_eq!(job["metadata"], json!([["a", "1"], ["a", "2=3"]]));
    assert_eq!((&job["key"], &job["attempts_max"], &job["ttl_ms"]), (&json!("k"), &json!(9), &json!(3_600_000)));
    assert_eq!(job["body"]["content_type"], "text/x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_due_at_the_time_that_is_given() {
    let project = project().await;
    project.run(&["push", "parking", "--id", "j", "--at", "2100-01-01T01:00:00+01:00"]).done();
    let job = project.run(&["job", "show", "j", "--json"]).document();
    assert_eq!((&job["state"], &job["place"]["until_ms"]), (&json!("delayed"), &json!(4_102_444_800_000_u64)));
    project.run(&["push", "parking", "--id", "past", "--at", "2002-01-01T00:00:00Z"]).done();
    assert_eq!(project.run(&["job", "show", "past", "--json"]).document()["state"], "ready");
}

/// A project with its store in a file, the same with a server, and one on Redis.
async fn everywhere() -> [(TestProject, Option<Process>); 3] {
    let served = project().await;
    let server = served.serve().await;
    let redis = TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await;
    [(project().await, None), (served, Some(server)), (redis, None)]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_of_a_file_becomes_a_job() {
    for (project, _server) in everywhere().await {
        let file = project.manifest().with_file_name("jobs.jsonl");
        let lines = [
            r#"{"id": "a", "body": {"n": 1.50}, "metadata": {"x": "1"}, "priority": "high", "key": "k"}"#,
            "",
            r#"{"id": "b", "body_base64": "aGk=", "content_type": "text/plain", "at_ms": 4102444800000}"#,
            r#"{"id": "c", "unique": {"value": "u"}}"#,
            r#"{"id": "d", "unique": {"value": "u"}}"#,
        ];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let push = ["push", "acme/parking", "--jsonl", file.to_str().unwrap(), "--json"];
        let statuses = |said: Said| {
            let ended = said.ended(0).documents();
            ended.iter().map(|it| format!("{} {}", it["id"], it["status"]).replace('"', "")).collect::<Vec<_>>()
        };
        assert_eq!(statuses(project.run(&push)), ["a stored", "b stored", "c stored", "c duplicate"]);
        assert_eq!(statuses(project.run(&push)), ["a exists", "b exists", "c exists", "c duplicate"]);

        let show = |id: &str| project.run(&["job", "show", id, "--tenant", "acme", "--json"]).document();
        let job = &show("a")["job"];
        assert_eq!((&job["body"]["text"], &job["metadata"]), (&json!("{\"n\": 1.50}"), &json!([["x", "1"]])));
        assert_eq!((&job["priority"], &job["key"]), (&json!("high"), &json!("k")));
        assert_eq!((&show("b")["job"]["body"]["text"], &show("b")["state"]), (&json!("hi"), &json!("delayed")));

        let said = project.pipe(b"{}\n{}", &["push", "parking", "--jsonl", "-"]);
        assert_eq!(said.done().lines().count(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_line_is_named_and_those_before_it_are_pushed() {
    for (project, _server) in everywhere().await {
        // More than are sent at once.
        let mut lines: Vec<_> = (1..=600).map(|n| format!("{{\"id\": \"j{n}\", \"body\": {n}}}")).collect();
        lines.extend([r#"{"bdy": 1}"#.to_owned(), r#"{"id": "last"}"#.to_owned()]);
        let push = |lines: &[String]| project.pipe(lines.join("\n").as_bytes(), &["push", "parking", "--jsonl", "-"]);
        let said = push(&lines);
        let named =
            "error: failed to push line 601 of standard input (lines 1 to 600 are pushed): there is no field `bdy`";
        assert!(said.ended(2).err.contains(named), "{}", said.err);
        assert_eq!(said.text().lines().count(), 600);

        // The rules of the topic are those of the server, if there is one.
        lines[600] = format!("{{\"id\": \"large\", \"body\": \"{}\"}}", "x".repeat(100));
        let said = push(&lines).ended(2).err.clone();
        assert!(said.contains("failed to push line 601 of") && said.contains("payload-limit"), "{said}");

        lines.remove(600);
        assert_eq!(push(&lines).ended(0).text().lines().last(), Some("last"));
        let counts = project.run(&["stats", "--json"]).document();
        assert_eq!(counts["ready"], 601);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_an_unknown_topic_warns_and_names_a_near_one() {
    let project = project().await;
    for (topic, hint) in [("praking", "did you mean `parking`?"), ("ehco", "did you mean `echo`?")] {
        let said = project.run(&["push", topic, "--data", "x"]);
        said.done();
        assert!(said.err.contains(topic) && said.err.contains(hint), "{}", said.err);
    }
    let said = project.run(&["push", "something-else", "--data", "x"]);
    let warning = "warning: there is no topic `something-else`: its jobs wait until";
    assert!(said.ended(0).err.starts_with(warning), "{}", said.err);
    let said = project.run(&["push", "gamma/mail", "--data", "x"]);
    let warning =
        "warning: there is no topic `gamma/mail`: the manifest names no tenant `gamma`, and its jobs wait until";
    assert!(said.ended(0).err.starts_with(warning) && !said.err.contains("mail.wasm"), "{}", said.err);
    for list in [&["topics"][..], &["stats"], &["top", "--once"]] {
        let listed = project.run(list).ended(0).text();
        assert!(listed.contains("gamma/mail"), "{list:?}: {listed}");
    }
    let idle = |topic| project.run(&["push", topic, "--data", "x"]).ended(0).err.clone();
    let (parking, echo) = (idle("parking"), idle("echo"));
    assert!(
        parking.contains("note: no server has ") && parking.contains("nobody.wasm: what was pushed waits"),
        "{parking}"
    );
    assert!(echo.contains("gristmill.db: what was pushed waits until `gristmill run`"), "{echo}");
    let quiet = [&["push", "echo", "--data", "x", "--quiet"][..], &["push", "echo", "--data", "x", "--json"]];
    assert!(quiet.iter().all(|quiet| project.run(quiet).ended(0).err.is_empty()));
    let _runner = project.serve().await;
    assert_eq!(idle("echo"), "");
    assert!(idle("parking").contains("note: `parking` begins no job: "), "{}", idle("parking"));
    // A refused file makes its topic all the same, which says why its jobs wait.
    std::fs::write(project.handlers().join("bad.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let refused = "note: `bad` begins no job: bad.wasm was refused: this is a core module";
    until("the file to be refused", SOON, async || idle("bad").contains(refused).then_some(())).await;
    let listed = project.run(&["topics", "--json"]).ended(0).documents();
    assert!(listed.iter().any(|topic| topic["topic"] == "bad" && topic["origin"] == "folder"), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_refused_says_of_no_job_that_it_waits() {
    let project = project().await;
    let refused = || {
        let said = project.run(&["push", "parking", "--id", "late", "--data", "x", "--after", "unknown"]);
        said.ended(1).err.clone()
    };
    let without_server = refused();
    assert!(
        without_server.starts_with("error: failed to push job late: the store has no job `unknown`"),
        "{without_server}"
    );
    let _runner = project.serve().await;
    assert_eq!(refused(), without_server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_in_a_folder_with_nothing_says_that_nothing_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let gristmill = |words: &[&str]| {
        let mut command = std::process::Command::new(program());
        let output = command.current_dir(folder.path()).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = gristmill(&["push", "greet", "--data", "1"]);
    let here = "here is neither a gristmill.toml nor handlers/greet.wasm: what was pushed waits until `gristmill run`";
    assert!(said.starts_with("note: no server has ") && said.contains(here), "{said}");
    let said = gristmill(&["push", "gamma/greet", "--data", "1"]);
    assert!(
        said.contains("here is no gristmill.toml: what was pushed waits"),
        "files make topics of no tenant: {said}"
    );
    assert!(gristmill(&["pause", "gret"]).contains("there is no topic `gret` (did you mean `greet`?)"));
    assert_eq!(gristmill(&["resume", "greet"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_topics_limit_is_refused_and_not_pushed() {
    let project = project().await;
    // One that the manifest names, and one that a file makes.
    for (topic, limit) in [("parking", 100), ("echo", 1024)] {
        project.pipe(&vec![b'x'; limit], &["push", topic]).ended(0);
        let said = project.pipe(&vec![b'x'; limit + 1], &["push", topic]);
        assert!(said.ended(2).err.contains("payload-limit"), "{}", said.err);
    }
    let counts = project.run(&["stats", "--json"]).documents();
    assert!(counts.iter().all(|topic| topic["ready"] == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_that_makes_no_sense_ends_with_2() {
    let project = project().await;
    let wrong: [(&[&str], &str); 16] = [
        (&["push"], "<TOPIC>"),
        (&["push", "no topic"], "no topic"),
        (&["push", "parking", "--bogus"], "--bogus"),
        (&["push", "parking", "--meta", "x"], "name=value"),
        (&["push", "parking", "--delay", "3"], "unit"),
        (&["push", "parking", "--at", "tomorrow"], "2026-11-20T13:00:00Z"),
        (&["push", "parking", "--at", "2026-11-20T13:00:00Z", "--delay", "1h"], "--delay"),
        (&["push", "parking", "--jsonl", "-", "--data", "x"], "--data"),
        (&["push", "parking", "--jsonl", "-", "--id", "j"], "--id"),
        (&["push", "parking", "--count", "0"], "0"),
        (&["push", "parking", "--edit"], "--from-job"),
        (&["push", "--from-job", "j", "--data", "x"], "--data"),
        (&["push", "--from-job", "j", "--delay", "1h"], "--delay"),
        (&["push", "parking", "--count", "2", "--id", "j"], "--id"),
        (&["push", "acme/parking", "--tenant", "other"], "tenant"),
        (&["dead", "delete", "parking"], "<IDS>"),
    ];
    for (arguments, expected) in wrong {
        let said = project.run(arguments);
        assert!(said.ended(2).err.contains(expected), "{arguments:?}: {}", said.err);
        assert!(said.out.is_empty());
    }
    let said = project.run(&["--store", "postgres://me:hunter2@db/x", "stats"]);
    assert!(said.ended(2).err.contains("redis://") && !said.err.contains("hunter2"), "{}", said.err);
}

/// Runs a command with this editor, a line for a shell. Returns its exit code, and what it wrote to standard output and error.
fn edited(project: &TestProject, editor: &str, arguments: &[&str]) -> (i32, String, String) {
    let (manifest, mut command) = (project.manifest(), command(&project.manifest()));
    let output =
        command.env("VISUAL", editor).env("TMPDIR", manifest.parent().unwrap()).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_pushed_again_with_a_new_id() {
    let project = project().await;
    let first = ["push", "acme/parking", "--id", "first", "--data", "to ada", "--content-type", "text/plain"];
    project.run(&[&first[..], &["--meta", "a=b", "--key", "k", "--attempts", "7", "--delay", "1h"]].concat()).done();
    let document =
        |id: &str| project.run(&["job", "show", id.trim(), "--tenant", "acme", "--json"]).ended(0).document();
    let again = project.run(&["push", "--from-job", "first", "--tenant", "acme"]);
    let (first, again) = (document("first"), document(&again.done()));
    assert_eq!((&first["state"], &again["state"]), (&json!("delayed"), &json!("ready")));
    for field in ["topic", "body", "metadata", "key", "attempts_max"] {
        assert!(!again["job"][field].is_null() && again["job"][field] == first["job"][field], "{field}: {again}");
    }
    let other = project.run(&["push", "acme/elsewhere", "--from-job", "first"]);
    assert_eq!(document(&other.done())["job"]["topic"], "elsewhere");
    let said = project.run(&["push", "--from-job", "first"]);
    assert!(said.ended(1).err.contains("not known to tenant `default`"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_edited_before_it_is_pushed_again() {
    let project = project().await;
    project.run(&["push", "parking", "--id", "first", "--data", "to ada", "--unique", "u"]).done();
    let push = |editor: &str| edited(&project, editor, &["push", "--from-job", "first", "--edit"]);
    let (code, id, said) = push(r#"sed -i -e s/ada/grace/ -e 's/"u"/"v"/'"#);
    assert_eq!((code, body(&project, &id)), (0, "to grace".into()), "{said}");

    for editor in ["true", "truncate -s 0"] {
        let (code, _, said) = push(editor);
        assert!(code == 1 && said.contains("nothing is pushed"), "{said}");
    }
    let too_long = format!(r#"sed -i -e s/ada/{}/ -e 's/"u"/"w"/'"#, "x".repeat(200));
    // What was written is kept wherever it is not pushed.
    for (editor, expected_code, problem, written) in [
        ("sed -i s/body_text/bdoy/", 2, "there is no field `bdoy`", "bdoy"),
        ("f() { sed -i s/ada/eve/ $1; false; }; f", 1, "the editor ended with", "to eve"),
        ("sed -i s/ada/eve/", 0, "has the same unique value", "to eve"),
        (too_long.as_str(), 2, "payload-limit", "xxx"),
    ] {
        let (code, _, said) = push(editor);
        assert!(code == expected_code && said.contains(problem), "{said}");
        let path = said.split("the text is kept in ").nth(1).unwrap_or_else(|| panic!("{said}"));
        let path = path.split([':', '\n']).next().unwrap();
        assert!(std::fs::read_to_string(path).unwrap().contains(written), "{said}");
    }
    let topics = project.run(&["stats", "--json"]).ended(0).documents();
    let parking = topics.iter().find(|topic| topic["topic"] == "parking").unwrap();
    assert_eq!(parking["ready"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_is_reported_at_once() {
    let mut project = TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await;
    project.redis.as_mut().unwrap().stop();
    let begun = std::time::Instant::now();
    for command in [&["push", "echo", "--data", "x"][..], &["push", "echo", "--wait"], &["stats"], &["topics"]] {
        let said = project.run(command);
        assert!(said.ended(3).err.starts_with("error: the store at "), "{}", said.err);
        let said = project.run(&[command, &["--json"]].concat());
        let error: serde_json::Value = serde_json::from_str(&said.ended(3).err).unwrap();
        assert_eq!(error["error"]["code"], "store-unavailable");
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "took {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unconfirmed_push_prints_the_ids_by_which_a_repeat_is_harmless() {
    let manifest = format!("acknowledged-by = \"replicas\"\nacknowledged-within = \"10ms\"\n{MANIFEST}");
    let project = TestProject::on_redis(&manifest, &[("echo", guests::ECHO)]).await;
    let server = project.serve().await;
    let log = server.log();
    let address = log.split("listening on http://").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let address = format!("http://{address}");
    let ready = || {
        let topics = project.run(&["stats", "--json"]).ended(0).documents();
        topics.iter().filter_map(|topic| topic["ready"].as_u64()).sum::<u64>()
    };
    let ways: [&[&str]; 2] = [&[], &["--server", &address]];
    for way in ways {
        let before = ready();
        let push = |options: &[&str]| project.run(&[&["push", "parking"][..], options, way].concat());
        let said = push(&["--data", "x"]);
        let id = said.ended(3).out.clone();
        let id = std::str::from_utf8(&id).unwrap().trim();
        assert!(!id.is_empty() && said.err.contains(&format!("`--id {id}`")), "{}", said.err);
        assert_eq!(said.err.matches(" stored ").count(), 1, "{}", said.err);
        push(&["--data", "x", "--id", id]).ended(3);
        assert_eq!(ready(), before + 1, "a repeat with the id stores no second job");

        let waited = push(&["--data", "x", "--wait"]);
        assert_eq!(waited.ended(3).out, b"", "standard output is for the result");
        assert!(waited.err.contains("`--id "), "{}", waited.err);
        let document = push(&["--data", "x", "--json"]).ended(3).document();
        assert_eq!(document["status"], "unconfirmed");

        let lines = project
            .pipe(b"{\"id\": \"a\"}\n{\"id\": \"b\"}", &[&["push", "parking", "--jsonl", "-"][..], way].concat());
        assert_eq!(lines.ended(3).out, b"a\nb\n");
        assert!(lines.err.contains("failed to confirm lines 1 to 2 of standard input"), "{}", lines.err);
        assert!(!lines.err.contains("nothing is pushed") && !lines.err.contains("not known"), "{}", lines.err);
    }
}
