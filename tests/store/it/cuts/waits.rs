//! What the scenario has of jobs that wait: for other jobs, for their key, and for limits.

use std::time::Duration;

use gristmill_core::job::{Claim, NewJob};
use gristmill_core::outcome::{StateChange, Verdict};
use gristmill_core::topic::{FleetLimits, KeyLimits, Rate, TenantFleetLimits};
use gristmill_store::{ClaimFrom, Settlement, StateWrite};
use gristmill_store_tests::test_store::{LEASE, job, tenant, topic, worker};

use super::scenario::World;

impl World {
    async fn claim_within(&self, of: &str, max: usize, limits: FleetLimits) -> Vec<Claim> {
        self.claim_from(&worker(), ClaimFrom::new(topic(of), max, LEASE).within(limits)).await
    }

    /// A job waits for another one, and a batch for its members: the first one is done, the others wait until all come to their end.
    pub(super) async fn workflows(&mut self) {
        let (first, mut second, mut batch) = (job("mail"), job("next"), job("next"));
        second.spec.options.after = vec![first.spec.id.clone()];
        batch.spec.options.open = true;
        let mut members = [job("mail"), job("mail")];
        for member in &mut members {
            member.spec.options.batch = Some(batch.spec.id.clone());
        }
        let [one, other] = members;
        self.acknowledged.batches.insert(batch.spec.id.clone());
        self.push(&[first, second.clone(), batch.clone(), one, other]).await;
        self.ask(async |store| store.waits_for(&tenant(), &batch.spec.id, 10).await).await;
        self.ask(async |store| store.seal(&tenant(), &batch.spec.id).await).await;
        for claim in self.claim(&worker(), "mail", 2).await {
            self.ack(&claim, Vec::new()).await;
        }
        // Cancelled while it waits, or soon after.
        self.ask(async |store| store.cancel(&tenant(), std::slice::from_ref(&second.spec.id)).await).await;
        self.note_ended(&second.spec.id);
    }

    /// Jobs of a key of which the rate holds one back, and the state that one of them sets; of another topic the limits keep one in line.
    pub(super) async fn keys_and_limits(&mut self) {
        let with_key = |mut job: NewJob| {
            job.spec.options.key = Some("k".into());
            job
        };
        self.push(&[with_key(job("keyed")), with_key(job("keyed"))]).await;
        let rate = Some(Rate { jobs: 1, per: Duration::from_secs(1), burst: 1 });
        let of_key = FleetLimits { per_key: KeyLimits { rate, ..KeyLimits::DEFAULT }, ..FleetLimits::NONE };
        for _ in 0..2 {
            for claim in self.claim_within("keyed", 2, of_key).await {
                let state = Some(StateWrite {
                    key: "k".into(),
                    change: StateChange::Set(b"s".to_vec()),
                    ttl: Duration::from_secs(3600),
                });
                self.settle(Settlement { state, ..Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO) }).await;
                self.note_ended(&claim.lease.job);
            }
            self.pass(Duration::from_millis(500));
            self.ask(async |store| store.migrate(&tenant(), 100).await).await;
        }
        self.ask(async |store| store.state(&topic("keyed"), "k").await).await;
        self.ask(async |store| store.delete_state(&topic("keyed"), "k", None).await).await;

        self.push(&[job("limited"), job("limited")]).await;
        let of_tenant = TenantFleetLimits { max_running: Some(100), jobs_per_day: Some(100), fuel_per_hour: None };
        let limits = FleetLimits { max_running: Some(1), rate, tenant: of_tenant, ..FleetLimits::NONE };
        for claim in self.claim_within("limited", 2, limits).await {
            self.ack(&claim, Vec::new()).await;
        }
        self.pass(Duration::from_secs(1));
        self.ask(async |store| store.migrate(&tenant(), 100).await).await;
    }
}
