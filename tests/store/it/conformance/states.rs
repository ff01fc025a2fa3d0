//! States of keys: what a completed job leaves, the next one of its key reads.

use std::time::Duration;

use gristmill_core::job::{Claim, TopicId};
use gristmill_core::outcome::{Reason, StateChange, Verdict};
use gristmill_store::{Cancelled, Settled, Settlement, StateDeleted, StateWrite, move_states};
use gristmill_store_tests::test_store::{
    TestStore, failure, job, keyed, retry, settlement, tenant, tenant_beside, topic, worker,
};
use gristmill_test_servers::wait::{SOON, until};

super::cases![
    a_state_is_set_with_the_ack,
    a_state_is_bytes_of_any_kind,
    a_state_is_replaced_and_deleted_by_later_jobs,
    no_other_end_of_an_attempt_sets_a_state,
    a_lost_lease_leaves_the_state_as_it_was,
    a_dead_job_leaves_the_state_as_it_was,
    a_cancelled_job_that_completes_sets_its_state,
    a_state_is_of_one_key_topic_and_tenant,
    a_key_of_a_state_may_have_any_text,
    a_state_is_gone_when_its_time_is_over,
    each_set_begins_the_time_of_a_state_anew,
    an_operator_deletes_a_state,
    a_batch_sets_states_of_many_keys,
    states_and_results_of_a_batch_are_not_mixed_up,
    a_state_outlives_its_topic,
    states_are_counted_in_stored_bytes,
    a_state_survives_a_restart,
    states_of_any_key_move_to_another_store,
    a_state_that_moves_replaces_none,
    the_version_of_a_state_grows_by_one_with_each_change,
    a_state_that_is_set_again_has_no_version_that_it_had_before,
    only_the_version_that_is_named_is_deleted,
    a_state_moves_with_its_version,
];

const KEEP: Duration = Duration::from_secs(3600);

fn mail() -> TopicId {
    topic("mail")
}

fn write(key: &str, value: &[u8], ttl: Duration) -> Option<StateWrite> {
    Some(StateWrite { key: key.into(), change: StateChange::Set(value.to_vec()), ttl })
}

/// The end of an attempt at a job with the key `k`, which sets the state.
fn setting(claim: &Claim, verdict: Verdict, value: &[u8]) -> Settlement {
    Settlement { state: write("k", value, KEEP), ..settlement(claim, verdict) }
}

async fn state(queue: &TestStore, key: &str) -> Option<Vec<u8>> {
    queue.store.state(&mail(), key).await.unwrap().map(|state| state.value)
}

async fn version(queue: &TestStore) -> u64 {
    queue.store.state(&mail(), "k").await.unwrap().unwrap().version
}

async fn delete(queue: &TestStore, version: Option<u64>) -> StateDeleted {
    queue.store.delete_state(&mail(), "k", version).await.unwrap()
}

/// A running job with the key `k`.
async fn running(queue: &TestStore) -> Claim {
    queue.push(&[keyed("k")]).await;
    queue.claim_one().await
}

async fn set(queue: &TestStore, value: &[u8]) {
    let claim = running(queue).await;
    assert_eq!(queue.settle_with(setting(&claim, Verdict::Ack(None), value)).await, Settled::Done);
}

async fn a_state_is_set_with_the_ack(queue: TestStore) {
    assert_eq!(state(&queue, "k").await, None);
    let claim = running(&queue).await;
    assert_eq!(state(&queue, "k").await, None);
    queue.settle_with(setting(&claim, Verdict::Ack(None), b"one")).await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"one"[..]));
    let claim = running(&queue).await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"one"[..]), "a job that sets none leaves it as it is");
}

async fn moved(from: &TestStore, to: &TestStore) -> u64 {
    let keys = from.store.keys_with_state(&tenant()).await.unwrap();
    move_states(&*from.store, &*to.store, &keys).await.unwrap()
}

async fn states_of_any_key_move_to_another_store(queue: TestStore) {
    const KEYS: [&str; 4] = ["k", "a:b c", "*[x]?", "-"];
    let to = queue.another().await;
    for key in KEYS {
        queue.push(&[keyed(key)]).await;
        let state = write(key, key.as_bytes(), KEEP);
        let claim = queue.claim_one().await;
        queue.settle_with(Settlement { state, ..settlement(&claim, Verdict::Ack(None)) }).await;
    }
    let mut found = queue.store.keys_with_state(&tenant()).await.unwrap();
    found.sort();
    let mut expected = KEYS.map(|key| (mail(), key.to_owned()));
    expected.sort();
    assert_eq!(found, expected);
    assert!(queue.store.keys_with_state(&tenant_beside()).await.unwrap().is_empty());
    let state_of_k = queue.store.export_state(&mail(), "k").await.unwrap().unwrap();
    assert!(state_of_k.ttl > Duration::ZERO && state_of_k.ttl <= KEEP, "{:?}", state_of_k.ttl);
    assert_eq!(moved(&queue, &to).await, 4);
    for key in KEYS {
        assert_eq!((state(&to, key).await, state(&queue, key).await), (Some(key.as_bytes().to_vec()), None));
    }
    assert_eq!(moved(&queue, &to).await, 0);
}

