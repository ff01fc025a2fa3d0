//! Signals, and the look that catches what they miss.

use std::time::Duration;

use gristmill_core::job::Name;
use gristmill_core::outcome::Verdict;
use gristmill_store::{PendingWork, PollTenant, Settled, Settlement, Signal};
use gristmill_store_tests::test_store::{
    TestStore, delayed, foreign, job, poll, retry, settlement, tenant, topic, worker,
};
use gristmill_test_servers::wait::{SOON, until};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

super::cases![
    the_ready_signal_is_sent_again_after_a_claim_found_the_topic_empty,
    retry_migrate_follow_ups_and_respawn_say_ready_too,
    waiting_for_a_job_ends_with_the_job,
    an_attempt_before_the_last_does_not_end_the_job,
    waiting_for_a_cancelled_job_ends,
    the_worker_of_a_cancelled_job_is_notified,
    the_worker_of_a_killed_job_is_notified,
    every_subscriber_receives_signals,
    a_tenants_signals_are_its_own,
    wanted_names_ready_topics,
    a_poll_answers_for_each_tenant_in_the_order_given,
    #[cfg(feature = "thorough")]
    a_slow_receiver_gets_the_signal_lost,
    ; in_order:
    ready_is_said_when_a_topic_was_empty_and_only_then,
    due_is_said_only_if_nothing_is_due_earlier,
    a_job_due_at_the_same_time_as_one_of_another_topic_is_not_signalled,
];

async fn listen(queue: &TestStore) -> Receiver<Signal> {
    let tenants: [Name; 1] = [tenant()];
    queue.signals(&tenants).await
}

async fn next(signals: &mut Receiver<Signal>) -> Signal {
    timeout(SOON, signals.recv()).await.expect("a signal in time").expect("the store still speaks")
}

async fn ready_is_said_when_a_topic_was_empty_and_only_then(queue: TestStore) {
    let mut signals = listen(&queue).await;
    queue.push(&[job("mail"), job("mail")]).await;
    queue.push(&[job("mail")]).await;
    queue.push(&[job("other")]).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("other")), "nothing for what was not empty");
}

async fn the_ready_signal_is_sent_again_after_a_claim_found_the_topic_empty(queue: TestStore) {
    queue.push(&[job("mail"), job("mail"), job("mail")]).await;
    assert_eq!(queue.claim(9).await.len(), 3);
    let mut signals = listen(&queue).await;
    queue.push(&[job("mail")]).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

async fn retry_migrate_follow_ups_and_respawn_say_ready_too(queue: TestStore) {
    let claim = queue.running().await;
    assert!(queue.claim(1).await.is_empty());
    let mut signals = listen(&queue).await;
    queue.settle(&claim, retry(0)).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));

    let mut ack = Settlement::new(queue.claim(2).await[0].lease.clone(), Verdict::Ack(None));
    ack.follow_ups = vec![job("next"), delayed("later", 5)];
    queue.settle_with(ack).await;
    let both = [next(&mut signals).await, next(&mut signals).await];
    assert!(both.contains(&Signal::Ready(topic("next"))), "{both:?}");
    assert!(both.contains(&Signal::Due { tenant: tenant(), wait: Duration::from_millis(5) }), "{both:?}");

    queue.pass(5);
    queue.migrate().await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("later")));

    let dead = queue.claim_as(&worker(), "next", 2).await.claims.remove(0);
    queue
        .settle(&dead, Verdict::Bury(gristmill_store_tests::test_store::failure(gristmill_core::outcome::Reason::Trap)))
        .await;
    queue.store.respawn(&topic("next"), &[dead.lease.job]).await.unwrap();
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("next")));
}

async fn due_is_said_only_if_nothing_is_due_earlier(queue: TestStore) {
    let mut signals = listen(&queue).await;
    for (of, ms) in [("a", 1000), ("b", 2000), ("a", 1500), ("b", 500)] {
        queue.push(&[delayed(of, ms)]).await;
    }
    assert_eq!(next(&mut signals).await, Signal::Due { tenant: tenant(), wait: Duration::from_millis(1000) });
    assert_eq!(next(&mut signals).await, Signal::Due { tenant: tenant(), wait: Duration::from_millis(500) });
}

async fn a_job_due_at_the_same_time_as_one_of_another_topic_is_not_signalled(queue: TestStore) {
    queue.push(&[delayed("b", 1000)]).await;
    let mut signals = listen(&queue).await;
    for (of, ms) in [("a", 1000), ("c", 1000), ("a", 500)] {
        queue.push(&[delayed(of, ms)]).await;
    }
    assert_eq!(next(&mut signals).await, Signal::Due { tenant: tenant(), wait: Duration::from_millis(500) });
}

async fn waiting_for_a_job_ends_with_the_job(queue: TestStore) {
    let mut waited_for = job("mail");
    waited_for.spec.options.keep_result = Some(Duration::from_secs(60));
    queue.push(&[waited_for.clone(), job("mail")]).await;
    let claims = queue.claim(2).await;
    let mut signals = listen(&queue).await;
    for claim in claims.iter().rev() {
        queue.settle_with(settlement(claim, Verdict::Ack(None))).await;
    }
    assert_eq!(next(&mut signals).await, Signal::Finished { tenant: tenant(), id: waited_for.spec.id });
}

