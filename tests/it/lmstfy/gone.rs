//! Clients that go away before their answer comes: nothing is lost, and no try is used up.

use std::time::{Duration, Instant};

use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Client, counts, runner, view};

on_both_stores! {
    a_long_poll_that_was_given_up_takes_nothing
    a_client_that_hangs_up_at_the_moment_of_the_answer_loses_nothing
    an_answer_that_was_not_read_is_taken_back
    an_answer_that_was_read_is_not_taken_back
}

/// A consume on a connection of its own, its answer unread.
async fn ask(client: &Client, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(client.client.address).await.unwrap();
    let head = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", client.path(path));
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Waits until the job is ready again, and holds it to what it was: who consumes it has the first try. Until then it may
/// go once more to those who have left, and come back.
async fn until_untouched(runner: &TestRunner, client: &Client, id: &str) {
    client.until_size("q", 1).await;
    assert_eq!(client.consume("q?ttr=600").await["job_id"], id);
    assert_eq!(view(runner, id).await.unwrap().attempts, 1);
}

async fn a_long_poll_that_was_given_up_takes_nothing(runner: TestRunner) {
    let client = Client::of(&runner);
    for _ in 0..10 {
        drop(ask(&client, "q?ttr=600&timeout=600").await);
    }
    let id = client.publish("q", "").await;
    until_untouched(&runner, &client, &id).await;
}

async fn a_client_that_hangs_up_at_the_moment_of_the_answer_loses_nothing(runner: TestRunner) {
    let client = Client::of(&runner);
    for _ in 0..30 {
        let waiting = ask(&client, "q?ttr=600&timeout=600").await;
        let (id, ()) = tokio::join!(client.publish("q", ""), async { drop(waiting) });
        until_untouched(&runner, &client, &id).await;
        client.delete(&format!("q/job/{id}")).await;
    }
    assert_eq!(counts(&runner, "q").await.totals["acked"], 30);
}

async fn an_answer_that_was_not_read_is_taken_back(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = loop {
        let (id, begun) = (client.publish("q", "").await, Instant::now());
        let stream = ask(&client, "q?ttr=600").await;
        // It is there, and closing now refuses it.
        stream.readable().await.unwrap();
        drop(stream);
        // What is refused five seconds after the answer is not about the answer: this was not soon enough.
        if begun.elapsed() < Duration::from_secs(4) {
            break id;
        }
        client.delete(&format!("q/job/{id}")).await;
    };
    until_untouched(&runner, &client, &id).await;
}

async fn an_answer_that_was_read_is_not_taken_back(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q", "").await;
    let mut stream = ask(&client, "q?ttr=600").await;
    let mut answer = Vec::new();
    until("the whole answer", SOON, async || {
        stream.read_buf(&mut answer).await.unwrap();
        answer.ends_with(b"}").then_some(())
    })
    .await;
    drop(stream);
    // Whatever is taken back is ready again by the time that another one is done with.
    let other = client.publish("q", "").await;
    assert_eq!(client.consume("q?ttr=600").await["job_id"], other);
    client.delete(&format!("q/job/{other}")).await;
    assert_eq!((client.size("q").await, view(&runner, &id).await.unwrap().attempts), (0, 1));
}