async fn a_state_that_moves_replaces_none(queue: TestStore) {
    let to = queue.another().await;
    set(&queue, b"old").await;
    set(&to, b"new").await;
    assert_eq!(moved(&queue, &to).await, 0);
    assert_eq!((state(&to, "k").await.as_deref(), state(&queue, "k").await), (Some(&b"new"[..]), None));
}

async fn a_state_is_bytes_of_any_kind(queue: TestStore) {
    for bytes in [(0..=255).collect::<Vec<u8>>(), Vec::new(), vec![b'0'], vec![7; 200_000]] {
        set(&queue, &bytes).await;
        assert_eq!(state(&queue, "k").await, Some(bytes));
    }
}

async fn a_state_is_replaced_and_deleted_by_later_jobs(queue: TestStore) {
    set(&queue, b"one").await;
    set(&queue, b"two").await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"two"[..]));
    for _ in 0..2 {
        let claim = running(&queue).await;
        let delete = Some(StateWrite { key: "k".into(), change: StateChange::Delete, ttl: KEEP });
        queue.settle_with(Settlement { state: delete, ..settlement(&claim, Verdict::Ack(None)) }).await;
        assert_eq!(state(&queue, "k").await, None);
    }
    set(&queue, b"three").await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"three"[..]));
}

async fn no_other_end_of_an_attempt_sets_a_state(queue: TestStore) {
    set(&queue, b"old").await;
    queue.push(&[keyed("k")]).await;
    for verdict in [retry(0), Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO), Verdict::Expire] {
        let claim = queue.claim_one().await;
        assert_eq!(queue.settle_with(setting(&claim, verdict, b"new")).await, Settled::Done);
        assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"old"[..]));
    }
}

async fn a_lost_lease_leaves_the_state_as_it_was(queue: TestStore) {
    set(&queue, b"old").await;
    let lost = running(&queue).await;
    queue.settle(&lost, retry(0)).await;
    assert_eq!(queue.settle_with(setting(&lost, Verdict::Ack(None), b"late")).await, Settled::LeaseLost);
    let again = queue.claim_one().await;
    assert_eq!(queue.settle_with(setting(&lost, Verdict::Ack(None), b"later")).await, Settled::LeaseLost);
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"old"[..]));
    queue.settle_with(setting(&again, Verdict::Ack(None), b"new")).await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"new"[..]));
}

async fn a_dead_job_leaves_the_state_as_it_was(queue: TestStore) {
    set(&queue, b"old").await;
    let claim = running(&queue).await;
    queue.settle_with(setting(&claim, Verdict::Bury(failure(Reason::Trap)), b"new")).await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"old"[..]));
}

async fn a_cancelled_job_that_completes_sets_its_state(queue: TestStore) {
    let cancel = async |claim: &Claim| {
        let cancelled = queue.store.cancel(&tenant(), std::slice::from_ref(&claim.lease.job)).await.unwrap();
        assert_eq!(cancelled, [Cancelled::Stopping]);
    };
    let claim = running(&queue).await;
    cancel(&claim).await;
    assert_eq!(queue.settle_with(setting(&claim, Verdict::Ack(None), b"done")).await, Settled::Done);
    let claim = running(&queue).await;
    cancel(&claim).await;
    assert_eq!(queue.settle_with(setting(&claim, retry(0), b"not")).await, Settled::Cancelled);
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"done"[..]));
}

async fn a_state_is_of_one_key_topic_and_tenant(queue: TestStore) {
    set(&queue, b"mine").await;
    let of = async |topic: &TopicId, key: &str| queue.store.state(topic, key).await.unwrap().map(|state| state.value);
    let beside = TopicId { tenant: tenant_beside(), ..mail() };
    assert_eq!(of(&mail(), "K").await.or(of(&topic("other"), "k").await).or(of(&beside, "k").await), None);
    assert_eq!(queue.store.delete_state(&topic("other"), "k", None).await.unwrap(), StateDeleted::Missing);
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"mine"[..]));
}

async fn a_key_of_a_state_may_have_any_text(queue: TestStore) {
    let keys = ["a:b", "{x}", "mail:k", "größer ✓", " ", "0", "a/../b", "\u{0}"];
    for key in keys {
        queue.push(&[keyed(key)]).await;
        let claim = queue.claim_one().await;
        let state = write(key, key.as_bytes(), KEEP);
        queue.settle_with(Settlement { state, ..settlement(&claim, Verdict::Ack(None)) }).await;
    }
    for key in keys {
        assert_eq!(state(&queue, key).await.as_deref(), Some(key.as_bytes()), "{key:?}");
    }
}

