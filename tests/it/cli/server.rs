//! `--server`: commands that ask a server over the network, with a token and TLS, as from another machine.

use std::process::Output;

use gristmill_test_servers::certificates::Certificates;
use gristmill_tests::guests;
use gristmill_tests::process::{Process, command, program};
use gristmill_tests::test_project::TestProject;
use serde_json::Value;

/// A project whose server speaks TLS as `localhost`, with the address that it logs.
async fn project(certificates: &Certificates) -> (TestProject, Process, String) {
    certificates.issue("server", &["localhost"]);
    let project = TestProject::new("[topics.echo]", &[("echo", guests::ECHO)]).await;
    let manifest = std::fs::read_to_string(project.manifest()).unwrap();
    let (certificate, key) = (certificates.path("server.pem"), certificates.path("server-key.pem"));
    let tls = format!("[http]\ntls = {{ certificate = {certificate:?}, key = {key:?} }}\n");
    assert!(manifest.contains("[http]\n"), "{manifest}");
    project.write_manifest(&manifest.replacen("[http]\n", &tls, 1));
    let runner = project.serve().await;
    let log = runner.log();
    let (_, behind) = log.split_once("listening on https://127.0.0.1:").unwrap_or_else(|| panic!("{log}"));
    let port: String = behind.chars().take_while(char::is_ascii_digit).collect();
    (project, runner, format!("https://localhost:{port}"))
}

/// A command in a folder without a manifest, on a machine that trusts this authority.
fn elsewhere(certificates: &Certificates, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(program());
    command.current_dir(folder.path()).env("SSL_CERT_FILE", certificates.path("ca.pem")).args(arguments);
    command.output().unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_a_server_elsewhere_with_a_token_and_tls() {
    let certificates = Certificates::new();
    let (project, _runner, server) = project(&certificates).await;
    let made = project.run(&["token", "create", "--tenant", "defualt", "--scope", "push"]);
    made.ended(0);
    assert!(made.err.contains("a tenant `defualt` (did you mean `default`?)"), "{}", made.err);
    let token = project.run(&["token", "create", "--tenant", "default", "--scope", "push,read,admin"]).done();
    let file = certificates.path("token");
    std::fs::write(&file, token).unwrap();
    let with = ["--server", &server, "--token-file", file.to_str().unwrap()];
    let ask = |arguments: &[&str]| elsewhere(&certificates, &[&with, arguments].concat());

    assert_eq!(done(&ask(&["push", "echo", "--id", "far", "--data", "hello", "--wait"])), "hello");
    done(&ask(&["push", "echo", "--id", "late", "--data", "x", "--delay", "1h"]));
    let listed: Value = serde_json::from_str(&done(&ask(&["job", "list", "state:delayed", "--json"]))).unwrap();
    assert_eq!(listed["id"], "late");
    let counts: Value = serde_json::from_str(&done(&ask(&["stats", "--json"]))).unwrap();
    assert_eq!((&counts["topic"], &counts["delayed"]), (&"echo".into(), &1.into()));
    assert!(done(&ask(&["job", "cancel", "late"])).contains("cancelled"));

    // A producer's token needs no other scope to wait for its own job.
    let token = project.run(&["token", "create", "--tenant", "default", "--scope", "push"]).done();
    let file = certificates.path("producer-token");
    std::fs::write(&file, token).unwrap();
    let with_it = ["--server", &server, "--token-file", file.to_str().unwrap()];
    for more in [&["--meta", "a=b"][..], &["--id", "own"]] {
        let push = ["push", "echo", "--data", "hello", "--wait"];
        assert_eq!(done(&elsewhere(&certificates, &[&with_it, &push[..], more].concat())), "hello");
    }

    let error = |output: &Output, code: i32| {
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr.clone()).unwrap()
    };
    let without_token = elsewhere(&certificates, &["--server", &server, "stats"]);
    assert!(error(&without_token, 1).contains("--token"), "{without_token:?}");
    let topic: Value = serde_json::from_str(&done(&ask(&["topics", "--json"]))).unwrap();
    assert_eq!(
        (&topic["topic"], &topic["serves"], &topic["idle"]["reason"]),
        (&"echo".into(), &true.into(), &"empty".into())
    );
    assert!(topic["version"].is_string() && topic["refused"].is_null(), "{topic}");
    let table = done(&ask(&["topics"]));
    assert!(table.contains(&format!("echo {}", topic["version"].as_str().unwrap())), "{table}");
    let of_this_machine = ask(&["check"]);
    assert!(error(&of_this_machine, 2).contains("leave out --server"), "{of_this_machine:?}");
    // A machine that does not trust the authority.
    let mut untrusting = command(&project.manifest());
    let others = Certificates::new();
    let refused = untrusting.env("SSL_CERT_FILE", others.path("ca.pem")).args(with).arg("stats").output().unwrap();
    assert!(error(&refused, 3).contains("SSL_CERT_FILE"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_asks_the_server_that_is_named_and_not_the_one_of_its_own_folder() {
    let near = TestProject::new("[topics.echo]", &[("echo", guests::ECHO)]).await;
    let far = TestProject::new("[tenants.acme.topics.far]\nhandler = \"echo\"", &[("echo", guests::ECHO)]).await;
    let _runners = (near.serve().await, far.serve().await);
    let server = format!("http://{}", far.address().unwrap());
    for command in [&["rollback", "echo"][..], &["promote", "echo"], &["deploy", "echo", guests::ECHO, "--yes"]] {
        let said = near.run(&[command, &["--server", &server]].concat());
        assert!(said.ended(1).err.contains(&server), "{command:?}: {}", said.err);
    }
    let listed = near.run(&["topics", "--server", &server, "--json"]).ended(0).documents();
    assert!(listed.iter().any(|topic| topic["tenant"] == "acme" && topic["topic"] == "far"), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_tenant_is_told_how_its_tenant_is_named() {
    let project = TestProject::new("[tenants.acme.topics.mail]\nhandler = \"nobody\"", &[]).await;
    let _runner = project.serve().await;
    let token = project.run(&["token", "create", "--tenant", "acme", "--scope", "push,read,admin"]).done();
    let server = format!("http://{}", project.address().unwrap());
    let run = |words: &[&str]| project.run(&[words, &["--server", &server, "--token", token.trim()]].concat());
    let refused = run(&["push", "mail", "--data", "x"]);
    let how = "(commands name that tenant with --tenant acme, or before a topic: acme/TOPIC)";
    assert!(refused.ended(1).err.contains(how), "{}", refused.err);
    run(&["push", "acme/mail", "--data", "x"]).done();
    let listed = run(&["token", "list", "--json"]).ended(0).document();
    assert_eq!(listed["tenant"], "acme");
    let listed = run(&["topics"]).done();
    assert!(listed.contains("acme/mail") && !listed.contains("unknown"), "{listed}");
}
