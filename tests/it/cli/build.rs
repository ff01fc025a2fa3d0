//! `build` waits for the server of its project: until it serves the new version, or says why it does not.

use std::net::TcpListener;
use std::path::PathBuf;

use gristmill_tests::guests;
use gristmill_tests::process::command;
use gristmill_tests::test_project::{Said, TestProject, fields};
use serde_json::Value;

const NEW: &str = r#"{"do": [{"end": {"text": "new"}}]}"#;

/// A manifest that grants what the components import, and has no limits of its own.
const OTHER: &str = "[defaults]\nclock = true\n[topics.echo]\n";

/// A handler's project whose only tool is `cp`, and makes this component the one of `echo`.
fn source(project: &TestProject, component: &str) -> PathBuf {
    let folder = project.manifest().with_file_name("source");
    std::fs::create_dir_all(&folder).unwrap();
    let file = format!(
        "name = \"echo\"\nlanguage = \"bytes\"\nbuild = [\"cp '{component}' made.wasm\"]\ncomponent = \"made.wasm\"\n"
    );
    std::fs::write(folder.join("handler.toml"), file).unwrap();
    folder
}

fn build(project: &TestProject, component: &str, options: &[&str]) -> Said {
    let source = source(project, component);
    project.run(&[&["build", source.to_str().unwrap(), "--wait-timeout", "10m"], options].concat())
}

/// With another manifest of the same store: the exit code, and what goes to standard output and to standard error.
fn build_by(manifest: &str, project: &TestProject, component: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let other = project.manifest().with_file_name("other.toml");
    std::fs::write(&other, manifest).unwrap();
    let ended = command(&other).arg("build").arg(source(project, component)).args(options).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

/// On Redis a server is found where the manifest says that it listens.
pub(super) fn listen_somewhere(project: &TestProject) {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let manifest = std::fs::read_to_string(project.manifest()).unwrap();
    assert!(manifest.contains("127.0.0.1:0"), "{manifest}");
    project.write_manifest(&manifest.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_that_is_pushed_after_a_build_runs_what_was_built() {
    let redis = TestProject::on_redis("[topics.echo]", &[("echo", guests::ECHO)]).await;
    listen_somewhere(&redis);
    for project in [TestProject::new("[topics.echo]", &[("echo", guests::ECHO)]).await, redis] {
        let served = |said: Said| {
            let document = said.ended(0).document();
            let documented =
                ["component_bytes", "handler", "language", "path", "problems", "refused", "served", "version"];
            assert_eq!(fields(&document), documented);
            document["served"].clone()
        };
        assert_eq!(served(build(&project, guests::ECHO, &["--json"])), Value::Null, "no server runs");
        let _runner = project.serve().await;
        let push = || project.run(&["push", "echo", "--data", NEW, "--wait", "--wait-timeout", "10m"]).done();
        assert_eq!(push(), NEW);
        assert_eq!(served(build(&project, guests::PUPPET, &["--json"])), true);
        assert_eq!(push(), "new");
        // The same again, and for people.
        let said = build(&project, guests::PUPPET, &[]);
        assert!(said.ended(0).err.contains("the running server serves it"), "{}", said.err);
        let made = said.text();
        assert!(made.contains("echo.wasm: ") && made.lines().count() == 1, "{made}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_the_server_does_not_take_fails_and_says_why() {
    let bytes = |component: &str| std::fs::metadata(component).unwrap().len();
    let (small, large) = if bytes(guests::ECHO) < bytes(guests::PUPPET) {
        (guests::ECHO, guests::PUPPET)
    } else {
        (guests::PUPPET, guests::ECHO)
    };
    let manifest = format!("[handlers]\ncomponent-limit = \"{}B\"\n[topics.echo]\n", bytes(small));
    let project = TestProject::new(&manifest, &[("echo", small)]).await;
    let _runner = project.serve().await;
    // The second time the file is there already, and refused.
    for _ in 0..2 {
        let (code, _, said) = build_by(OTHER, &project, large, &["--wait-timeout", "10m"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the running server refused it") && said.contains("over the limit"), "{said}");
    }
    let (code, out, said) = build_by(OTHER, &project, large, &["--wait-timeout", "10m", "--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert!(document["refused"].as_str().unwrap().contains("over the limit"), "{document}");
    assert_eq!((code, &document["served"]), (Some(1), &Value::Bool(false)), "{said}");
    assert_eq!(build(&project, small, &["--json"]).ended(0).document()["served"], true);

    let elsewhere = format!("{OTHER}[handlers]\nfolder = \"elsewhere\"\n");
    let (code, _, said) = build_by(&elsewhere, &project, large, &["--wait-timeout", "1ms"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("of topic `echo` it serves version") && said.contains("--wait-timeout"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_whose_topic_lacks_a_grant_fails_with_the_lines_that_the_manifest_lacks() {
    let project = TestProject::new("", &[]).await;
    let (code, _, said) = build_by("[topics.echo]\n", &project, guests::PUPPET, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("topic `echo` does not grant") && said.contains("clock = true"), "{said}");
    assert!(project.handlers().join("echo.wasm").exists(), "it serves once the manifest has them");
    let (code, out, _) = build_by("[topics.echo]\n", &project, guests::PUPPET, &["--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, document["problems"].as_array().unwrap().len()), (Some(1), 1), "{document}");
}
