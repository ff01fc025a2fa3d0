//! The stores of the tenants, asked of the server that has the stores.

use async_trait::async_trait;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::wire;
use gristmill_core::job::Name;
use gristmill_store::StoreError;
use gristmill_store::{TenantPlacement, TenantPlacements};

#[async_trait]
impl TenantPlacements for RemoteStore {
    async fn placements(&self) -> Result<Vec<TenantPlacement>, StoreError> {
        let question = Question::get("/v1/placements".into(), "list the stores of the tenants");
        let wire::Placements { placements } = self.server.ask(question).await?;
        Ok(placements)
    }

    async fn placement(&self, tenant: &Name) -> Result<TenantPlacement, StoreError> {
        let question = Question::get(format!("/v1/tenants/{tenant}/placement"), "get the store of a tenant");
        self.server.ask(question).await
    }

    async fn move_tenant(&self, tenant: &Name, to: &Name) -> Result<(), StoreError> {
        let path = format!("/v1/tenants/{tenant}/move");
        let question = Question::post(path, &wire::Move { to: to.clone() }, "move a tenant");
        let wire::Nothing {} = self.server.ask(question).await?;
        Ok(())
    }
}
