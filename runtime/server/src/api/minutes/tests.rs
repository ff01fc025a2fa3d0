//! Minutes whose ends the tests choose, of a store in memory and of counts that no store would have.

use std::collections::BTreeMap;

use gristmill_core::job::{Due, JobSpec, NewJob, Payload, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::prelude::*;
use gristmill_store::{ClaimFrom, Settlement};

use super::*;

fn at(minute: u64) -> Timestamp {
    Timestamp::from_millis(minute * MINUTE_MS)
}

fn tenant(name: &str) -> Name {
    name.parse().unwrap()
}

/// Counts of a topic that has had this many jobs, all done.
fn counts(topic: &str, done: u64) -> TopicCounts {
    let totals = BTreeMap::from([("pushed".to_owned(), done), ("acked".to_owned(), done)]);
    TopicCounts { totals, ..TopicCounts::none(topic.parse().unwrap()) }
}

impl Minutes {
    /// Ends a minute, in which one tenant has these counts and there is no other.
    fn note(&self, minute: u64, counts: &[TopicCounts]) {
        let mut kept = self.0.lock();
        let name = tenant("acme");
        kept.retain(std::slice::from_ref(&name));
        kept.note(at(minute), name, counts);
        kept.all_at = Some(at(minute));
    }

    /// Jobs done, minute by minute, of a topic or of the tenant.
    fn done(&self, topic: Option<&str>) -> Vec<u64> {
        let (_, minutes) = match topic {
            Some(topic) => self.of_topic(&topic.parse().unwrap()),
            None => self.of_tenant(&tenant("acme")),
        };
        minutes.iter().map(|minute| minute.done).collect()
    }
}

async fn push(store: &EmbeddedStore, topic: &str, jobs: usize) {
    let spec = || JobSpec::new(topic.parse().unwrap(), Payload::default());
    let jobs: Vec<_> = (0..jobs).map(|_| NewJob { spec: spec(), due: Due::Now }).collect();
    store.push(&jobs).await.unwrap();
}

async fn settle(store: &EmbeddedStore, topic: &str, verdict: impl Fn() -> Verdict, jobs: usize) {
    let from = ClaimFrom::new(topic.parse().unwrap(), jobs, Duration::from_secs(60));
    let claimed = store.claim(&WorkerId::new("w"), &[from]).await.unwrap();
    let settlements: Vec<_> =
        claimed.claims.iter().map(|claim| Settlement::of(claim, verdict(), Duration::ZERO)).collect();
    store.settle(&settlements).await.unwrap();
}

#[tokio::test]
async fn each_minute_has_what_the_store_counted_in_it() {
    let (store, minutes) = (EmbeddedStore::in_memory().await.unwrap(), Minutes::default());
    push(&store, "acme/mail", 7).await;
    minutes.count(&store, at(1)).await;
    assert_eq!(minutes.of_tenant(&tenant("acme")), (Some(at(1)), vec![]), "what was before is in no minute");

    let failure = || {
        let detail = FailureDetail { code: "c".into(), message: "m".into(), context: None };
        Failure::new(Reason::Failed, detail)
    };
    settle(&store, "acme/mail", || Verdict::Ack(None), 3).await;
    settle(&store, "acme/mail", || Verdict::Bury(failure()), 1).await;
    settle(&store, "acme/mail", || Verdict::Retry { after: Duration::from_secs(99), failure: failure() }, 1).await;
    push(&store, "acme/image", 2).await;
    push(&store, "new/mail", 4).await;
    minutes.count(&store, at(2)).await;
    minutes.count(&store, at(3)).await;

    let mail = Minute { at_ms: at(2), enqueued: 0, done: 3, failed: 2, dead: 1, ready: 2, running: 0 };
    let image = Minute { at_ms: at(2), enqueued: 2, ready: 2, ..Minute::default() };
    let later = |ready| Minute { at_ms: at(3), ready, ..Minute::default() };
    let topic = |topic: &str| minutes.of_topic(&topic.parse().unwrap());
    assert_eq!(topic("acme/mail"), (Some(at(1)), vec![mail, later(2)]));
    assert_eq!(topic("acme/image"), (Some(at(1)), vec![image, later(2)]), "a new topic's jobs are new");
    let sum = Minute { enqueued: 2, ready: 4, ..mail };
    assert_eq!(minutes.of_tenant(&tenant("acme")), (Some(at(1)), vec![sum, later(4)]));
    let of_new = Minute { at_ms: at(2), enqueued: 4, ready: 4, ..Minute::default() };
    assert_eq!(minutes.of_tenant(&tenant("new")), (Some(at(1)), vec![of_new, later(4)]));
    assert_eq!(minutes.of_tenant(&tenant("missing")), (None, vec![]));
}

#[test]
fn two_hours_are_kept() {
    let minutes = Minutes::default();
    (0..500).for_each(|minute| minutes.note(minute, &[counts("acme/mail", minute)]));
    for (since, kept) in [minutes.of_tenant(&tenant("acme")), minutes.of_topic(&"acme/mail".parse().unwrap())] {
        assert_eq!((since, kept.len()), (Some(at(499 - 120)), MINUTES));
        assert!(kept.iter().all(|minute| minute.done == 1));
        assert_eq!(kept.last().unwrap().at_ms, at(499));
    }
}

#[test]
fn a_forgotten_topic_counts_anew_and_takes_nothing_from_the_others() {
    let minutes = Minutes::default();
    minutes.note(0, &[counts("acme/mail", 100), counts("acme/image", 100)]);
    minutes.note(1, &[counts("acme/mail", 101), counts("acme/image", 110)]);
    minutes.note(2, &[counts("acme/image", 120)]);
    assert_eq!(minutes.done(Some("acme/mail")), [0; 0]);
    minutes.note(3, &[counts("acme/image", 130), counts("acme/mail", 5)]);
    minutes.note(4, &[counts("acme/image", 3), counts("acme/mail", 6)]);
    assert_eq!(minutes.done(Some("acme/mail")), [5, 1]);
    assert_eq!(minutes.done(Some("acme/image")), [10, 10, 10, 3]);
    assert_eq!(minutes.done(None), [11, 10, 15, 4]);
}

#[test]
fn of_many_topics_those_have_minutes_in_which_something_happens_and_the_sum_has_all() {
    let minutes = Minutes::default();
    let all = |minute: u64| -> Vec<TopicCounts> {
        (0..2_000).map(|n| counts(&format!("acme/t{n}"), if n >= 1_500 { 1_000 + minute } else { 1_000 })).collect()
    };
    let busy = |minute: u64| -> Vec<TopicCounts> {
        let mut all = all(minute);
        all.iter_mut().skip(1_500).for_each(|counts| counts.running = 1);
        all
    };
    minutes.note(0, &busy(0));
    for minute in 1..6 {
        minutes.note(minute, &busy(minute));
        assert!(minutes.0.lock().topics <= TOPICS);
    }
    assert_eq!(minutes.done(None), [500; 5]);
    assert_eq!(minutes.done(Some("acme/t1999")).last(), Some(&1), "it took the place of a quiet one");
}

#[test]
fn a_clock_that_is_set_back_begins_the_minutes_anew() {
    let minutes = Minutes::default();
    [100, 101, 50, 51].iter().zip(0..).for_each(|(minute, done)| minutes.note(*minute, &[counts("acme/mail", done)]));
    assert_eq!(minutes.of_tenant(&tenant("acme")).0, Some(at(50)));
    assert_eq!((minutes.done(None), minutes.done(Some("acme/mail"))), (vec![1], vec![1]));
}

#[test]
fn the_pace_is_of_the_last_minute_and_what_came_since() {
    let minutes = Minutes::default();
    let (seconds, mail) =
        (|minute: u64, more: u64| at(minute).plus(Duration::from_secs(more)), |done| counts("acme/mail", done));
    assert_eq!(minutes.pace(&mail(5), at(1)), None, "nothing was counted yet");
    minutes.note(1, &[mail(100)]);
    assert_eq!(minutes.pace(&mail(100), at(1)), None, "no time has passed");
    assert_eq!(minutes.pace(&mail(120), seconds(1, 10)), Some(2.0));
    minutes.note(2, &[mail(160)]);
    assert_eq!(minutes.pace(&mail(160), at(2)), Some(1.0));
    assert_eq!(minutes.pace(&mail(220), seconds(2, 60)), Some(1.0));
    minutes.note(3, &[mail(160)]);
    assert_eq!(minutes.pace(&mail(160), seconds(3, 30)), Some(0.0), "it stands still");
    assert_eq!(minutes.pace(&counts("acme/new", 30), seconds(3, 30)), Some(1.0), "a topic that is new since then");
}
