//! Ordinary libraries for HTTP, as a handler's author knows them, send through the runner: its grants hold for them, too. (JavaScript's
//! `fetch`: `javascript`.)

use gristmill::outcome::Outcome;
use gristmill::sandbox::Component;
use gristmill::topic::Topic;
use gristmill_tests::guests;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_runner::sandbox;

use super::{GRANTS, ended, language, topic};

const HTTP: &str = r#"
[topics.welcome.http]
allow = ["http://127.0.0.1:*", "http://10.0.0.1"]
networks = ["127.0.0.1"]
requests = 5
"#;

fn answer(request: &str) -> Answer {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    match head.split(' ').nth(1).unwrap() {
        "/echo" => {
            let kept = head.lines().find_map(|line| line.to_lowercase().strip_prefix("x-kept: ").map(str::to_owned));
            Answer::Now("201 Created", "x-a: b\r\n", format!("{} {body}", kept.unwrap_or_default()))
        }
        "/private" => Answer::Now("302 Found", "location: http://10.0.0.1/\r\n", String::new()),
        "/elsewhere" => Answer::Now("302 Found", "location: http://example.org/\r\n", String::new()),
        _ => Answer::Now("404 Not Found", "", String::new()),
    }
}

/// A request is answered; a host that is not granted, and redirects to one and to a private address, are refused for good.
async fn sends_what_is_granted(component: &Component, topic: &Topic, server: &Server, library: &str) {
    let (outcome, log) = ended(component, topic, &format!("{library} {}", server.url("/echo"))).await;
    let Outcome::Complete(Some(result)) = &outcome else { panic!("{library}: {outcome:?} {log}") };
    assert_eq!(String::from_utf8_lossy(&result.data), "201 b 1 hello", "{library}");
    let mut refused = vec![("http://example.org/".to_owned(), "example.org")];
    if library != "client" {
        refused.push((server.url("/elsewhere"), "example.org"));
        refused.push((server.url("/private"), "10.0.0.1"));
    }
    for (url, what) in refused {
        let (outcome, log) = ended(component, topic, &format!("{library} {url}")).await;
        let Outcome::Reject(detail) = &outcome else { panic!("{library} {url}: {outcome:?} {log}") };
        assert_eq!(detail.code, "http-denied", "{library} {url}");
        assert!(detail.message.contains(what), "{library} {url}: {detail:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn urllib_http_client_and_requests_of_python() {
    let (component, topic) = language("python").with(HTTP).await;
    assert_eq!(topic.lacks(component.demands()), []);
    let server = Server::start(answer).await;
    for library in ["urllib", "client", "requests"] {
        sends_what_is_granted(&component, &topic, &server, library).await;
    }
    // The runner speaks TLS. This server does not.
    for library in ["urllib", "client", "requests"] {
        let url = server.url("/echo").replace("http:", "https:");
        let (outcome, _) = ended(&component, &topic, &format!("{library} {url}")).await;
        let Outcome::Reject(detail) = &outcome else { panic!("{library}: {outcome:?}") };
        assert!(detail.code == "http-denied" && detail.message.contains("https://127.0.0.1"), "{library}: {detail:?}");
    }
    let (outcome, _) = ended(&component, &topic, "sockets").await;
    let Outcome::Complete(Some(result)) = &outcome else { panic!("{outcome:?}") };
    let text = String::from_utf8_lossy(&result.data);
    for line in text.lines() {
        assert!(line.ends_with("to the hosts that the manifest grants its topic"), "{text}");
    }
    assert_eq!(text.lines().count(), 4, "{text}");
    let (outcome, _) = ended(&component, &topic, "requests http://127.0.0.1:1/").await;
    let Outcome::Retry { detail, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(detail.code == "exception" && detail.message.contains("nothing answers"), "{detail:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn net_http_of_go() {
    let (component, topic) = language("go").with(HTTP).await;
    let server = Server::start(answer).await;
    sends_what_is_granted(&component, &topic, &server, "net/http").await;
    let (outcome, _) = ended(&component, &topic, "net/http http://127.0.0.1:1/").await;
    let Outcome::Retry { detail, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(detail.code, "http-unreachable", "{detail:?}");
}

/// `wstd` sends by `wasi:http`, from a component that exports Gristmill's own handler.
#[tokio::test(flavor = "multi_thread")]
async fn a_crate_for_wasi_http_in_rust() {
    let wasm = std::fs::read(guests::WASI_CLIENT).unwrap();
    let component = sandbox().load(&wasm).await.unwrap();
    let topic = topic(&format!("{GRANTS}{HTTP}"));
    assert_eq!(topic.lacks(component.demands()), []);
    let server = Server::start(answer).await;
    let (outcome, log) = ended(&component, &topic, &server.url("/echo")).await;
    let Outcome::Complete(Some(result)) = &outcome else { panic!("{outcome:?} {log}") };
    assert_eq!(String::from_utf8_lossy(&result.data), "201 1 ");
    let refused = [("http://example.org/".to_owned(), "example.org"), (server.url("/private"), "10.0.0.1")];
    for (url, what) in refused {
        let (outcome, log) = ended(&component, &topic, &url).await;
        let Outcome::Reject(detail) = &outcome else { panic!("{url}: {outcome:?} {log}") };
        assert!(detail.code == "http-denied" && log.contains(what), "{url}: {detail:?} {log}");
    }
}
