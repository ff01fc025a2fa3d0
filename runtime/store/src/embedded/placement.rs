//! Where tenants live, where this store is home to several.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::fault::{Done, Fault};
use super::request::Weight;
use super::store::EmbeddedStore;
use crate::{Placement, PlacementRegistry, StoreError};
use gristmill_core::job::{Name, WorkerId};

/// Every record.
const READ: &str = "SELECT tenant, record FROM placements";

/// A first record.
const FIRST: &str = "INSERT INTO placements (tenant, generation, record) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

/// A record over the one before it.
const NEXT: &str = "UPDATE placements SET generation = ?2, record = ?3 WHERE tenant = ?1 AND generation = ?2 - 1";

#[async_trait]
impl PlacementRegistry for EmbeddedStore {
    async fn placements(&self) -> Result<BTreeMap<Name, Placement>, StoreError> {
        self.read("read where tenants live", |connection, _| placements(connection)).await
    }

    async fn write_placement(&self, tenant: &Name, placement: &Placement) -> Result<bool, StoreError> {
        let (tenant, generation) = (tenant.clone(), placement.generation);
        let record = serde_json::to_string(placement).unwrap_or_default();
        self.write("write where a tenant lives", Weight::default(), move |work| {
            let write = if generation == 1 { FIRST } else { NEXT };
            let generation = i64::try_from(generation).unwrap_or(i64::MAX);
            let written =
                work.connection.prepare_cached(write)?.execute(params![tenant.as_str(), generation, record])?;
            Ok(written == 1)
        })
        .await
    }

    /// The file has one owner, so there is no other process.
    async fn lock_move(&self, _tenant: &Name, _driver: &WorkerId, _lease: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn is_ours_alone(&self) -> bool {
        true
    }
}

fn placements(connection: &Connection) -> Done<BTreeMap<Name, Placement>> {
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query([])?;
    let mut placements = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (tenant, record): (String, String) = (row.get(0)?, row.get(1)?);
        let unreadable = |problem: String| Fault::Refused(format!("where the tenant `{tenant}` lives: {problem}"));
        let name: Name = tenant.parse().map_err(|error| unreadable(format!("{error}")))?;
        let record = serde_json::from_str(&record).map_err(|error| unreadable(error.to_string()))?;
        placements.insert(name, record);
    }
    Ok(placements)
}
