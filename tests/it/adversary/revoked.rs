//! A client that pushes one tenant's jobs and listens to what becomes of them, while its token is revoked.

use std::time::{Duration, Instant};

use gristmill::token::{Scope, TokenHash};
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::On;
use gristmill_tests::wait::SOON;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::tokens::revoked::{second, streams, until_answered};
use crate::tokens::{push, runner, token};

/// Clients that push at each server.
const PUSHERS: usize = 4;
/// From the answer to the revocation. Printed with what was measured; it depends on the machine.
const GOAL: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_token_is_revoked_is_refused_and_its_streams_end() {
    let runner = runner(On::Redis).await;
    let (server, there) = second(&runner).await;
    let job = push(&runner, "acme/mail").await;
    let operator = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
    let text = token(&*runner.store, Some("acme"), &[Scope::Push, Scope::Read]).await;
    let clients = [runner.client().with_token(&text), there.with_token(&text)];
    let (mut pushing, mut listening) = (JoinSet::new(), JoinSet::new());
    for (number, client) in clients.iter().enumerate() {
        until_answered("the token to be known", client, 200).await;
        for (what, stream) in streams(client, job.as_str()).await {
            assert_eq!(stream.status().as_u16(), 200, "{what}");
            listening.spawn(async move {
                stream.into_body().collect().await.ok();
                (number, Instant::now())
            });
        }
        for _ in 0..PUSHERS {
            let client = client.clone();
            pushing.spawn(async move { (number, push_until_refused(&client).await) });
        }
    }
    assert_eq!(operator.delete(&format!("/v1/tokens/{}", TokenHash::of(&text).id())).await.json()["revoked"], true);
    let revoked = Instant::now();

    let refused = latest(timeout(SOON, pushing.join_all()).await.expect("the pushes to be refused"));
    let closed = latest(timeout(SOON, listening.join_all()).await.expect("the streams to end"));
    println!("| test | every push refused after ms | every stream closed after ms | goal | holds |");
    println!("|---|---|---|---|---|");
    for (place, number) in [("same", 0), ("other", 1)] {
        let after = |latest: [Option<Instant>; 2]| latest[number].unwrap().saturating_duration_since(revoked);
        let (refused, closed) = (after(refused), after(closed));
        let holds = if refused.max(closed) <= GOAL { "yes" } else { "no" };
        let (refused, closed, goal) = (refused.as_millis(), closed.as_millis(), GOAL.as_millis());
        println!("| token revoked, {place} server | {refused} | {closed} | at most {goal} | {holds} |");
    }
    server.shutdown().await;
}

/// Pushes one job after the other, and returns when the first was refused.
async fn push_until_refused(client: &HttpClient) -> Instant {
    loop {
        let answer = client.post("/v1/tenants/acme/topics/mail/jobs", &json!({ "body": 1 })).await;
        match answer.status {
            201 => {}
            401 => return Instant::now(),
            status => panic!("{status}: {}", answer.text()),
        }
    }
}

/// The latest moment at each server.
fn latest(moments: Vec<(usize, Instant)>) -> [Option<Instant>; 2] {
    [0, 1].map(|server| moments.iter().filter(|(at, _)| *at == server).map(|(_, moment)| *moment).max())
}
