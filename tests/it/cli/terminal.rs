//! What a terminal is sent: nothing that a job, a component, a server or a name says can drive it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use gristmill_tests::guests;
use gristmill_tests::process::{caches, program};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, End, Script, Step};
use serde_json::json;

/// Writes to the clipboard, names the window, clears the screen, colours without an escape, turns text round, goes up a line.
const EVIL: &str =
    "\u{1b}]52;c;cm0gLXJmIH4=\u{7}\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\r\u{1b}[1A\u{7f}";

/// How a bar of progress goes back to the beginning of its line.
const PROGRESS: &str = "\r\u{1b}[2K";

/// Runs a command in a terminal of 80 columns, and returns what that was sent. `script` is part of every Linux.
fn in_terminal(project: &TestProject, arguments: &[&str]) -> String {
    typed_in_terminal(project, arguments, "")
}

/// The same with what a person types.
pub(crate) fn typed_in_terminal(project: &TestProject, arguments: &[&str], typed: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let program = program();
    let manifest = project.manifest();
    let words = [program.to_str().unwrap(), "--manifest", manifest.to_str().unwrap()];
    let words: Vec<_> = words.iter().chain(arguments).map(|word| quoted(word)).collect();
    let line = format!("stty cols 80 rows 24; exec {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").env("NO_COLOR", "1");
    let script = script.env("XDG_CACHE_HOME", caches()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    script.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n").replace(PROGRESS, "")
}

#[track_caller]
fn assert_harmless(arguments: &[&str], shown: &str) {
    let harmful = |c: &char| (c.is_control() && !"\n\t".contains(*c)) || "\u{202e}\u{2066}".contains(*c);
    let found: Vec<char> = shown.chars().filter(harmful).collect();
    assert!(found.is_empty() && !shown.is_empty(), "{arguments:?} sends {found:?}: {shown:?}");
}

/// Answers every request with a problem.
fn hostile_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let problem = json!({ "code": EVIL, "status": 500, "title": EVIL, "detail": EVIL }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 8192]);
            let _ = write!(
                stream,
                "HTTP/1.1 500 No\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{problem}",
                problem.len()
            );
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_waits_for_enter_between_calls_and_ends_at_q() {
    let project = TestProject::new("[defaults]\nattempts = 1\n[topics.puppet]", &[("puppet", guests::PUPPET)]).await;
    let _runner = project.serve().await;
    let script = Script::new([Step::HostCalls(4), Step::End(End::Unreachable)]);
    project.pipe(&script.to_json(), &["push", "puppet", "--id", "odd", "--wait"]).ended(4);
    let kept = async || (project.run(&["replay", "odd"]).code == 0).then_some(());
    until("the recording", SOON, kept).await;
    let calls = |shown: &str| shown.lines().filter(|line| line.contains("context.now: ")).count();
    let shown = typed_in_terminal(&project, &["replay", "odd", "--step"], "\nq\n");
    assert_eq!((calls(&shown), shown.contains("same as recorded")), (2, true), "{shown}");
    let shown = typed_in_terminal(&project, &["replay", "odd", "--step"], "\n\n\n");
    assert_eq!((calls(&shown), shown.matches("q: the end").count()), (4, 3), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_stranger_wrote_drives_the_terminal() {
    let manifest = "[topics.puppet]\nattempts = 1\nresult-retention = \"1h\"\n[topics.hold]\nhandler = \"external\"\n";
    let project = TestProject::new(manifest, &[("puppet", guests::PUPPET)]).await;
    let name: String = EVIL.chars().map(|c| format!("\\{:02x}", u32::from(c).min(0x7f))).collect();
    let imports = format!(r#"(module (import "{name}" "{name}" (func)) (memory (export "memory") 1))"#);
    let component = project.manifest().with_file_name("evil.wasm");
    std::fs::write(&component, wat::parse_str(imports).unwrap()).unwrap();
    let component = component.to_str().unwrap();
    let _runner = project.serve().await;

    let cause = Cause { code: EVIL.into(), message: EVIL.into(), context: Some(EVIL.into()), ..Cause::default() };
    let reject = Script::new([Step::Log(EVIL.into()), Step::Stdout(EVIL.into()), Step::End(End::Reject(cause))]);
    project.pipe(&reject.to_json(), &["push", "puppet", "--id", "dead", "--wait"]).ended(4);
    let done = Script::end(End::Text(format!("{EVIL}\r\n{EVIL}"))).to_json();
    let raw = project.pipe(&done, &["push", "puppet", "--id", "done", "--wait"]).ended(0).text();
    assert_eq!(raw, format!("{EVIL}\r\n{EVIL}"), "who pipes it gets it as it is");
    let done = String::from_utf8(done).unwrap();
    let meta = format!("{EVIL}={EVIL}");
    let held = ["push", "hold", "--id", "held", "--data", EVIL, "--key", EVIL, "--unique", EVIL, "--meta", &meta];
    project.run(&[&held[..], &["--content-type", EVIL]].concat());
    project.run(&held).ended(0);

    let server = hostile_server();
    let (columns, query) = ("id,key,unique,message,code,meta.n", format!("key:\"{EVIL}\""));
    let (no_topic, no_query) = (format!("no{EVIL}"), format!("{EVIL}:1"));
    let commands: &[&[&str]] = &[
        &["push", "puppet", "--data", &done, "--wait"],
        &["job", "show", "held"],
        &["job", "show", "held", "--json"],
        &["job", "show", "dead"],
        &["job", "show", "done"],
        &["job", "why", "held"],
        &["jobs", "--columns", columns],
        &["jobs", &no_query],
        &["dead", "list", "puppet"],
        &["dead", "groups"],
        &["dead", "show", "puppet", "dead"],
        &["dead", "show", "puppet", "dead", "--json"],
        &["attempts"],
        &["attempts", "--json"],
        &["topics"],
        &["top", "--once"],
        &["bulk", "start", "cancel", &query],
        &["bill", "--csv"],
        &["state", "show", "hold", EVIL],
        &["push", &no_topic, "--data", "1"],
        &["push", &no_topic, "--data", "1", "--json"],
        &["check", component],
        &["check", component, "--json"],
        &["invoke", component, "--data", "1"],
        &["stats", "--server", &server],
        &["push", "x", "--data", "1", "--server", &server],
        &["push", "x", "--data", "1", "--server", &server, "--json"],
    ];
    for arguments in commands {
        assert_harmless(arguments, &in_terminal(&project, arguments));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_line_lacks_is_said_to_programs_too_and_tips_name_what_there_is() {
    let project = TestProject::new("", &[]).await;
    let document = project.run(&["push", "echo", "--delay", "5", "--json"]).ended(2).err.clone();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["error"]["code"], "usage");
    assert!(document["error"]["message"].as_str().unwrap().starts_with("invalid value '5' for '--delay"), "{document}");
    let tips = [
        (&["status"][..], "gristmill topics"),
        (&["logs"], "gristmill attempts"),
        (&["push", "echo", "--body", "1"], "--data"),
        (&["run", "--port", "80"], "[http]"),
        (&["new", "x"], "rust, javascript, typescript, python"),
        (&["cancel", "x"], "gristmill job cancel ID"),
        (&["why"], "gristmill job why ID"),
        (&["show"], "gristmill job show ID"),
        (&["init"], "gristmill new"),
        (&["dead", "show", "x"], "dead show TOPIC ID`"),
        (&["dead", "respawn", "x"], "dead respawn TOPIC ID`"),
        (&["token", "create", "--scope", "push"], "--all-tenants"),
    ];
    for (arguments, tip) in tips {
        let said = project.run(arguments).ended(2).err.clone();
        assert!(said.contains(tip) && said.matches("tip:").count() == 1, "{arguments:?}: {said}");
    }
    assert!(!project.run(&["completions", "bash"]).done().contains("compile-component"));
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_are_empty_say_nothing_and_those_that_are_wrong_are_named() {
    let project = TestProject::new("", &[]).await;
    let stats = |name: &str, value: &str| {
        let mut command = Command::new(program());
        let output = command.current_dir(project.handlers()).arg("stats").env(name, value).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for name in ["SERVER", "MANIFEST", "STORE", "TOKEN", "TOKEN_FILE", "LOG"] {
        let name = format!("GRISTMILL_{name}");
        for empty in ["", " "] {
            assert_eq!(stats(&name, empty).0, 0, "{name}: {:?}", stats(&name, empty));
        }
        for quoted in ["\"redis://127.0.0.1\"", "'debug'"] {
            let (code, said) = stats(&name, quoted);
            assert!(code == 2 && said.contains(&name) && said.contains("quotation mark"), "{name}: {said}");
        }
    }
    let (code, said) = stats("GRISTMILL_SERVER", "nonsense");
    assert!(code == 2 && said.contains("GRISTMILL_SERVER"), "{said}");
}
