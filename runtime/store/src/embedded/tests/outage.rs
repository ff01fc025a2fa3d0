//! When disk or file fail under an open store.

use std::time::Duration;

use rusqlite::Connection;

use super::concurrency::hold_up;
use super::file::TestFile;
use crate::embedded::Durability;
use crate::embedded::file::request::Weight;
use crate::prelude::*;
use crate::tests::{job, tenant, with};
use crate::{Pushed, Settled, Settlement};
use gristmill_core::job::{NewJob, Payload};
use gristmill_core::outcome::Verdict;

fn large() -> NewJob {
    with("mail", |spec| spec.body = Payload { data: vec![7; 1 << 20], content_type: None })
}

/// No page more than there are.
async fn fill_disk(store: &TestFile) {
    let pages = store.number("PRAGMA page_count").await;
    limit(store, pages + 8).await;
}

async fn limit(store: &TestFile, pages: i64) {
    let limit = format!("PRAGMA max_page_count = {pages}");
    store.store.write("test", Weight::default(), move |work| Ok(work.connection.execute_batch(&limit)?)).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_over_when_there_is_room() {
    let store = TestFile::on_disk(Durability::Power).await;
    let kept = job("mail");
    store.push(std::slice::from_ref(&kept)).await;
    fill_disk(&store).await;
    let refused = store.store.push(&[large()]).await.unwrap_err();
    assert!(refused.is_unavailable());
    let text = format!("{:#}", anyhow::Error::from(refused));
    assert!(text.contains("jobs.db") && text.contains("make room"), "{text}");

    assert_eq!(store.counts("mail").await.ready, 1, "it goes on answering");
    assert!(store.state(&kept.spec).await.is_some());
    let claim = store.claim(1).await.pop().unwrap();
    assert_eq!(claim.job.spec, kept.spec, "and working, as far as there is room");
    limit(&store, 1 << 20).await;
    assert_eq!(store.store.push(&[large()]).await.unwrap(), [Pushed::Stored]);
    let counts = store.counts("mail").await;
    assert_eq!((counts.ready, counts.running, counts.totals["pushed"]), (1, 1, 2));
}

#[tokio::test]
async fn one_that_needs_too_much_room_does_not_cost_the_others_theirs() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("mail")]).await;
    fill_disk(&store).await;
    let go_on = hold_up(&store.store).await;
    let (first, big, last) = (job("mail"), large(), job("mail"));
    let pushes = [&first, &big, &last].map(|job| store.store.push(std::slice::from_ref(job)));
    let [first_pushed, big_pushed, last_pushed] = pushes;
    // Polled last: by then the three are queued, and go into one commit.
    let release = async { drop(go_on) };
    let (first_pushed, big_pushed, last_pushed, ()) = tokio::join!(first_pushed, big_pushed, last_pushed, release);
    assert_eq!(first_pushed.unwrap(), [Pushed::Stored]);
    assert!(big_pushed.unwrap_err().is_unavailable());
    assert_eq!(last_pushed.unwrap(), [Pushed::Stored]);
    assert_eq!(store.store.job(&tenant(), &big.spec.id).await.unwrap(), None);
    assert_eq!((store.counts("mail").await.ready, store.total("pushed").await), (3, 3));
}

#[tokio::test]
async fn what_was_settled_beside_a_failure_has_its_answer_when_it_is_settled_again() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("mail"), job("mail"), job("mail")]).await;
    let claims = store.claim(3).await;
    fill_disk(&store).await;
    let result = Payload { data: vec![7; 8 << 20], content_type: None };
    let verdicts = [Verdict::Ack(None), Verdict::Release(Duration::ZERO), Verdict::Ack(Some(result))];
    let settlements: Vec<_> = claims
        .iter()
        .zip(verdicts)
        .map(|(claim, verdict)| Settlement::of(claim, verdict, Duration::from_secs(60)))
        .collect();
    assert!(store.store.settle(&settlements).await.unwrap_err().is_unavailable());
    assert_eq!(store.counts("mail").await.running, 1, "the others had room");
    limit(&store, 1 << 20).await;
    assert_eq!(store.store.settle(&settlements).await.unwrap(), [Settled::Done; 3]);
    assert_eq!(store.store.settle(&settlements).await.unwrap(), [Settled::LeaseLost; 3], "only once");
}

#[tokio::test]
async fn a_probe_fails_as_a_push_does() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.store.probe().await.unwrap();
    store.raw("PRAGMA busy_timeout = 20").await;
    let other = Connection::open(store.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let [pushed, probed] = [store.store.push(&[job("mail")]).await.map(drop), store.store.probe().await];
    assert_eq!(pushed.unwrap_err().to_string(), probed.as_ref().unwrap_err().to_string());
    assert!(probed.unwrap_err().is_unavailable());
    other.execute_batch("COMMIT").unwrap();
    store.store.probe().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_another_process_holds_is_waited_for_and_then_reported() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("mail")]).await;
    store.raw("PRAGMA busy_timeout = 20").await;
    let other = Connection::open(store.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = store.store.push(&[job("mail")]).await.unwrap_err();
    assert!(busy.is_unavailable(), "{busy:?}");
    assert_eq!(store.counts("mail").await.ready, 1, "readers do not wait for the writer");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(store.store.push(&[job("mail")]).await.unwrap(), [Pushed::Stored]);
}

#[tokio::test]
async fn a_log_that_is_written_all_the_time_stays_short() {
    let store = TestFile::on_disk(Durability::Process).await;
    let log = format!("{}-wal", store.file().display());
    let mut longest = 0;
    for _ in 0..150 {
        store.push(&[large()]).await;
        let claim = store.claim(1).await.pop().unwrap();
        store.settle(&claim, Verdict::Ack(None)).await;
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    // Where the thread for checkpoints is slow, the writer waits for it from 64 MB on.
    assert!(longest < 80 << 20, "{longest} of more than 150 MiB");
    let file = std::fs::metadata(store.file()).unwrap().len();
    assert!(file > 1 << 20, "what was in the log is in the file: {file}");
}

#[tokio::test]
async fn a_reader_that_stays_does_not_stop_the_work() {
    let store = TestFile::on_disk(Durability::Process).await;
    let other = Connection::open(store.file()).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
    for _ in 0..20 {
        store.push(&[large()]).await;
    }
    let mut claimed = 0;
    // A claim is bounded in bytes.
    loop {
        match store.claim(99).await.len() {
            0 => break,
            some => claimed += some,
        }
    }
    assert_eq!(claimed, 20);
    assert_eq!(store.poll(&[]).await.ready.len(), 0);
}
