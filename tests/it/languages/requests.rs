//! Requests over HTTP in every language, in JavaScript and TypeScript by `fetch`: all make the same of the same answers.

use gristmill::outcome::{FailureDetail, Outcome};
use gristmill_tests::server::{Answer, Server};

use super::{Language, ended};

const HTTP: &str = r#"
[topics.welcome.http]
allow = ["http://127.0.0.1:*"]
networks = ["127.0.0.1"]
response-limit = "4KiB"
requests = 1
"#;

fn answer(request: &str) -> Answer {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    match head.split(' ').nth(1).unwrap() {
        "/echo" => {
            // `fetch` sends a header's values in one line.
            let kept = head.lines().filter_map(|line| line.strip_prefix("x-kept: ")).collect::<Vec<_>>().join(", ");
            Answer::Now("201 Created", "x-a: b\r\n", format!("{kept} {body}"))
        }
        "/large" => Answer::ok(&"x".repeat(5000)),
        "/moved" => Answer::Now("302 Found", "location: /echo\r\n", String::new()),
        "/held" => Answer::Held,
        _ => Answer::Now("404 Not Found", "", String::new()),
    }
}

each_language!(makes_the_same_of_the_same_answers);

async fn makes_the_same_of_the_same_answers(language: &Language) {
    let (component, topic) = language.with(HTTP).await;
    assert_eq!(topic.lacks(component.demands()), []);
    let server = Server::start(answer).await;
    for (body, expected) in [("POST", "201 b 1, 2 hello"), ("GET", "404  ")] {
        let path = if body == "POST" { "/echo" } else { "/missing" };
        let (outcome, log) = ended(&component, &topic, &format!("{body} {}", server.url(path))).await;
        let Outcome::Complete(Some(result)) = &outcome else { panic!("{body}: {outcome:?} {log}") };
        assert_eq!(String::from_utf8_lossy(&result.data), expected, "{body}");
    }
    let failures = [
        (server.url("/large"), "http-too-large", true),
        (server.url("/moved"), "http-too-many", true),
        ("http://example.org/".to_owned(), "http-denied", true),
        ("nonsense".to_owned(), "http-invalid", true),
        ("http://127.0.0.1:1/".to_owned(), "http-unreachable", false),
    ];
    for (url, code, is_final) in failures {
        let (outcome, _) = ended(&component, &topic, &format!("GET {url}")).await;
        failed(&outcome, code, is_final);
    }
    let (outcome, _) = ended(&component, &topic, &format!("SLOW {}", server.url("/held"))).await;
    failed(&outcome, "http-timeout", false);
}

/// It ended with this code, and is not tried again if that is final.
fn failed(outcome: &Outcome, expected: &str, is_final: bool) {
    let (FailureDetail { code, message, .. }, was_final) = match outcome {
        Outcome::Reject(detail) => (detail, true),
        Outcome::Retry { detail, .. } => (detail, false),
        other => panic!("{expected}: {other:?}"),
    };
    assert_eq!((code.as_str(), was_final), (expected, is_final), "{outcome:?}");
    assert!(!message.is_empty() && (expected != "http-denied" || message.contains("example.org")), "{outcome:?}");
}
