//! What the store says of versions of handlers, as this process last read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use gristmill_core::deployment::Deployment;
use gristmill_core::job::TopicId;
use gristmill_store::{Deployments, StoreError};

/// The records as this process last read them. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct DeploymentRecords {
    records: Arc<watch::Sender<Arc<BTreeMap<TopicId, Deployment>>>>,
    /// Used when they may have changed.
    stale: Arc<Notify>,
}

impl DeploymentRecords {
    /// Reads them from the store.
    ///
    /// # Errors
    /// The store is unavailable, or a record cannot be read: what was known before stays.
    pub async fn read(&self, store: &(impl Deployments + ?Sized)) -> Result<(), StoreError> {
        let records = store.deployments().await?;
        self.records.send_if_modified(|known| {
            let differ = **known != records;
            if differ {
                *known = Arc::new(records);
            }
            differ
        });
        Ok(())
    }

    pub(super) fn current(&self) -> Arc<BTreeMap<TopicId, Deployment>> {
        self.records.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<BTreeMap<TopicId, Deployment>>> {
        self.records.subscribe()
    }

    /// The store has said that they have changed.
    pub(crate) fn may_have_changed(&self) {
        self.stale.notify_one();
    }

    /// Waits until the store has said so. Cancel-safe.
    pub(crate) async fn changed(&self) {
        self.stale.notified().await;
    }
}
