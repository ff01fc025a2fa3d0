use std::time::Duration;

use gristmill_guest::http::Error;
use gristmill_guest::testing::{Host, Run, SentRequest, answer, job};
use gristmill_guest::{Failure, Payload};

use super::*;

const URL: &str = "https://hooks.example.com/in?key=k";

fn host() -> Host {
    Host::new().config("url", URL)
}

fn run(host: Host) -> Run {
    host.run(deliver, job("webhook").body(Payload::new("{\"a\":1}", "application/json")).attempt(3))
}

fn header<'a>(request: &'a SentRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn failure(run: &Run) -> &Failure {
    run.failure().expect("it should have failed")
}

#[test]
fn a_body_is_delivered_with_an_id_of_its_own() {
    let run = run(host().answer(answer(202).build()));
    assert_eq!(run.json::<Delivery>(), Delivery { status: 202 });
    let [request] = run.requests() else { panic!("one request: {run:?}") };
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", URL));
    assert_eq!(request.body.as_deref(), Some(&b"{\"a\":1}"[..]));
    let id = "01K00000000000000000000000";
    for (name, value) in [
        ("content-type", "application/json"),
        ("idempotency-key", id),
        ("webhook-id", id),
        ("webhook-timestamp", "1767225600"),
        ("gristmill-attempt", "3"),
    ] {
        assert_eq!(header(request, name), Some(value), "{name}");
    }
    assert_eq!(header(request, "webhook-signature"), None, "there is no secret");
}

#[test]
fn the_signature_is_that_of_the_specification() {
    // The example of the specification's reference libraries.
    let key = Key::read(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
    let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b"{\"test\": 2432232314}");
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn a_secret_signs_in_either_form() {
    for secret in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "just bytes"] {
        let run = run(host().secret("secret", secret).answer(answer(200).build()));
        let [request] = run.requests() else { panic!("one request: {run:?}") };
        let expected =
            Key::read(secret.as_bytes()).map(|key| key.sign("01K00000000000000000000000", 1_767_225_600, b"{\"a\":1}"));
        assert_eq!(header(request, "webhook-signature"), expected.ok().as_deref());
    }
}

#[test]
fn an_unreadable_secret_is_retried_and_never_repeated() {
    let run = run(host().secret("secret", "whsec_!!!"));
    assert_eq!((failure(&run).code(), failure(&run).is_retry()), ("bad-secret", true));
    assert!(!failure(&run).message().contains("!!!") && run.requests().is_empty());
}

#[test]
fn the_operators_url_goes_before_the_jobs() {
    let with_header = || job("webhook").meta("url", "https://job.example/");
    let run = host().answer(answer(200).build()).run(deliver, with_header());
    assert_eq!(run.requests()[0].url, URL);
    let run = Host::new().answer(answer(200).build()).run(deliver, with_header());
    assert_eq!(run.requests()[0].url, "https://job.example/");
    assert_eq!(header(&run.requests()[0], "content-type"), Some("application/octet-stream"));
    let run = Host::new().run(deliver, job("webhook"));
    assert_eq!((failure(&run).code(), failure(&run).is_retry()), ("no-url", false));
}

#[test]
fn an_answer_decides_whether_another_try_is_worth_it() {
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        let run = run(host().answer(answer(status).build()));
        assert!(failure(&run).is_retry(), "{status}");
    }
    for (status, code) in [(400, "refused"), (401, "refused"), (404, "refused"), (410, "gone"), (301, "redirected")] {
        let run = run(host().answer(answer(status).build()));
        assert_eq!((failure(&run).code(), failure(&run).is_retry()), (code, false), "{status}");
    }
}

#[test]
fn no_answer_is_judged_by_why() {
    let ends = |error| failure(&run(host().no_answer(error))).is_retry();
    assert!(ends(Error::Timeout) && ends(Error::Unreachable("x".into())));
    assert!(!ends(Error::Denied("x".into())) && !ends(Error::Invalid("x".into())));
}

#[test]
fn a_server_may_say_when_to_come_again() {
    let after = |value: &str| {
        let run = run(host().answer(answer(503).header("retry-after", value).build()));
        failure(&run).retry_after()
    };
    assert_eq!(after("120"), Some(Duration::from_secs(120)));
    // The fake clock stands at 2026-01-01T00:00:00Z.
    assert_eq!(after("Thu, 01 Jan 2026 00:01:30 GMT"), Some(Duration::from_secs(90)));
    assert_eq!(after("Wed, 31 Dec 2025 00:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(after("18446744073709551615"), Some(Duration::from_secs(86_400)));
    assert_eq!((after("soon"), after("-1")), (None, None));
}

#[test]
fn the_beginning_of_a_refusal_is_kept_with_it() {
    let run = run(host().answer(answer(422).body("x".repeat(5000)).build()));
    let context = failure(&run).context().expect("a context");
    let expected = format!("{{\"status\":422,\"body\":\"{}\"}}", "x".repeat(2048));
    assert_eq!(String::from_utf8_lossy(&context.data), expected);
}
