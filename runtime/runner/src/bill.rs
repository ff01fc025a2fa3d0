//! Adds what attempts cost to the bill in the store, once a second while there is something, or while tenants compete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::slots::fleet_use::{FleetUse, Shares};
use gristmill_core::job::{Name, WorkerId};
use gristmill_store::{BillEntries, BillEntry, BillSums, StoreError};

/// What a process that is killed loses of the bill.
const EVERY: Duration = Duration::from_secs(1);
/// How long the last entries may take when the process ends.
const LAST: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

/// Carries costs from memory into the store.
#[derive(Debug)]
pub struct BillWriter<S: ?Sized> {
    store: Arc<S>,
    sums: BillSums,
    writer: WorkerId,
    keep: Duration,
    number: u64,
    /// Entries that may have been added: until that is known, they stay as they are.
    open: BTreeMap<Name, BillEntry>,
    fleet: FleetUse,
    is_failing: bool,
}

impl<S: BillEntries + ?Sized> BillWriter<S> {
    /// Adds `sums` to the bills in the store, in the name of this process. Bills are kept for `keep` after their day. What the tenants of
    /// `shares` use of this runner goes along, and what they use of others comes back.
    pub fn new(store: Arc<S>, sums: BillSums, shares: Shares, writer: WorkerId, keep: Duration) -> Self {
        let fleet = FleetUse::new(shares);
        Self { store, sums, writer, keep, number: 0, open: BTreeMap::new(), fleet, is_failing: false }
    }

    /// Writes until stopped, and then the rest: for that the store has five seconds. Stop it after everything that has costs.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if self.open.is_empty() && self.fleet.competing().is_empty() {
                tokio::select! {
                    () = self.sums.some() => {}
                    () = stop.cancelled() => break,
                }
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => self.write().await,
                () = stop.cancelled() => break,
            }
        }
        let end = Instant::now() + LAST;
        loop {
            let is_in_time = tokio::time::timeout_at(end, self.write()).await.is_ok();
            let is_done = self.open.is_empty();
            if is_done && is_in_time {
                return;
            }
            if !is_in_time || Instant::now() + PAUSE >= end {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let attempts: u64 = self.open.values().map(attempts).sum();
        if attempts > 0 {
            tracing::error!(attempts, "ended before the store took what attempts cost: the bill may lack attempts");
        }
    }

    /// Sends all there is. What a store did not take stays for the next time.
    async fn write(&mut self) {
        self.gather();
        if self.open.is_empty() {
            return;
        }
        let entries: Vec<BillEntry> = self.open.values().cloned().collect();
        let mut unavailable = None;
        match self.store.add_to_bills(&entries).await {
            Ok(answers) => {
                for (entry, answer) in entries.iter().zip(answers) {
                    match answer {
                        Err(error) if may_pass(&error) => unavailable = Some(error),
                        answer => self.close(entry, answer),
                    }
                }
            }
            Err(error) if may_pass(&error) => unavailable = Some(error),
            Err(error) => {
                let error = Arc::new(error);
                entries.iter().for_each(|entry| self.drop_entry(entry, &error));
            }
        }
        self.note(unavailable);
    }

    /// Makes entries of what was added up, but for tenants that have an open one.
    fn gather(&mut self) {
        self.number += 1;
        let mut entries: BTreeMap<Name, BillEntry> = BTreeMap::new();
        for line in self.sums.take() {
            if self.open.contains_key(&line.topic.tenant) {
                self.sums.add(&line.topic, line.day, line.cost);
                continue;
            }
            let new = || self.entry(&line.topic.tenant);
            entries.entry(line.topic.tenant.clone()).or_insert_with(new).lines.push(line);
        }
        for tenant in self.fleet.competing().into_iter().filter(|tenant| !self.open.contains_key(tenant)) {
            let new = self.entry(&tenant);
            entries.entry(tenant).or_insert(new);
        }
        for (tenant, entry) in &mut entries {
            entry.used_us = self.fleet.take_us(tenant);
        }
        self.open.append(&mut entries);
    }

    fn entry(&self, tenant: &Name) -> BillEntry {
        let (tenant, writer) = (tenant.clone(), self.writer.clone());
        BillEntry { tenant, writer, number: self.number, lines: Vec::new(), keep: self.keep, used_us: 0 }
    }

    fn close(&mut self, entry: &BillEntry, answer: Result<Option<u64>, StoreError>) {
        match answer {
            Err(error) => self.drop_entry(entry, &Arc::new(error)),
            Ok(total_us) => {
                let now = std::time::Instant::now();
                self.open.remove(&entry.tenant);
                self.fleet.learn(&entry.tenant, entry.used_us, total_us, now);
            }
        }
    }

    /// The same entry would be refused again.
    fn drop_entry(&mut self, entry: &BillEntry, error: &Arc<StoreError>) {
        let (tenant, attempts) = (&entry.tenant, attempts(entry));
        let error = anyhow::Error::from(Arc::clone(error));
        tracing::error!(%tenant, attempts, "the bill lacks attempts: {error:#}");
        self.open.remove(tenant);
    }

    /// Logs the beginning and the end of an outage.
    fn note(&mut self, unavailable: Option<StoreError>) {
        let was_failing = std::mem::replace(&mut self.is_failing, unavailable.is_some());
        match unavailable {
            Some(error) if !was_failing => {
                tracing::warn!("{:#}; what attempts cost waits in memory", anyhow::Error::from(error));
            }
            None if was_failing => tracing::info!("what attempts cost is in the bill again"),
            _ => {}
        }
    }
}

/// Whether the store may take the same entry later: jobs that run make room in a full one.
const fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. } | StoreError::Full { .. })
}

fn attempts(entry: &BillEntry) -> u64 {
    entry.lines.iter().map(|line| line.cost.attempts).sum()
}
