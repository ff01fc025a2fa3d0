//! JavaScript in StarlingMonkey, by one line of package.json: the same cases as in QuickJS, and what it has beyond.

use gristmill::outcome::Outcome;
use gristmill_tests::server::{Answer, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{build, cases, ended, loaded, replace, require, unbuilt_project};

const GRANTS: &str = r#"
[handlers]
compile-timeout = "30m"

[topics.welcome]
clock = true
random = true

[topics.welcome.http]
allow = ["http://127.0.0.1:*"]
networks = ["127.0.0.1"]
"#;

fn project() -> TempDir {
    require(&["node", "npm"]);
    let folder = unbuilt_project("javascript");
    let project = folder.path().join("welcome");
    replace(&project, "package.json", r#""private": true,"#, r#""private": true, "engine": "starlingmonkey","#);
    let package = r#""dependencies": { "@bytecodealliance/componentize-js": "0.23.0","#;
    replace(&project, "package.json", r#""dependencies": {"#, package);
    std::fs::write(project.join("gristmill.toml"), GRANTS).unwrap();
    folder
}

/// In one test, since a build and the compiling that follows take a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_makes_the_same_of_the_same_jobs_and_has_streams_digests_timers_and_the_engines_own_fetch() {
    let folder = project();
    let project = folder.path().join("welcome");
    std::fs::rename(project.join("handler.js"), project.join("welcome.js")).unwrap();
    std::fs::write(project.join("handler.js"), include_str!("../../javascript/starlingmonkey.js")).unwrap();
    build(&project, &[]);
    let (component, topic) = loaded(&project).await;
    assert_eq!(topic.lacks(component.demands()), []);
    for case in cases::all() {
        case.hold(&component, &topic).await;
    }
    let server = Server::start(|_| Answer::ok("fine")).await;
    let run =
        async |mode: &str, url: &str| ended(&component, &topic, &json!({ "mode": mode, "url": url }).to_string()).await;
    let (outcome, log) = run("", &server.url("/")).await;
    let Outcome::Complete(Some(result)) = &outcome else { panic!("{outcome:?} {log}") };
    let result: Value = serde_json::from_slice(&result.data).unwrap();
    let expected =
        json!({ "digest": 0xca, "value": "streamed", "status": 200, "text": "fine", "key": null, "type": null });
    assert_eq!(result, expected);
    let (outcome, _) = run("thrown", "").await;
    let Outcome::Retry { detail, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!((detail.code.as_str(), detail.message.as_str()), ("exception", "Error: deep down (handler.js:7)"));
    let stack = String::from_utf8(detail.context.clone().unwrap().data).unwrap();
    assert!(stack.starts_with("    at deep (handler.js:7)") && !stack.contains("gristmill"), "{stack}");
    let (outcome, _) = run("retry", "").await;
    assert!(matches!(&outcome, Outcome::Retry { after: Some(after), .. } if after.as_millis() == 1500), "{outcome:?}");
    let (outcome, _) = run("snooze", "").await;
    assert!(matches!(&outcome, Outcome::Snooze(wait) if wait.as_millis() == 2000), "{outcome:?}");
    // A host that is not granted: the engine's `fetch` does not say why, but the job's log does.
    let (outcome, log) = run("", "http://example.org/").await;
    assert!(matches!(outcome, Outcome::Retry { .. }) && log.contains("example.org"), "{outcome:?} {log}");
}
