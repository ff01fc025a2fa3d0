//! Records of the installation, each written over the one of the generation before: where tenants live, where this store is home to
//! several, and which versions of handlers do topics' jobs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::store::EmbeddedStore;
use super::work::Work;
use crate::{Deployments, Placement, PlacementRegistry, Signal, StoreError};
use gristmill_core::deployment::Deployment;
use gristmill_core::job::{Name, TopicId, WorkerId};

/// The statements for the records of one kind.
struct Kind {
    read: &'static str,
    /// A first record.
    first: &'static str,
    /// A record over the one before it.
    next: &'static str,
}

const PLACEMENTS: Kind = Kind {
    read: "SELECT tenant, record FROM placements",
    first: "INSERT INTO placements (tenant, generation, record) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    next: "UPDATE placements SET generation = ?2, record = ?3 WHERE tenant = ?1 AND generation = ?2 - 1",
};

const DEPLOYMENTS: Kind = Kind {
    read: "SELECT topic, record FROM deployments",
    first: "INSERT INTO deployments (topic, generation, record) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    next: "UPDATE deployments SET generation = ?2, record = ?3 WHERE topic = ?1 AND generation = ?2 - 1",
};

#[async_trait]
impl PlacementRegistry for EmbeddedStore {
    async fn placements(&self) -> Result<BTreeMap<Name, Placement>, StoreError> {
        self.read("read where tenants live", |connection, _| PLACEMENTS.read(connection)).await
    }

    async fn write_placement(&self, tenant: &Name, placement: &Placement) -> Result<bool, StoreError> {
        let (tenant, placement) = (tenant.clone(), placement.clone());
        let write =
            move |work: &mut Work<'_>| PLACEMENTS.write(work, tenant.as_str(), placement.generation, &placement);
        self.write("write where a tenant lives", Weight::default(), write).await
    }

    /// The file has one owner, so there is no other process.
    async fn lock_move(&self, _tenant: &Name, _driver: &WorkerId, _lease: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn is_ours_alone(&self) -> bool {
        true
    }
}

#[async_trait]
impl Deployments for EmbeddedStore {
    async fn deployments(&self) -> Result<BTreeMap<TopicId, Deployment>, StoreError> {
        self.read("read which versions serve", |connection, _| DEPLOYMENTS.read(connection)).await
    }

    async fn write_deployment(&self, topic: &TopicId, deployment: &Deployment) -> Result<bool, StoreError> {
        let (topic, deployment) = (topic.clone(), deployment.clone());
        self.write("write which versions serve", Weight::default(), move |work| {
            let written = DEPLOYMENTS.write(work, &topic.to_string(), deployment.generation, &deployment)?;
            work.signals.extend(written.then(|| Signal::Deployed(topic.clone())));
            Ok(written)
        })
        .await
    }
}

impl Kind {
    fn read<K: FromStr<Err: Display> + Ord, R: DeserializeOwned>(
        &self,
        connection: &Connection,
    ) -> Done<BTreeMap<K, R>> {
        let mut read = connection.prepare_cached(self.read)?;
        let mut rows = read.query([])?;
        let mut records = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (of, record): (String, String) = (row.get(0)?, row.get(1)?);
            let unreadable = |problem: String| Fault::Refused(format!("the record of `{of}`: {problem}"));
            let key = of.parse().map_err(|error: K::Err| unreadable(error.to_string()))?;
            let record = serde_json::from_str(&record).map_err(|error| unreadable(error.to_string()))?;
            records.insert(key, record);
        }
        Ok(records)
    }

    /// Returns whether it was written.
    fn write(&self, work: &Work<'_>, of: &str, generation: u64, record: &impl Serialize) -> Done<bool> {
        let write = if generation == 1 { self.first } else { self.next };
        let generation = i64::try_from(generation).unwrap_or(i64::MAX);
        let record = serde_json::to_string(record).unwrap_or_default();
        Ok(work.connection.prepare_cached(write)?.execute(params![of, generation, record])? == 1)
    }
}
