//! Follow-ups that wait for other jobs, in every language: a job enqueues a batch that waits for it, and members.

use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::Language;

each_language!(enqueues_a_batch_and_its_members);

async fn enqueues_a_batch_and_its_members(language: &Language) {
    let (project, _runner) = language.served("attempts = 1\nresult-retention = \"1h\"\n").await;
    let said = |arguments: &[&str]| {
        let said = project.run(arguments);
        if said.code == 0 { said.text() } else { said.err }
    };
    let push = |body: &str| said(&["push", "welcome", "--wait", "--data", body]);
    let wrong = push("wrong");
    assert!(wrong.contains("`no id!` is no job id") && wrong.contains("rejected (enqueue-failed)"), "{wrong}");
    let batch = push("fan");
    let shown = || serde_json::from_str::<Value>(&said(&["job", "show", &batch, "--json"])).ok();
    let waiting = shown().unwrap();
    assert_eq!((&waiting["state"], &waiting["job"]["open"]), (&json!("waiting"), &json!(true)), "{waiting}");
    said(&["job", "seal", &batch]);
    let ended = until("the batch to be done", SOON, async || shown().filter(|job| job["state"] == "finished")).await;
    let result = ended["result"]["output"]["text"].as_str().unwrap_or_else(|| panic!("{ended}"));
    let jobs: Vec<Value> = serde_json::from_str(result).unwrap();
    let mut ends: Vec<_> = jobs.iter().map(|job| (job["ended"].as_str().unwrap(), job["text"].as_str())).collect();
    ends.sort();
    assert_eq!(ends, [("complete", Some(&*batch)), ("dead", None), ("dead", None)], "{result}");
}
