use gristmill_guest::testing::{Host, Run, job};
use serde_json::{Value, json};

use super::*;

const SIGNUP: &str = r#"{"email": " Ada@Example.ORG ", "name": " Ada \n Lovelace "}"#;

fn run(body: &str) -> Run {
    Host::new().run(welcome, job("welcome").body(body))
}

fn code(body: &str) -> String {
    let run = run(body);
    let failure = run.failure().expect("it fails");
    assert!(!failure.is_retry(), "another try would end the same");
    failure.code().to_owned()
}

#[test]
fn a_signup_is_tidied_and_greeted() {
    let greeting: Value = run(SIGNUP).json();
    let greeted = json!({"email": "ada@example.org", "name": "Ada Lovelace", "plan": "free", "greeting": "Welcome, Ada Lovelace!"});
    assert_eq!(greeting, greeted);
}

#[test]
fn the_log_never_has_the_address() {
    let run = run(SIGNUP);
    let line = &run.logs()[0];
    assert_eq!(
        (line.message.as_str(), line.field("domain"), line.field("plan")),
        ("signup", Some("example.org"), Some("free"))
    );
    assert!(!format!("{line:?}").contains("ada@"));
}

#[test]
fn a_reminder_follows_in_three_days_and_none_follows_a_reminder() {
    let run = Host::new().now(1_000).run(welcome, job("welcome").body(SIGNUP));
    let [reminder] = run.enqueued() else { panic!("{run:?}") };
    assert_eq!(reminder.not_before, Some(1_000 + 259_200_000));
    assert_eq!(reminder.unique.as_deref(), Some("reminder:ada@example.org"));
    let body = std::str::from_utf8(&reminder.body.data).unwrap();
    assert_eq!(body, r#"{"email":"ada@example.org","name":"Ada Lovelace","plan":"free","reminder":true}"#);
    let again = Host::new().run(welcome, job("welcome").body(body));
    assert_eq!(again.json::<Value>()["greeting"], "Still there, Ada Lovelace?");
    assert!(again.enqueued().is_empty());
}

#[test]
fn what_makes_no_sense_is_rejected_and_says_why() {
    assert_eq!(code("[]"), "bad-payload");
    assert_eq!(code("{}"), "invalid-email");
    for email in ["", "ada", "a@b", "a@.b", "a@b.", "@b.c", "a@b@c.d"] {
        assert_eq!(code(&json!({"email": email, "name": "Ada"}).to_string()), "invalid-email", "{email}");
    }
    assert_eq!(code(r#"{"email": "a@b.c", "name": " "}"#), "invalid-name");
    assert_eq!(code(r#"{"email": "a@b.c", "name": "Ada", "plan": "gold"}"#), "invalid-plan");
    assert_eq!(code(r#"{"email": "a@b.c", "name": "Ada", "reminder": 1}"#), "bad-payload");
}

#[test]
fn a_greylisted_domain_is_tried_again_once() {
    let host = || Host::new().config("greylist", "example.net, example.org");
    let first = host().run(welcome, job("welcome").body(SIGNUP));
    let failure = first.failure().expect("it fails");
    assert_eq!((failure.code(), failure.retry_after()), ("greylisted", Some(GREYLISTED_FOR)));
    assert!(first.logs().is_empty());
    assert!(host().run(welcome, job("welcome").body(SIGNUP).attempt(2)).failure().is_none());
}

#[test]
fn a_follow_up_that_is_refused_is_not_tried_again() {
    let run = Host::new().deny("welcome").run(welcome, job("welcome").body(SIGNUP));
    let failure = run.failure().expect("it fails");
    assert!(!failure.is_retry() && failure.code() == "enqueue-failed");
}
