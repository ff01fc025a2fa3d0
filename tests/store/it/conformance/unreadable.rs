//! Jobs that this version cannot read: they move as they are stored, or stay where they are.
//!
//! Only for stores into which a test can write past the store.

use super::after::{after, stored};
use super::dead::dead_jobs;
use gristmill_core::job::JobId;
use gristmill_store::{Imported, JobState, StoredJob};
use gristmill_store_tests::test_store::{Kind, TestStore, delayed, job, tenant, topic};

async fn exported(store: &TestStore) -> Vec<StoredJob> {
    store.store.export(&topic("mail"), 100).await.unwrap()
}

/// Two ready jobs and a delayed one. The second and the third cannot be read: they are named.
async fn filled(kind: Kind) -> (TestStore, [JobId; 2]) {
    let store = TestStore::new(kind).await;
    let jobs = [job("mail"), job("mail"), delayed("mail", 50)];
    store.push(&jobs).await;
    let [_, ready, later] = jobs.map(|job| job.spec.id);
    for id in [&ready, &later] {
        store.make_unreadable(id).await;
    }
    (store, [ready, later])
}

async fn moves_as_it_is_stored(kind: Kind) {
    let (from, unreadable) = filled(kind).await;
    let to = from.another().await;
    let out = exported(&from).await;
    let sealed: Vec<bool> = out.iter().map(|stored| stored.sealed.is_some()).collect();
    assert_eq!(sealed, [false, true, true]);
    assert!(!out[1].sealed.as_ref().unwrap().problem.is_empty());

    assert_eq!(to.store.import(&out).await.unwrap(), [Imported::Stored; 3]);
    assert_eq!(to.store.import(&out).await.unwrap(), [Imported::Before; 3]);
    for id in &unreadable {
        assert_eq!(to.stored_form(id).await, from.stored_form(id).await);
    }
    assert_eq!(exported(&to).await, out);
    let ids: Vec<JobId> = out.iter().map(|stored| stored.job.spec.id.clone()).collect();
    assert_eq!(from.store.remove_exported(&topic("mail"), &ids).await.unwrap(), [true; 3]);
    assert_eq!(from.places().await, [0; 4]);

    from.pass(50);
    assert_eq!(to.migrate().await.moved, 1);
    assert_eq!(to.claim(10).await.len(), 1);
    assert_eq!(to.places().await, [0, 0, 1, 2]);
    let dead = dead_jobs(&to).await;
    let codes: Vec<String> = dead.into_iter().map(|dead| dead.last_failure.unwrap().detail.code).collect();
    assert_eq!(codes, ["unreadable", "unreadable"]);
}

async fn stays_behind_if_the_other_store_is_of_another_kind(kind: Kind, other: Kind) {
    let (from, unreadable) = filled(kind).await;
    let to = TestStore::new(other).await;
    let before = [from.stored_form(&unreadable[0]).await, from.stored_form(&unreadable[1]).await];
    let out = exported(&from).await;
    let answers = to.store.import(&out).await.unwrap();
    assert_eq!(answers, [Imported::Stored, Imported::Unreadable, Imported::Unreadable]);
    assert_eq!(to.places().await, [1, 0, 0, 0]);
    for id in &unreadable {
        assert_eq!(to.store.job(&tenant(), id).await.unwrap(), None);
    }
    assert_eq!(from.places().await, [2, 1, 0, 0]);
    let after = [from.stored_form(&unreadable[0]).await, from.stored_form(&unreadable[1]).await];
    assert_eq!(after, before);
    assert_eq!(to.state(&out[0].job.spec.id).await, Some(JobState::Ready));
}

#[tokio::test]
async fn an_unreadable_job_moves_from_redis_to_redis_as_it_is_stored() {
    moves_as_it_is_stored(Kind::REDIS).await;
}

#[tokio::test]
async fn an_unreadable_job_moves_from_file_to_file_as_it_is_stored() {
    moves_as_it_is_stored(Kind::File).await;
}

#[tokio::test]
async fn an_unreadable_job_stays_in_redis_when_others_move_to_a_file() {
    stays_behind_if_the_other_store_is_of_another_kind(Kind::REDIS, Kind::File).await;
}

#[tokio::test]
async fn an_unreadable_job_stays_in_a_file_when_others_move_to_redis() {
    stays_behind_if_the_other_store_is_of_another_kind(Kind::File, Kind::REDIS).await;
}

async fn has_ended_for_those_that_wait_for_it(kind: Kind) {
    let queue = TestStore::new(kind).await;
    let first = job("mail");
    let second = after("mail", &[&first]);
    stored(&queue, &[first.clone(), second.clone()]).await;
    queue.make_unreadable(&first.spec.id).await;
    assert_eq!(queue.claim(9).await.len(), 0);
    assert_eq!(queue.state(&second.spec.id).await, Some(JobState::Ready));
}

#[tokio::test]
async fn an_unreadable_job_in_redis_has_ended_for_those_that_wait_for_it() {
    has_ended_for_those_that_wait_for_it(Kind::REDIS).await;
}

#[tokio::test]
async fn an_unreadable_job_in_a_file_has_ended_for_those_that_wait_for_it() {
    has_ended_for_those_that_wait_for_it(Kind::File).await;
}
