//! Pause: a topic whose jobs are kept back, in every runner.

use gristmill_core::job::Name;
use gristmill_core::outcome::Verdict;
use gristmill_metrics::as_actor;
use gristmill_store::{Pause, Settled, Signal, StateFilter};
use gristmill_store_tests::test_store::{
    TestStore, claimed, delayed, ids, job, line, poll, retry, tenant, topic, worker,
};
use gristmill_test_servers::wait::{SOON, until};
use tokio::time::timeout;

super::cases![
    nothing_is_handed_out_of_a_paused_topic,
    running_jobs_of_a_paused_topic_go_on,
    set_paused_returns_whether_it_changed_anything,
    a_topic_may_be_paused_before_it_has_a_job,
    other_topics_are_not_paused,
    a_paused_topic_is_not_wanted,
    resuming_a_topic_wakes_waiting_workers,
    a_paused_topic_is_not_signalled,
    a_topic_that_became_empty_during_its_pause_is_signalled_with_the_next_job,
    a_pause_lasts_until_it_is_lifted,
    a_paused_topic_says_who_paused_it_and_since_when,
    who_paused_a_topic_is_forgotten_with_the_pause,
    who_paused_a_topic_is_not_known_if_the_call_names_nobody,
    ; in_order:
    jobs_that_become_ready_during_a_pause_are_claimed_after_it,
];

async fn pause(queue: &TestStore, paused: bool) -> bool {
    queue.store.set_paused(&topic("mail"), paused).await.unwrap()
}

async fn nothing_is_handed_out_of_a_paused_topic(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    pause(&queue, true).await;
    let took = queue.claim_as(&worker(), "mail", 5).await;
    assert!(took.claims.is_empty());
    assert_eq!(took.drained, [topic("mail")], "it counts as drained");
    let counts = queue.counts("mail").await;
    assert_eq!((counts.paused, counts.ready), (true, 1));
    pause(&queue, false).await;
    assert!(!queue.counts("mail").await.paused);
    assert_eq!(queue.claim(5).await.len(), 1);
}

async fn jobs_that_become_ready_during_a_pause_are_claimed_after_it(queue: TestStore) {
    let claim = queue.running().await;
    pause(&queue, true).await;
    let jobs = [job("mail"), delayed("mail", 10)];
    queue.push(&jobs).await;
    queue.pass(10);
    assert_eq!(queue.migrate().await.moved, 1);
    queue.settle(&claim, retry(0)).await;
    assert_eq!(queue.places().await, [3, 0, 0, 0]);
    assert!(queue.claim(9).await.is_empty());
    pause(&queue, false).await;
    let order = [ids(&jobs), vec![claim.lease.job]].concat();
    assert_eq!(claimed(&queue.claim(9).await), order);
}

async fn running_jobs_of_a_paused_topic_go_on(queue: TestStore) {
    let claim = queue.running().await;
    pause(&queue, true).await;
    assert!(queue.store.checkpoint(&claim.lease, b"half").await.unwrap());
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

async fn set_paused_returns_whether_it_changed_anything(queue: TestStore) {
    assert!(!pause(&queue, false).await);
    assert!(pause(&queue, true).await);
    assert!(!pause(&queue, true).await);
    assert!(pause(&queue, false).await);
}

async fn a_topic_may_be_paused_before_it_has_a_job(queue: TestStore) {
    pause(&queue, true).await;
    let counts = queue.counts("mail").await;
    assert_eq!((counts.paused, counts.ready, counts.totals.len()), (true, 0, 0));
    queue.push(&[job("mail")]).await;
    assert!(queue.claim(1).await.is_empty());
    assert_eq!(queue.store.tenants().await.unwrap(), [tenant()]);
}

async fn other_topics_are_not_paused(queue: TestStore) {
    pause(&queue, true).await;
    let jobs = [job("mail"), job("audit")];
    queue.push(&jobs).await;
    let took = queue.store.claim(&worker(), &[line("mail", 2), line("audit", 2)]).await.unwrap();
    assert_eq!(claimed(&took.claims), ids(&jobs[1..]));
    assert!(!queue.store.set_paused(&topic("audit"), false).await.unwrap());
}

async fn a_paused_topic_is_not_wanted(queue: TestStore) {
    queue.push(&[job("mail"), job("audit")]).await;
    pause(&queue, true).await;
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("audit")]);
    queue.claim(1).await;
    pause(&queue, false).await;
    let mut ready = poll(&*queue.store, &tenant()).await.ready;
    ready.sort();
    assert_eq!(ready, [topic("audit"), topic("mail")]);
}