async fn an_attempt_before_the_last_does_not_end_the_job(queue: TestStore) {
    let claim = queue.running().await;
    let mut signals = listen(&queue).await;
    queue.settle_with(Settlement { notify: true, ..settlement(&claim, retry(0)) }).await;
    let again = queue.claim_one().await;
    queue.settle_with(Settlement { notify: true, ..settlement(&again, Verdict::Expire) }).await;
    let heard =
        until("an end", SOON, async || signals.try_recv().ok().filter(|signal| !matches!(signal, Signal::Ready(_))))
            .await;
    assert_eq!(heard, Signal::Finished { tenant: tenant(), id: again.lease.job });
    assert!(signals.try_recv().is_err(), "one end is told once");
}

async fn waiting_for_a_cancelled_job_ends(queue: TestStore) {
    let mut waiting = job("mail");
    waiting.spec.options.keep_result = Some(Duration::from_secs(60));
    queue.push(std::slice::from_ref(&waiting)).await;
    let mut signals = listen(&queue).await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&waiting.spec.id)).await.unwrap();
    assert_eq!(next(&mut signals).await, Signal::Finished { tenant: tenant(), id: waiting.spec.id });
}

async fn the_worker_of_a_cancelled_job_is_notified(queue: TestStore) {
    let claim = queue.running().await;
    let mut signals = listen(&queue).await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&claim.lease.job)).await.unwrap();
    assert_eq!(next(&mut signals).await, Signal::Cancelled { tenant: tenant(), id: claim.lease.job.clone() });
    let snooze = Settlement { notify: true, ..settlement(&claim, Verdict::Snooze(Duration::ZERO)) };
    assert_eq!(queue.settle_with(snooze).await, Settled::Cancelled);
    assert_eq!(next(&mut signals).await, Signal::Finished { tenant: tenant(), id: claim.lease.job });
}

async fn the_worker_of_a_killed_job_is_notified(queue: TestStore) {
    let claim = queue.running().await;
    let (tenant, id) = (tenant(), claim.lease.job.clone());
    let mut signals = listen(&queue).await;
    queue.store.kill(&tenant, std::slice::from_ref(&id)).await.unwrap();
    // A runner that knows no kills obeys the first.
    assert_eq!(next(&mut signals).await, Signal::Cancelled { tenant: tenant.clone(), id: id.clone() });
    assert_eq!(next(&mut signals).await, Signal::Killed { tenant, id });
}

async fn every_subscriber_receives_signals(queue: TestStore) {
    let mut listeners = [listen(&queue).await, listen(&queue).await];
    queue.push(&[job("mail")]).await;
    for signals in &mut listeners {
        assert_eq!(next(signals).await, Signal::Ready(topic("mail")));
    }
}

async fn a_tenants_signals_are_its_own(queue: TestStore) {
    let mut signals = listen(&queue).await;
    let both = [tenant(), foreign("mail").spec.topic.tenant];
    let mut all = queue.signals(&both).await;
    queue.push(&[foreign("mail")]).await;
    queue.push(&[job("mail")]).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(next(&mut all).await, Signal::Ready(foreign("mail").spec.topic));
    assert_eq!(next(&mut all).await, Signal::Ready(topic("mail")));
}

async fn wanted_names_ready_topics(queue: TestStore) {
    assert_eq!(poll(&*queue.store, &tenant()).await, PendingWork::default());
    queue.push(&[job("mail"), delayed("audit", 5), foreign("other")]).await;
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("mail")]);
    queue.claim(2).await;
    assert!(poll(&*queue.store, &tenant()).await.ready.is_empty());
}

async fn a_poll_answers_for_each_tenant_in_the_order_given(queue: TestStore) {
    queue.push(&[job("mail"), delayed("audit", 5), foreign("other")]).await;
    let tenants = [foreign("other").spec.topic.tenant, "unknown".parse().unwrap(), tenant()];
    let polls = tenants.map(|tenant| PollTenant { tenant, raw: Vec::new() });
    let polled = queue.store.poll_work(&polls).await.unwrap();
    let polled: Vec<PendingWork> = polled.into_iter().map(Result::unwrap).collect();
    let ready: Vec<_> = polled.iter().map(|pending| pending.ready.clone()).collect();
    assert_eq!(ready, [vec![foreign("other").spec.topic], vec![], vec![topic("mail")]]);
    let due: Vec<_> = polled.iter().map(|pending| pending.next_due_in).collect();
    assert_eq!(due, [None, None, Some(Duration::from_millis(5))]);
    assert!(queue.store.poll_work(&[]).await.unwrap().is_empty());
}

async fn a_slow_receiver_gets_the_signal_lost(queue: TestStore) {
    let mut signals = listen(&queue).await;
    let mut topics = 0..;
    // More is said between two looks than may wait; so sooner or later something must have been dropped.
    until("the receiver to hear of its loss", SOON, async || {
        let jobs: Vec<_> = topics.by_ref().take(1500).map(|n| job(&format!("t{n}"))).collect();
        queue.push(&jobs).await;
        std::iter::from_fn(|| signals.try_recv().ok()).find(|signal| *signal == Signal::Lost)
    })
    .await;
}
