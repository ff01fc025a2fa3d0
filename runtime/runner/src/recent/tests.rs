//! Which of many attempts are kept, and which are dropped for which tenant.

use std::sync::Arc;
use std::time::Duration;

use gristmill_core::outcome::{Failure, FailureDetail, Reason, Settled, Verdict};

use super::*;
use crate::journal::tests::record;

/// An attempt of this tenant that was acked, or failed with a message of this many bytes.
fn attempt(tenant: &str, job: &str, failed: Option<usize>) -> AttemptRecord {
    let mut record = record(job);
    Arc::make_mut(&mut record.claim).lease.topic.tenant = tenant.parse().unwrap();
    if let Some(bytes) = failed {
        let detail = FailureDetail { code: "c".into(), message: "m".repeat(bytes), context: None };
        let failure = Failure::new(Reason::Failed, detail);
        record.verdict = Verdict::Retry { after: Duration::ZERO, failure };
    }
    record
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn begun() -> RecentAttempts {
    RecentAttempts::since(at(0))
}

impl RecentAttempts {
    fn note(&self, second: u64, record: &AttemptRecord) {
        self.add_at(at(second), [(record, None)]);
    }

    fn jobs(&self, wanted: &RecentWanted) -> Vec<String> {
        let (kept, _) = self.0.lock().of(wanted);
        kept.iter().map(|kept| kept.line.job().to_string()).collect()
    }

    fn missing_until(&self, wanted: &RecentWanted) -> u64 {
        self.of(wanted).1.as_millis() / 1000
    }

    /// What all attempts take, counted anew and as the sum that is kept.
    fn bytes(&self) -> usize {
        let rings = self.0.lock();
        assert_eq!(rings.tenants.values().map(TenantRings::bytes).sum::<usize>(), rings.bytes);
        rings.bytes
    }
}

fn all(tenant: &str) -> RecentWanted {
    RecentWanted { tenant: tenant.parse().unwrap(), topic: None, job: None, failed: false, limit: 10_000 }
}

fn failed(tenant: &str) -> RecentWanted {
    RecentWanted { failed: true, ..all(tenant) }
}

#[test]
fn attempts_are_shown_the_latest_first_as_wanted() {
    let recent = begun();
    recent.note(1, &attempt("acme", "a", None));
    recent.note(2, &attempt("acme", "b", Some(9)));
    let mut other = attempt("acme", "a", Some(9));
    Arc::make_mut(&mut other.claim).lease.topic.topic = "mail".parse().unwrap();
    recent.note(3, &other);
    recent.note(4, &AttemptRecord { settled: Some(Settled::LeaseLost), ..attempt("acme", "late", None) });
    recent.note(5, &attempt("other", "a", None));

    assert_eq!(recent.jobs(&all("acme")), ["late", "a", "b", "a"]);
    assert_eq!(recent.jobs(&RecentWanted { limit: 2, ..all("acme") }), ["late", "a"]);
    assert_eq!(recent.jobs(&failed("acme")), ["late", "a", "b"]);
    assert_eq!(recent.jobs(&RecentWanted { topic: Some("mail".parse().unwrap()), ..all("acme") }), ["a"]);
    assert_eq!(recent.jobs(&RecentWanted { job: Some("b".parse().unwrap()), ..all("acme") }), ["b"]);
    assert_eq!(recent.jobs(&all("missing")), [""; 0]);
    assert_eq!(recent.missing_until(&all("acme")), 0);

    let (shown, _) = recent.of(&failed("acme"));
    let shown = serde_json::to_value(&shown[2]).unwrap();
    let end = ["job", "verdict", "reason", "message", "failed", "at_ms"].map(|field| shown[field].clone());
    let expected = serde_json::json!(["b", "retry", "failed", "mmmmmmmmm", true, 2000]);
    assert_eq!(serde_json::Value::from(end.to_vec()), expected);
}

#[test]
fn successes_push_out_no_failure_and_each_ring_says_since_when_it_is_whole() {
    let recent = begun();
    recent.note(1, &attempt("acme", "bad", Some(9)));
    for n in 2..5_000 {
        recent.note(n, &attempt("acme", &n.to_string(), None));
    }
    assert_eq!(recent.jobs(&failed("acme")), ["bad"]);
    let jobs = recent.jobs(&all("acme"));
    assert_eq!((jobs.first().unwrap().as_str(), jobs.last().unwrap().as_str()), ("4999", "bad"));
    assert!((100..=1001).contains(&jobs.len()), "{}", jobs.len());
    assert_eq!(recent.missing_until(&failed("acme")), 0);
    // The attempt after that time is the earliest success.
    assert_eq!(recent.missing_until(&all("acme")) + 1, jobs[jobs.len() - 2].parse::<u64>().unwrap());
    assert!(recent.bytes() <= TENANT_BYTES);
}

#[test]
fn a_tenant_with_many_attempts_pushes_out_no_other_tenants() {
    let recent = begun();
    for tenant in 0..40 {
        for n in 0..10 {
            recent.note(n, &attempt(&format!("quiet-{tenant}"), &n.to_string(), Some(4000)));
        }
    }
    for tenant in 0..40 {
        for n in 0..2_000 {
            recent.note(n, &attempt(&format!("noisy-{tenant}"), &n.to_string(), Some(4000)));
        }
    }
    assert!(recent.bytes() <= BYTES, "{}", recent.bytes());
    for tenant in 0..40 {
        assert_eq!(recent.jobs(&all(&format!("quiet-{tenant}"))).len(), 10, "{tenant}");
        assert!(recent.jobs(&all(&format!("noisy-{tenant}"))).len() > 100, "{tenant}");
    }
}

#[test]
fn beyond_a_thousand_tenants_those_without_new_attempts_are_forgotten() {
    let recent = begun();
    for n in 0..3_000 {
        recent.note(n, &attempt(&format!("t{n}"), "j", None));
        recent.note(n, &attempt("steady", "j", None));
    }
    assert!(recent.0.lock().tenants.len() <= TENANTS);
    assert_eq!((recent.jobs(&all("t0")).len(), recent.jobs(&all("t2999")).len()), (0, 1));
    assert!(recent.jobs(&all("steady")).len() > 100);
    let missing_until = recent.missing_until(&all("t0"));
    assert!((1_000..3_000).contains(&missing_until), "{missing_until}");
    recent.bytes();
}

#[test]
fn what_is_taken_away_is_taken_from_those_that_use_the_most() {
    for (sizes, most, expected) in
        [(vec![], 10, 10), (vec![3, 3], 10, 10), (vec![1, 20], 10, 9), (vec![8, 1, 8], 11, 5), (vec![9, 9, 9], 6, 2)]
    {
        assert_eq!(level(sizes.clone(), most), expected, "{sizes:?}");
    }
}