async fn resuming_a_topic_wakes_waiting_workers(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    pause(&queue, true).await;
    assert!(queue.claim(1).await.is_empty());
    let tenants: [Name; 1] = [tenant()];
    let mut signals = queue.signals(&tenants).await;
    pause(&queue, false).await;
    until("the topic to be named", SOON, async || {
        std::iter::from_fn(|| signals.try_recv().ok()).find(|signal| *signal == Signal::Ready(topic("mail")))
    })
    .await;
}

async fn a_paused_topic_is_not_signalled(queue: TestStore) {
    pause(&queue, true).await;
    let mut signals = queue.signals(&[tenant()]).await;
    queue.push(&[job("mail")]).await;
    queue.push(&[job("audit")]).await;
    let first = timeout(SOON, signals.recv()).await.unwrap();
    assert_eq!(first, Some(Signal::Ready(topic("audit"))));
}

async fn a_topic_that_became_empty_during_its_pause_is_signalled_with_the_next_job(queue: TestStore) {
    pause(&queue, true).await;
    let gone = job("mail");
    queue.push(std::slice::from_ref(&gone)).await;
    queue.store.cancel(&tenant(), &ids([&gone])).await.unwrap();
    pause(&queue, false).await;
    let mut signals = queue.signals(&[tenant()]).await;
    queue.push(&[job("mail")]).await;
    let first = timeout(SOON, signals.recv()).await.unwrap();
    assert_eq!(first, Some(Signal::Ready(topic("mail"))));
}

async fn a_pause_lasts_until_it_is_lifted(mut queue: TestStore) {
    queue.push(&[job("mail")]).await;
    pause(&queue, true).await;
    queue.pass(86_400_000 * 365);
    queue.reopen().await;
    assert!(queue.claim(1).await.is_empty());
    assert!(queue.counts("mail").await.paused);
}

async fn pause_by(queue: &TestStore, who: &str, paused: bool) -> bool {
    as_actor(who.into(), pause(queue, paused)).await
}

async fn a_paused_topic_says_who_paused_it_and_since_when(mut queue: TestStore) {
    queue.push(&[job("mail"), job("audit")]).await;
    queue.pass(5000);
    let since = queue.now();
    assert!(pause_by(&queue, "Åsa (k3 f9)", true).await);
    queue.pass(5000);
    assert!(!pause_by(&queue, "someone else", true).await);
    let expected = Some(Pause { since, by: Some("Åsa (k3 f9)".into()) });
    assert_eq!(queue.counts("mail").await.pause, expected, "who paused it first did");
    assert_eq!(queue.counts("audit").await.pause, None);
    queue.reopen().await;
    assert_eq!(queue.counts("mail").await.pause, expected);
}

async fn who_paused_a_topic_is_forgotten_with_the_pause(queue: TestStore) {
    pause_by(&queue, "alice", true).await;
    pause_by(&queue, "bob", false).await;
    assert!(queue.store.fsck().await.unwrap().is_clean());
    queue.push(&[job("mail")]).await;
    assert_eq!(queue.counts("mail").await.pause, None);
    queue.pass(7000);
    pause_by(&queue, "carol", true).await;
    let expected = Pause { since: queue.now(), by: Some("carol".into()) };
    assert_eq!(queue.counts("mail").await.pause, Some(expected));
    let claimed = queue.store.jobs(&topic("mail"), StateFilter::Ready, None, 5).await.unwrap();
    queue.store.cancel(&tenant(), &claimed.jobs.into_iter().map(|view| view.id).collect::<Vec<_>>()).await.unwrap();
    assert!(queue.store.forget_topic(&topic("mail")).await.unwrap());
    queue.push(&[job("mail")]).await;
    let counts = queue.counts("mail").await;
    assert_eq!((counts.paused, counts.pause), (false, None));
    assert!(queue.store.fsck().await.unwrap().is_clean());
}

async fn who_paused_a_topic_is_not_known_if_the_call_names_nobody(queue: TestStore) {
    pause(&queue, true).await;
    assert_eq!(queue.counts("mail").await.pause, Some(Pause { since: queue.now(), by: None }));
}
