//! Many at once: what queues up is committed together, and a failure of one fails no other.

use std::path::Path;
use std::sync::mpsc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::file::TestFile;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::file::request::Weight;
use crate::embedded::path::push::pack;
use crate::embedded::work::Work;
use crate::embedded::{Durability, EmbeddedStore};
use crate::prelude::*;
use crate::tests::{job, tenant};
use crate::{Pushed, StoreError};
use gristmill_core::job::NewJob;

/// How many commits the write-ahead log holds: the frames that say how large the file is after them.
fn commits(file: &Path) -> usize {
    let log = std::fs::read(format!("{}-wal", file.display())).unwrap();
    log[32..].chunks(4096 + 24).filter(|frame| frame[4..8] != [0; 4]).count()
}

/// Keeps the writer busy until the sender is dropped.
pub(super) async fn hold_up(store: &EmbeddedStore) -> mpsc::Sender<()> {
    let (go_on, wait) = mpsc::channel::<()>();
    let (started, busy) = mpsc::channel::<()>();
    drop(
        store
            .ask(Weight::default(), move |_| {
                let _ = started.send(());
                let _ = wait.recv();
                Ok(())
            })
            .await,
    );
    busy.recv().unwrap();
    go_on
}

async fn ask_push(store: &EmbeddedStore, jobs: &[NewJob]) -> oneshot::Receiver<Done<Vec<Pushed>>> {
    let packed = pack(jobs).unwrap();
    store.ask(Weight::default(), move |work| packed.iter().map(|job| work.push(job, false)).collect()).await
}

/// Pushes a job, and fails.
fn fail(work: &mut Work<'_>, job: &NewJob) -> Done<()> {
    for job in pack(std::slice::from_ref(job))? {
        work.push(&job, false)?;
    }
    Err(Fault::Refused("it fails".into()))
}

#[tokio::test]
async fn what_queues_up_during_a_commit_goes_into_the_next_one() {
    let store = TestFile::on_disk(Durability::Power).await;
    store.push(&[job("mail")]).await;
    let before = commits(&store.file());
    let go_on = hold_up(&store.store).await;
    let mut answers = Vec::new();
    for _ in 0..500 {
        answers.push(ask_push(&store.store, &[job("mail")]).await);
    }
    drop(go_on);
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap(), [Pushed::Stored]);
    }
    assert_eq!(store.counts("mail").await.ready, 501);
    assert_eq!(commits(&store.file()) - before, 1);
}

#[tokio::test]
async fn a_request_that_fails_does_not_spoil_its_neighbours() {
    let store = TestFile::on_disk(Durability::Process).await;
    let go_on = hold_up(&store.store).await;
    let first = ask_push(&store.store, &[job("mail")]).await;
    let lost = job("lost");
    let (pushed, refused) = (job("mail"), lost.clone());
    let failing = store.store.ask(Weight::default(), move |work| fail(work, &refused)).await;
    let last = ask_push(&store.store, std::slice::from_ref(&pushed)).await;
    drop(go_on);
    assert!(matches!(failing.await.unwrap(), Err(Fault::Refused(_))));
    for answer in [first, last] {
        assert_eq!(answer.await.unwrap().unwrap(), [Pushed::Stored]);
    }
    assert_eq!(store.store.job(&tenant(), &lost.spec.id).await.unwrap(), None);
    let counts = store.store.counts(&tenant()).await.unwrap();
    assert_eq!((counts.len(), counts[0].ready, counts[0].totals["pushed"]), (1, 2, 2), "nothing of it is counted");
    // The topic that only the failed request named is as good as any other.
    store.push(&[lost]).await;
    assert_eq!(store.counts("lost").await.ready, 1);
}

#[tokio::test]
async fn a_request_that_fails_alone_changes_nothing() {
    let store = TestFile::in_memory().await;
    let refused = job("mail");
    let failing = store.store.write("fail", Weight::default(), move |work| fail(work, &refused)).await;
    assert!(matches!(failing, Err(StoreError::Refused { .. })));
    assert!(store.store.counts(&tenant()).await.unwrap().is_empty());
    store.push(&[job("mail")]).await;
    assert_eq!(store.counts("mail").await.ready, 1);
}

#[tokio::test]
async fn if_the_commit_fails_every_request_fails_and_nothing_is_done() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("mail")]).await;
    store.raw("ALTER TABLE totals RENAME TO hidden").await;
    let go_on = hold_up(&store.store).await;
    let answers = [ask_push(&store.store, &[job("mail")]).await, ask_push(&store.store, &[job("mail")]).await];
    drop(go_on);
    for answer in answers {
        assert!(answer.await.unwrap().is_err());
    }
    store.raw("ALTER TABLE hidden RENAME TO totals").await;
    assert_eq!((store.counts("mail").await.ready, store.total("pushed").await), (1, 1));
    store.push(&[job("mail")]).await;
    assert_eq!((store.claim(9).await.len(), store.total("pushed").await), (2, 2));
}

#[tokio::test]
async fn what_is_queued_when_the_last_clone_is_dropped_is_done() {
    let store = TestFile::on_disk(Durability::Process).await;
    let clone = store.store.clone();
    let go_on = hold_up(&store.store).await;
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.push(ask_push(&clone, &[job("mail")]).await);
    }
    drop(answers);
    drop(clone);
    drop(go_on);
    let file = store.file();
    let store = store.reopen().await;
    assert_eq!(store.counts("mail").await.ready, 100);
    let folder = store.close();
    assert!(!Path::new(&format!("{}-wal", file.display())).exists(), "everything is in the one file");
    drop(folder);
}

/// Asks something while a list is under way that ends only then.
async fn beside_a_long_list(store: &TestFile, ask: impl AsyncFnOnce()) {
    let ((begun, begins), (end, wait)) = (oneshot::channel(), mpsc::channel::<()>());
    let (begun, wait) = (Mutex::new(Some(begun)), Mutex::new(wait));
    let list = store.store.read_list("test", move |_, _| {
        if let Some(begun) = begun.lock().take() {
            let _ = begun.send(());
        }
        let _ = wait.lock().recv();
        Ok(())
    });
    let ask = async {
        begins.await.unwrap();
        ask().await;
        drop(end);
    };
    let (listed, ()) = tokio::join!(list, ask);
    listed.unwrap();
}

#[tokio::test]
async fn a_list_that_takes_long_holds_up_no_short_question() {
    let store = TestFile::on_disk(Durability::Process).await;
    let ask = async || assert_eq!(store.store.job(&tenant(), &job("mail").spec.id).await.unwrap(), None);
    beside_a_long_list(&store, ask).await;
}

#[tokio::test]
async fn a_list_that_takes_long_holds_up_no_other_list() {
    let store = TestFile::on_disk(Durability::Process).await;
    beside_a_long_list(&store, async || assert!(store.store.tenants().await.unwrap().is_empty())).await;
}
