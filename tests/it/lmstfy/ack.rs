//! Ack: 204 whatever there was to end.

use gristmill::store::JobState;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};

use super::admin::token;
use super::{Client, counts, runner, view};

on_both_stores! {
    an_acked_job_is_gone
    a_job_may_be_acked_before_it_is_consumed
    a_dead_job_that_is_acked_is_dead_no_more
    an_ack_of_something_else_is_no_error_and_changes_nothing
    a_late_ack_does_not_end_another_clients_run
    a_late_ack_ends_a_job_that_no_client_holds
}

async fn ack(client: &Client, queue: &str, id: &str) {
    let answer = client.delete(&format!("{queue}/job/{id}")).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
}

async fn an_acked_job_is_gone(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q", "").await;
    client.consume("q").await;
    ack(&client, "q", &id).await;
    assert!(view(&runner, &id).await.is_none());
    ack(&client, "q", &id).await;
    let counts = counts(&runner, "q").await;
    assert_eq!((counts.totals["acked"], counts.running), (1, 0));
}

async fn a_job_may_be_acked_before_it_is_consumed(runner: TestRunner) {
    let client = Client::of(&runner);
    for path in ["q", "q?delay=3600"] {
        let id = client.publish(path, "").await;
        ack(&client, "q", &id).await;
        assert!(view(&runner, &id).await.is_none(), "{path}");
    }
    assert_eq!(client.get("q").await.status, 404);
}

async fn a_dead_job_that_is_acked_is_dead_no_more(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.kill("q", "").await;
    ack(&client, "q", &id).await;
    assert_eq!(client.get("q/deadletter").await.json()["deadletter_head"], "");
    assert!(view(&runner, &id).await.is_none());
}

async fn an_ack_of_something_else_is_no_error_and_changes_nothing(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q", "").await;
    client.consume("q").await;
    ack(&client, "another", &id).await;
    ack(&client.within("other"), "q", &id).await;
    ack(&client, "q", "01H").await;
    ack(&client, "q", "%20").await;
    assert!(matches!(view(&runner, &id).await.unwrap().state, JobState::Running { .. }));
}

async fn a_late_ack_does_not_end_another_clients_run(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let one = Client::of(&runner).with_token(&token(&admin, "ns").await);
    let other = one.with_token(&token(&admin, "ns").await);
    let id = one.publish("q?tries=3", "").await;
    one.consume("q?ttr=0").await;
    assert_eq!(other.consume("q?ttr=600").await["job_id"], id);
    for _ in 0..2 {
        ack(&one, "q", &id).await;
        assert!(matches!(view(&runner, &id).await.unwrap().state, JobState::Running { .. }));
    }
    ack(&other, "q", &id).await;
    assert!(view(&runner, &id).await.is_none());
}

async fn a_late_ack_ends_a_job_that_no_client_holds(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q?tries=3", "").await;
    client.consume("q?ttr=0").await;
    client.until_size("q", 1).await;
    ack(&client, "q", &id).await;
    until("the job to be gone", SOON, async || view(&runner, &id).await.is_none().then_some(())).await;
    assert_eq!(client.get("q").await.status, 404);
}
