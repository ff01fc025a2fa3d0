//! Recent attempts: what the runner of the server remembers of them.

use puppet::{End, Step};

use super::*;

const FRUGAL: &str = r#"
    [topics.frugal]
    handler = "puppet"
    attempts = 1
    fuel = "100M"
"#;
const ATTEMPTS: &str = "/v1/tenants/default/attempts";

/// Waits until the runner shows so many attempts; it keeps them after the settle.
async fn shown(runner: &TestRunner, query: &str, count: usize) -> Vec<Value> {
    until(format!("{count} attempts for {query}"), SOON, async || {
        let answer = runner.client().get(&format!("{ATTEMPTS}{query}")).await.json();
        assert!(answer["since_ms"].is_u64(), "{answer}");
        let attempts = answer["attempts"].as_array().unwrap().clone();
        (attempts.len() == count).then_some(attempts)
    })
    .await
}

fn log(attempt: &Value) -> Value {
    let lines = attempt["log"].as_array().unwrap();
    lines.iter().map(|line| json!([line["level"], line["source"], line["text"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_shows_why_it_failed_and_what_its_guest_logged() {
    let runner =
        TestRunner::start(&format!("{MANIFEST}{FRUGAL}"), &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await;
    let fire =
        [Step::Log("kneading".into()), Step::Stdout("flour\nwater".into()), Step::End(End::Panic("on fire".into()))];
    let burnt = runner.client().post(PUPPET, &script(&Script::new(fire))).await.json()["id"].clone();
    until_it_is(&runner, burnt.as_str().unwrap(), "dead").await;
    runner.client().post(ECHO, &json!({ "body": {}, "id": "fine" })).await;
    shown(&runner, "", 2).await;
    // Its guest is stopped.
    let endless = script(&Script::new([Step::Log("round and round".into()), Step::End(End::InfiniteLoop)]));
    runner.client().post("/v1/tenants/default/topics/frugal/jobs", &endless).await;

    let attempts = shown(&runner, "", 3).await;
    let topics: Vec<_> = attempts.iter().map(|attempt| attempt["topic"].as_str().unwrap()).collect();
    assert_eq!(topics, ["frugal", "echo", "puppet"], "the latest first");
    assert_eq!(log(&attempts[0]), json!([["info", "log", "round and round puppet=yes"]]));
    assert_eq!((&attempts[0]["reason"], &attempts[0]["failed"]), (&json!("fuel-exhausted"), &json!(true)));
    let fine = &attempts[1];
    assert_eq!(
        [&fine["job"], &fine["outcome"], &fine["failed"], &fine["message"]].map(Clone::clone),
        [json!("fine"), json!("complete"), json!(false), json!(null)]
    );
    assert_eq!(log(fine), json!([["info", "log", "echo"]]));
    assert!(fine["ended_us"].as_u64().unwrap() > 0 && fine["at_ms"].is_u64(), "{fine}");

    let failed = shown(&runner, "?failed=true&topic=puppet", 1).await;
    let lines = log(&failed[0]);
    let lines = lines.as_array().unwrap();
    assert_eq!(lines[..2], [json!(["info", "log", "kneading puppet=yes"]), json!(["info", "stdout", "flour"])]);
    assert!(lines.iter().any(|line| line[1] == "stderr" && line[2].as_str().unwrap().contains("on fire")), "{lines:?}");
    assert!(failed[0]["message"].as_str().unwrap().contains("on fire"), "{}", failed[0]);
    assert_eq!((&failed[0]["job"], &failed[0]["verdict"]), (&burnt, &json!("bury")));

    shown(&runner, "?job=fine", 1).await;
    shown(&runner, "?job=fine&failed=true", 0).await;
    shown(&runner, "?limit=2", 2).await;
    refused(&runner.client().get(&format!("{ATTEMPTS}?limit=1001")).await, 413, "too-large");
    refused(&runner.client().get(&format!("{ATTEMPTS}?faild=true")).await, 400, "bad-request");
    let elsewhere = runner.client().get(&ATTEMPTS.replace("default", "acme")).await.json();
    assert_eq!(elsewhere["attempts"], json!([]));
}