async fn a_state_is_gone_when_its_time_is_over(queue: TestStore) {
    let claim = running(&queue).await;
    let brief = write("k", b"brief", Duration::from_millis(40));
    queue.settle_with(Settlement { state: brief, ..settlement(&claim, Verdict::Ack(None)) }).await;
    // Some stores' states go by the server's own clock, which no test can turn: hence both times pass.
    queue.pass(40);
    until("the state to be gone", SOON, async || state(&queue, "k").await.is_none().then_some(())).await;
    queue.store.sweep(&[]).await.unwrap();
    assert_eq!(delete(&queue, None).await, StateDeleted::Missing);
    assert_eq!(queue.store.stored_bytes(&tenant()).await.unwrap(), 0, "swept, or expired");
}

async fn each_set_begins_the_time_of_a_state_anew(queue: TestStore) {
    let claim = running(&queue).await;
    let brief = write("k", b"brief", Duration::from_millis(40));
    queue.settle_with(Settlement { state: brief, ..settlement(&claim, Verdict::Ack(None)) }).await;
    set(&queue, b"lasting").await;
    queue.pass(40);
    // By the server's clock, too, the first one's time is over once this one's is.
    queue.push(&[keyed("probe")]).await;
    let claim = queue.claim_one().await;
    let probe = write("probe", b"", Duration::from_millis(40));
    queue.settle_with(Settlement { state: probe, ..settlement(&claim, Verdict::Ack(None)) }).await;
    queue.pass(40);
    until("the probe to be gone", SOON, async || state(&queue, "probe").await.is_none().then_some(())).await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"lasting"[..]));
}

async fn an_operator_deletes_a_state(queue: TestStore) {
    assert_eq!(delete(&queue, None).await, StateDeleted::Missing);
    set(&queue, b"one").await;
    let claim = running(&queue).await;
    assert_eq!(delete(&queue, None).await, StateDeleted::Deleted);
    assert_eq!(state(&queue, "k").await, None);
    assert_eq!(delete(&queue, None).await, StateDeleted::Missing);
    queue.settle_with(setting(&claim, Verdict::Ack(None), b"two")).await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"two"[..]), "a job that was running sets it all the same");
}

async fn a_batch_sets_states_of_many_keys(queue: TestStore) {
    let keys: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    queue.push(&keys.iter().map(|key| keyed(key)).collect::<Vec<_>>()).await;
    let claims = queue.claim(300).await;
    assert_eq!(claims.len(), 300);
    let settlements: Vec<_> = claims
        .iter()
        .map(|claim| {
            let key = claim.job.spec.options.key.clone().unwrap();
            Settlement { state: write(&key, key.as_bytes(), KEEP), ..settlement(claim, Verdict::Ack(None)) }
        })
        .collect();
    let settled = queue.store.settle(&settlements).await.unwrap();
    assert!(settled.iter().all(|settled| *settled == Settled::Done));
    for key in &keys {
        assert_eq!(state(&queue, key).await.as_deref(), Some(key.as_bytes()));
    }
}

/// Jobs with and without results, states, follow-ups and keys, of which some are not settled, in one call.
async fn states_and_results_of_a_batch_are_not_mixed_up(queue: TestStore) {
    let keys = ["a", "b", "c", "d", "e", "f"];
    queue.push(&keys.map(keyed)).await;
    queue.push(&[job("mail"), job("mail")]).await;
    let claims = queue.claim(8).await;
    let of_key = |key: &str| claims.iter().find(|claim| claim.job.spec.options.key.as_deref() == Some(key)).unwrap();
    let keyless = claims.iter().filter(|claim| claim.job.spec.options.key.is_none());
    queue.settle(of_key("b"), retry(60_000)).await;
    let kept = |claim: &Claim, key: &str| Settlement {
        state: write(key, key.as_bytes(), KEEP),
        ..settlement(claim, Verdict::Ack(None))
    };
    let mut batch: Vec<Settlement> = ["a", "b", "c"].map(|key| kept(of_key(key), key)).into();
    batch.push(Settlement { keep_result: KEEP, follow_ups: vec![job("other")], ..kept(of_key("d"), "d") });
    batch.push(Settlement { keep_result: KEEP, ..settlement(of_key("e"), Verdict::Ack(None)) });
    batch.push(Settlement { state: write("f", b"not", KEEP), ..settlement(of_key("f"), retry(60_000)) });
    batch.extend(keyless.map(|claim| settlement(claim, Verdict::Ack(None))));
    let settled = queue.store.settle(&batch).await.unwrap();
    assert_eq!(settled.iter().filter(|settled| **settled == Settled::LeaseLost).count(), 1);
    let mut states = Vec::new();
    for key in keys {
        states.push(state(&queue, key).await.map(|state| String::from_utf8(state).unwrap()));
    }
    let states: Vec<Option<&str>> = states.iter().map(Option::as_deref).collect();
    assert_eq!(states, [Some("a"), None, Some("c"), Some("d"), None, None]);
    assert!(queue.view(&of_key("d").lease.job).await.is_some() && queue.view(&of_key("e").lease.job).await.is_some());
    assert_eq!(queue.claim_as(&worker(), "other", 9).await.claims.len(), 1);
}

