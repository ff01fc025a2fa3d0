//! Looking for damage while the store is in use: partition by partition, with commands and scripts that change nothing.
//!
//! What is read in several steps may be about several moments. So what looks wrong is looked at again by one script, and reported
//! only if that also finds it wrong.

mod jobs;
mod keys;
mod links;
mod lists;
mod rest;

use std::collections::BTreeSet;

use async_trait::async_trait;
use redis::{FromRedisValue, pipe};

use crate::redis::key_names::Keys;
use crate::redis::partitions::RedisStore;
use crate::redis::store::Partition;
use crate::{Check, Finding, Fsck, FsckReport, StoreError};
use gristmill_core::job::Name;

const DOING: &str = "check the store";

/// How many entries are asked for at once.
const COUNT: usize = 250;

/// The same of entries that may be large.
const COUNT_LARGE: usize = 16;

type Bytes = Vec<u8>;

/// Jobs, topics and claims of a tenant's partition, as their keys name them.
#[derive(Debug, Default)]
pub(in crate::redis) struct TenantKeys {
    topics: BTreeSet<Name>,
    holders: BTreeSet<String>,
    bills: Vec<String>,
    /// A key is of a wrong type, so that commands would fail.
    is_unusable: bool,
    /// A key with jobs or schedules.
    has_jobs: Option<String>,
}

/// One partition of a tenant, while it is looked at.
struct PartitionCheck<'a> {
    partition: &'a Partition,
    tenant: &'a Name,
    keys: Keys,
    report: &'a mut FsckReport,
}

#[async_trait]
impl Fsck for RedisStore {
    async fn fsck(&self) -> Result<FsckReport, StoreError> {
        let mut report = FsckReport::default();
        for ((tenant, number), names) in self.find_partitions(&mut report).await? {
            report.look("partitions", 1);
            if names.is_unusable {
                report.skip(format!("partition {number} of tenant {tenant}, because a key of it has a wrong type"));
                continue;
            }
            let partition = self.partition(number);
            let keys = partition.keys(&tenant);
            let mut check = PartitionCheck { partition: &partition, tenant: &tenant, keys, report: &mut report };
            check.everything(names).await?;
        }
        Ok(report)
    }
}

impl PartitionCheck<'_> {
    async fn everything(&mut self, names: TenantKeys) -> Result<(), StoreError> {
        let (mut topics, raw) = self.topics().await?;
        topics.extend(names.topics);
        self.claims(names.holders).await?;
        for topic in &topics {
            self.topic(topic, raw.contains(topic.as_str())).await?;
            self.unique_values(topic).await?;
        }
        self.jobs(&topics, &raw).await?;
        self.details(&topics, &raw).await?;
        self.slots_of_keys().await?;
        self.links().await?;
        self.counts(&names.bills).await?;
        self.running().await?;
        self.pauses().await?;
        self.key_rates().await?;
        self.outbox().await?;
        self.schedules().await
    }

    /// The topics that the partition lists, and those that raw producers write to.
    async fn topics(&self) -> Result<(BTreeSet<Name>, BTreeSet<String>), StoreError> {
        let mut ask = pipe();
        for key in [self.keys.topics(), self.keys.raw()] {
            ask.cmd("ZRANGE").arg(key).arg(0).arg(-1);
        }
        let (topics, raw): (Vec<String>, BTreeSet<String>) = self.query(&ask).await?;
        Ok((topics.iter().filter_map(|topic| topic.parse().ok()).collect(), raw))
    }

    async fn query<T: FromRedisValue>(&self, ask: &redis::Pipeline) -> Result<T, StoreError> {
        self.partition.link.query(DOING, ask).await
    }

    /// The next entries of a key, and where to go on; 0 at its end. `command`: `HSCAN`, `SSCAN` or `ZSCAN`. The first two of
    /// them answer with pairs.
    async fn scan(&self, command: Scan, key: &str, cursor: u64) -> Result<(u64, Vec<(Bytes, Bytes)>), StoreError> {
        let mut ask = pipe();
        ask.cmd(command.name()).arg(key).arg(cursor).arg("COUNT").arg(command.count());
        if command == Scan::Set {
            let ((next, members),): ((u64, Vec<Bytes>),) = self.query(&ask).await?;
            return Ok((next, members.into_iter().map(|member| (member, Bytes::new())).collect()));
        }
        let ((next, pairs),): ((u64, Vec<(Bytes, Bytes)>),) = self.query(&ask).await?;
        Ok((next, pairs))
    }

    fn found(&mut self, check: Check, thing: (Option<&str>, Option<&str>), place: String, detail: impl Into<String>) {
        let (topic, job) = thing;
        self.report.found(Finding::at(check, place, detail).of(self.tenant, topic, job));
    }
}

/// How a key is read part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    Hash,
    /// With values that may be large.
    LargeHash,
    Set,
    Sorted,
}

impl Scan {
    const fn name(self) -> &'static str {
        match self {
            Self::Hash | Self::LargeHash => "HSCAN",
            Self::Set => "SSCAN",
            Self::Sorted => "ZSCAN",
        }
    }

    const fn count(self) -> usize {
        match self {
            Self::LargeHash => COUNT_LARGE,
            _ => COUNT,
        }
    }

    /// The type of the key, as scripts call it.
    const fn kind(self) -> &'static str {
        match self {
            Self::Hash | Self::LargeHash => "hash",
            Self::Set => "set",
            Self::Sorted => "zset",
        }
    }
}

/// Bytes as a person sees them.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
