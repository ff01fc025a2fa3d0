//! `check`: what is good, and what is said of the rest.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use gristmill_tests::guests;
use gristmill_tests::test_project::{TestProject, fields};
use serde_json::json;

const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

async fn project(topics: &str) -> TestProject {
    TestProject::new(topics, &[("echo", guests::ECHO)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_folder_has_no_problems() {
    let project = project("[topics.shout]\nhandler = \"echo\"").await;
    let said = project.run(&["check"]);
    assert!(said.done().ends_with("\n1 component, 1 topic, no problems\n"), "{}", said.text());
    assert!(said.text().contains(" shout "), "the topics that it serves: {}", said.text());

    let document = project.run(&["check", "--json"]).ended(0).document();
    let documented = "adapters component_bytes core_module exports grants_needed handler imports kind language nearest_limit path problem self_test \
                      start_fuel start_memory_bytes tools topics version";
    assert_eq!(fields(&document).join(" "), documented);
    assert_eq!((&document["language"], &document["core_module"]), (&json!("Rust"), &json!(false)));
    assert_eq!(document["exports"], json!(["gristmill:job/handler@0.1.0"]));
    let topics = [json!({"topic": "shout", "grants_missing": []})];
    assert_eq!((&document["grants_needed"], &document["topics"]), (&json!([]), &json!(topics)));
    assert!(document["start_memory_bytes"].as_u64().unwrap() >= 64 << 10, "{document}");
    assert_eq!((&document["kind"], &document["handler"]), (&json!("component"), &json!("echo")));
    assert_eq!((&document["problem"], &document["self_test"]), (&json!(null), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_runner_would_refuse_beside_components_is_named() {
    let project = project("[journal]\npath = \"missing/attempts.jsonl\"").await;
    std::fs::create_dir(project.handlers().join("folder.wasm")).unwrap();
    let said = project.run(&["check"]).ended(1).text();
    assert!(said.contains("folder.wasm cannot be used\n  it is a folder"), "{said}");
    assert!(said.contains("failed to open the journal") && said.ends_with("2 problems\n"), "{said}");
    project.write_manifest("[journal]\npath = \"gristmill.db\"");
    for command in ["check", "run"] {
        let said = project.run(&[command]);
        assert!(
            said.code != 0 && (said.text() + &said.err).contains("`path` in [journal] is a file of the store"),
            "{command}"
        );
    }
    // What a runner needs whatever there is to serve.
    std::fs::remove_dir_all(project.handlers()).unwrap();
    for (manifest, problem) in [
        ("[http.tls]\ncertificate = \"nope.pem\"\nkey = \"nope-key.pem\"", "failed to read [http.tls]: "),
        ("[server]\ncache = \"/proc/cache\"", "failed to open the artifact cache /proc/cache"),
    ] {
        project.write_manifest(manifest);
        let said = project.run(&["check"]);
        assert!(said.code == 1 && (said.text() + &said.err).contains(problem), "{}{}", said.text(), said.err);
    }
    project.write_manifest("");
    let said = project.run(&["stats", "--store", "sqlite:gristmill.db\r"]).ended(2).err.clone();
    assert!(said.contains("control character"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_a_manifest_that_others_can_read_is_warned_of() {
    let project = project("").await;
    let warned = |mode: u32, url: &str| {
        project.write_manifest(&format!("[store]\nurl = \"{url}\""));
        std::fs::set_permissions(project.manifest(), Permissions::from_mode(mode)).unwrap();
        project.run(&["check"]).err.contains("gristmill.toml (mode 644): run `chmod 600")
    };
    assert!(warned(0o644, "redis://gristmill:hunter2@localhost/0"));
    assert!(!warned(0o600, "redis://gristmill:hunter2@localhost/0"));
    assert!(!warned(0o644, "redis://localhost/0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handlers_folder_that_is_not_there_is_named() {
    let project = project("[handlers]\nfolder = \"handler\"").await;
    let said = project.run(&["check"]).ended(1).text();
    assert!(said.contains("there is no folder ") && said.contains("handler, which [handlers] names"), "{said}");
    assert!(said.contains("gristmill.toml:6:10") && said.contains("folder = \"handler\""), "{said}");
    assert!(said.ends_with("0 components, 0 topics, 1 problem\n"), "{said}");
    std::fs::remove_dir_all(project.handlers()).unwrap();
    project.write_manifest("");
    let said = project.run(&["check"]);
    assert!(said.done().ends_with("no problems\n") && said.err.contains("note: there is no folder "), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_component_is_refused_with_its_reason_and_remedy() {
    let project = project("").await;
    let truncated = &std::fs::read(guests::ECHO).unwrap()[..30_000];
    let bad: [(&str, &[u8], &str); 5] = [
        ("garbage", b"garbage", "this is no WebAssembly"),
        ("core", CORE_MODULE, "neither carries a component type nor exports"),
        ("text", b"(component)", "wasm-tools parse"),
        ("short", truncated, "ends early, after 30000 bytes"),
        ("bad name", b"", "`bad name` is no name"),
    ];
    for (name, bytes, _) in bad {
        project.drop_in(name, bytes);
    }
    let text = project.run(&["check"]).ended(1).text();
    let documents = project.run(&["check", "--json"]).ended(1).documents();
    for (name, _, problem) in bad {
        let headline = format!("handlers/{name}.wasm cannot be used\n");
        let problems = text.split_once(&headline).and_then(|(_, rest)| rest.lines().next()).unwrap_or_default();
        assert!(problems.contains(problem), "{name}: {problems:?} in\n{text}");
        let file = format!("{name}.wasm");
        let document = documents.iter().find(|document| document["path"].as_str().unwrap().ends_with(&file)).unwrap();
        assert!(document["problem"].as_str().unwrap().contains(problem), "{document}");
    }
    assert!(text.ends_with("5 problems\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_handler_is_pointed_at_with_the_nearest_name() {
    let project = project("[topics.shout]\nhandler = \"ecko\"").await;
    let text = project.run(&["check"]).ended(1).text();
    assert!(text.contains("topic `shout` has no handler"), "{text}");
    assert!(text.contains("gristmill.toml:6:11") && text.contains("did you mean `echo`?"), "{text}");
    let documents = project.run(&["check", "--json"]).ended(1).documents();
    let problem = documents.iter().find(|document| document["kind"] == "problem").unwrap();
    assert_eq!(fields(problem), ["column", "kind", "line", "message", "path", "title"]);
    assert_eq!((&problem["line"], &problem["column"]), (&json!(6), &json!(11)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_in_the_manifest_is_shown_at_its_place() {
    let project = project("").await;
    project.write_manifest("[topics.echo]\ntimout = \"1s\"\nfuel = 1\n");
    let path = project.manifest();
    let expected = format!(
        "error: unknown key `timout` in [topics.echo]
 --> {path}:2:1
  |
2 | timout = \"1s\"
  | ^^^^^^ did you mean `timeout`?

error: `fuel` in [topics.echo] is out of range
 --> {path}:3:8
  |
3 | fuel = 1
  |        ^ allowed: 10k to 100T

the manifest {path} has 2 problems
",
        path = path.display()
    );
    assert_eq!(project.run(&["check"]).ended(1).text(), expected);
    let documents = project.run(&["check", "--json"]).ended(1).documents();
    let places: Vec<_> =
        documents.iter().map(|problem| (problem["line"].as_u64(), problem["column"].as_u64())).collect();
    assert_eq!(places, [(Some(2), Some(1)), (Some(3), Some(8))]);
    // Whoever needs a manifest to work refuses this one.
    assert_eq!(project.run(&["stats"]).ended(2).err, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_manifest_is_reported_with_the_cause() {
    let project = project("").await;
    std::fs::remove_file(project.manifest()).unwrap();
    for command in ["check", "stats", "run"] {
        let said = project.run(&[command]);
        assert!(said.ended(2).err.contains("gristmill.toml cannot be read"), "{command}: {}", said.err);
        assert!(said.err.contains("No such file"), "{command}: {}", said.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_describes_a_named_file_outside_the_folder() {
    let project = project("").await;
    let said = project.run(&["check", guests::PUPPET]);
    let text = said.done();
    for part in
        ["language  Rust", "gristmill:job/handler@0.1.0", "wasi:clocks/monotonic-clock@0.2", "clock\n", "to start"]
    {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
    assert!(!text.contains("echo"), "the folder is left alone: {text}");
    assert!(project.run(&["check", "/no/such/file.wasm"]).ended(1).err.contains("/no/such/file.wasm"));
}