async fn a_state_outlives_its_topic(queue: TestStore) {
    set(&queue, b"one").await;
    assert!(queue.store.forget_topic(&mail()).await.unwrap());
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"one"[..]));
}

async fn states_are_counted_in_stored_bytes(queue: TestStore) {
    set(&queue, &[7; 50_000]).await;
    let bytes = queue.store.stored_bytes(&tenant()).await.unwrap();
    assert!((50_000..100_000).contains(&bytes), "{bytes}");
}

async fn a_state_survives_a_restart(mut queue: TestStore) {
    set(&queue, b"one").await;
    queue.reopen().await;
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"one"[..]));
}

async fn the_version_of_a_state_grows_by_one_with_each_change(mut queue: TestStore) {
    queue.pass(5);
    set(&queue, b"one").await;
    let first = version(&queue).await;
    assert_eq!(first, queue.now().as_millis(), "the time at which it was set first");
    for changes in 1..=3 {
        queue.pass(1000);
        // The same bytes are a change, too.
        set(&queue, b"one").await;
        assert_eq!(version(&queue).await, first + changes);
    }
    let claim = running(&queue).await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(version(&queue).await, first + 3, "a job that sets none changes nothing");
    let claim = running(&queue).await;
    queue.settle_with(setting(&claim, Verdict::Bury(failure(Reason::Trap)), b"new")).await;
    assert_eq!(version(&queue).await, first + 3, "nor does one that is not done");
    queue.reopen().await;
    assert_eq!(version(&queue).await, first + 3);
}

async fn a_state_that_is_set_again_has_no_version_that_it_had_before(queue: TestStore) {
    set(&queue, b"one").await;
    set(&queue, b"two").await;
    let last = version(&queue).await;
    queue.pass(10);
    assert_eq!(delete(&queue, None).await, StateDeleted::Deleted);
    set(&queue, b"by an operator").await;
    assert!(version(&queue).await > last);
    let last = version(&queue).await;
    queue.pass(10);
    let claim = running(&queue).await;
    let gone = Some(StateWrite { key: "k".into(), change: StateChange::Delete, ttl: KEEP });
    queue.settle_with(Settlement { state: gone, ..settlement(&claim, Verdict::Ack(None)) }).await;
    set(&queue, b"by a job").await;
    assert!(version(&queue).await > last);
    let claim = running(&queue).await;
    queue
        .settle_with(Settlement {
            state: write("k", b"brief", Duration::from_millis(40)),
            ..settlement(&claim, Verdict::Ack(None))
        })
        .await;
    let last = version(&queue).await;
    // Some stores' states go by the server's own clock: hence both times pass.
    queue.pass(40);
    until("the state to be gone", SOON, async || state(&queue, "k").await.is_none().then_some(())).await;
    set(&queue, b"by its time").await;
    assert!(version(&queue).await > last);
}

async fn only_the_version_that_is_named_is_deleted(queue: TestStore) {
    assert_eq!(delete(&queue, Some(7)).await, StateDeleted::Missing);
    set(&queue, b"one").await;
    let seen = version(&queue).await;
    set(&queue, b"two").await;
    for other in [seen, seen + 2, 0, u64::MAX] {
        assert_eq!(delete(&queue, Some(other)).await, StateDeleted::OtherVersion, "{other}");
    }
    assert_eq!(state(&queue, "k").await.as_deref(), Some(&b"two"[..]));
    assert_eq!(delete(&queue, Some(seen + 1)).await, StateDeleted::Deleted);
    assert_eq!((state(&queue, "k").await, delete(&queue, Some(seen + 1)).await), (None, StateDeleted::Missing));
}

async fn a_state_moves_with_its_version(queue: TestStore) {
    let to = queue.another().await;
    set(&queue, b"one").await;
    set(&queue, b"two").await;
    let last = version(&queue).await;
    to.pass(60_000);
    assert_eq!(moved(&queue, &to).await, 1);
    assert_eq!(version(&to).await, last);
    set(&to, b"three").await;
    assert_eq!(version(&to).await, last + 1);
}
