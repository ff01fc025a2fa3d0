//! What became of jobs that are pushed, and maybe claimed and settled, while servers fail and slots move.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gristmill_test_servers::redis::Redis;
use parking_lot::Mutex;
use rustix::process::Signal;

use super::server::until;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::tests::{LEASE, job, tenant, topic, worker};
use crate::{ClaimFrom, Settled, Settlement};
use gristmill_core::job::JobId;
use gristmill_core::outcome::Verdict;

/// Few, or as many as `scripts/failovers.sh` says.
pub(super) fn rounds() -> usize {
    std::env::var("GRISTMILL_FAILOVERS").map_or(2, |count| count.parse().unwrap())
}

/// How a primary fails, so that another one takes over.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServerFailure {
    Ends,
    /// Its connections stay, and it answers nothing. Later it goes on where it stood, as if it were the primary still.
    StandsStill,
}

impl ServerFailure {
    /// By turns.
    pub(super) fn of(round: usize) -> Self {
        if round.is_multiple_of(2) { Self::Ends } else { Self::StandsStill }
    }

    pub(super) fn begin(self, server: &mut Redis) {
        match self {
            Self::Ends => server.kill(),
            Self::StandsStill => server.signal(Signal::STOP),
        }
    }

    pub(super) async fn end(self, server: &mut Redis) {
        match self {
            Self::Ends => server.resume().await,
            Self::StandsStill => server.signal(Signal::CONT),
        }
    }
}

/// What producers were answered, and what a consumer did.
#[derive(Default)]
pub(super) struct Ledger {
    acknowledged: Mutex<Vec<(JobId, Instant)>>,
    done: Mutex<HashSet<JobId>>,
    ends: AtomicBool,
}

impl Ledger {
    /// Makes producers end, and a consumer end when nothing is left.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::SeqCst);
    }

    pub(super) async fn produce(&self, store: &RedisStore) {
        while !self.ends.load(Ordering::SeqCst) {
            let jobs = [job("mail"), job("mail")];
            match store.push(&jobs).await {
                Ok(_) => self.acknowledged.lock().extend(jobs.map(|job| (job.spec.id, Instant::now()))),
                // As a runner does before it asks an unavailable store again.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// Claims and acks until the producers have ended, and nothing is left.
    pub(super) async fn consume(&self, store: &RedisStore) {
        loop {
            let is_last = self.ends.load(Ordering::SeqCst);
            let claimed = store.claim(&worker(), &[ClaimFrom::new(topic("mail"), 50, LEASE)]).await;
            let Some(claimed) = claimed.ok().filter(|claimed| claimed.refused.is_empty()) else {
                tokio::task::yield_now().await;
                continue;
            };
            if claimed.claims.is_empty() && is_last {
                return;
            }
            for claim in claimed.claims {
                let settlements = [Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO)];
                until("the job is settled", async || match store.settle(&settlements).await {
                    Ok(settled) if settled == [Settled::Done] => {
                        assert!(self.done.lock().insert(claim.job.spec.id.clone()), "a job is done twice");
                        true
                    }
                    Ok(settled) => panic!("{settled:?}"),
                    Err(_) => false,
                })
                .await;
            }
        }
    }

    /// Waits until some more pushes are acknowledged.
    pub(super) async fn until_more(&self) {
        let count = || self.acknowledged.lock().len();
        let before = count();
        until("pushes are acknowledged", async || count() > before + 200).await;
    }

    /// Every acknowledged job is there.
    pub(super) async fn assert_stored(&self, store: &RedisStore) {
        let (mut lost, acknowledged) = (0, self.report());
        for id in &acknowledged {
            lost += usize::from(store.job(&tenant(), id).await.unwrap().is_none());
        }
        assert_eq!(lost, 0, "of {} acknowledged", acknowledged.len());
    }

    /// Every acknowledged job is done.
    pub(super) fn assert_done(&self) {
        let (acknowledged, done) = (self.report(), self.done.lock());
        let lost = acknowledged.iter().filter(|id| !done.contains(*id)).count();
        assert_eq!(lost, 0, "of {} acknowledged", acknowledged.len());
    }

    /// Prints how many jobs were acknowledged, and for how long none was: as often as there were rounds, the longest times.
    fn report(&self) -> Vec<JobId> {
        let mut acknowledged = self.acknowledged.lock().clone();
        acknowledged.sort_unstable_by_key(|(_, at)| *at);
        let gap = |pair: &[(JobId, Instant)]| pair[1].1.duration_since(pair[0].1).as_millis();
        let mut gaps: Vec<u128> = acknowledged.windows(2).map(gap).collect();
        gaps.sort_unstable_by(|a, b| b.cmp(a));
        gaps.truncate(rounds());
        println!("{} jobs acknowledged, {} done; outages of {gaps:?} ms", acknowledged.len(), self.done.lock().len());
        acknowledged.into_iter().map(|(id, _)| id).collect()
    }
}
