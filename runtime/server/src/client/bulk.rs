//! Bulk actions of a server.

use super::exchange::Question;
use super::store::RemoteStore;
use crate::wire;
use crate::wire::bulk::{Bulk, Bulks, NewBulk, StartBulk};
use gristmill_core::job::Name;
use gristmill_store::StoreError;

const LOOK: &str = "look at a bulk action";

/// Each fails if the server is unavailable, or refuses: there is no such bulk action, or it is in another state.
#[allow(clippy::missing_errors_doc, reason = "the same for all")]
impl RemoteStore {
    /// Makes one: its dry run begins.
    pub async fn make_bulk(&self, tenant: &Name, new: &NewBulk) -> Result<Bulk, StoreError> {
        self.server.ask(Question::post(path(tenant), new, "make a bulk action")).await
    }

    /// Those that the server keeps of the tenant, the latest first.
    pub async fn bulks(&self, tenant: &Name) -> Result<Vec<Bulk>, StoreError> {
        let Bulks { bulk } = self.server.ask(Question::get(path(tenant), "list bulk actions")).await?;
        Ok(bulk)
    }

    /// One of them.
    pub async fn bulk(&self, tenant: &Name, id: &str) -> Result<Bulk, StoreError> {
        self.server.ask(Question::get(one(tenant, id), LOOK)).await
    }

    /// Starts one that has counted `expect` jobs.
    pub async fn start_bulk(&self, tenant: &Name, id: &str, expect: u64) -> Result<Bulk, StoreError> {
        let path = format!("{}/start", one(tenant, id));
        self.server.ask(Question::post(path, &StartBulk { expect }, "start a bulk action")).await
    }

    /// Aborts one, after its current step.
    pub async fn abort_bulk(&self, tenant: &Name, id: &str) -> Result<Bulk, StoreError> {
        let path = format!("{}/abort", one(tenant, id));
        self.server.ask(Question::post(path, &wire::Nothing {}, "abort a bulk action")).await
    }
}

fn path(tenant: &Name) -> String {
    format!("/v1/tenants/{tenant}/bulk")
}

fn one(tenant: &Name, id: &str) -> String {
    format!("{}/{}", path(tenant), urlencoded(id))
}

/// What a person typed may be anything.
fn urlencoded(id: &str) -> String {
    url::form_urlencoded::byte_serialize(id.as_bytes()).collect()
}
