//! Bills, by way of the server.

use std::ops::RangeInclusive;

use async_trait::async_trait;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::wire::bill::Bill;
use gristmill_core::bill::{BillLine, Day};
use gristmill_core::job::Name;
use gristmill_store::{Bills, StoreError};

#[async_trait]
impl Bills for RemoteStore {
    async fn bill(&self, tenant: &Name, days: &RangeInclusive<Day>) -> Result<Vec<BillLine>, StoreError> {
        let path = format!("/v1/tenants/{tenant}/bill?from={}&to={}", days.start(), days.end());
        let Bill { lines, .. } = self.server.ask(Question::get(path, "read a bill")).await?;
        Ok(lines)
    }
}
