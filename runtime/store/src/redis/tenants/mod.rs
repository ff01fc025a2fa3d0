//! Which tenants there are: a SET that names each of them before its first job is stored.

pub(super) mod known;
mod quiet;

use std::collections::BTreeSet;

use redis::pipe;

use super::key_names::{Keys, tenants_key};
use super::store::Server;
use crate::StoreError;
use gristmill_core::job::Name;

/// Tenants in one command.
const TENANTS: usize = 256;

impl Server {
    /// Has these tenants in the SET: one command, if this process has not done so before. To be called before anything of a
    /// tenant is stored: a server that loses the SET's last entries has then also lost what was stored after them.
    pub(super) async fn list_tenants<'a>(
        &self,
        doing: &'static str,
        tenants: impl IntoIterator<Item = &'a Name>,
    ) -> Result<(), StoreError> {
        let new: Vec<&Name> = {
            let listed = self.listed.lock();
            tenants.into_iter().filter(|tenant| !listed.contains(*tenant)).collect()
        };
        if !new.is_empty() {
            self.add_tenants(doing, &new).await?;
            self.listed.lock().extend(new.into_iter().cloned());
        }
        Ok(())
    }

    async fn add_tenants(&self, doing: &'static str, tenants: &[&Name]) -> Result<(), StoreError> {
        let mut add = pipe();
        for tenants in tenants.chunks(TENANTS) {
            let names: Vec<&str> = tenants.iter().map(|tenant| tenant.as_str()).collect();
            add.cmd("SADD").arg(tenants_key(&self.prefix)).arg(names);
        }
        self.link.query::<Vec<u64>>(doing, &add).await.map(drop)
    }

    /// The tenants that have topics or schedules, given how many partitions each has. Lists those again that the server has lost since
    /// this process listed them.
    pub(super) async fn listed_tenants(
        &self,
        doing: &'static str,
        partitions: impl Fn(&Name) -> u32,
    ) -> Result<Vec<Name>, StoreError> {
        let (members,): (Vec<String>,) =
            self.link.query(doing, pipe().cmd("SMEMBERS").arg(tenants_key(&self.prefix))).await?;
        let mut tenants: BTreeSet<Name> = members.iter().filter_map(|member| member.parse().ok()).collect();
        let lost: Vec<Name> = self.listed.lock().iter().filter(|tenant| !tenants.contains(*tenant)).cloned().collect();
        if !lost.is_empty() {
            // A full server refuses it. The next look tries again.
            drop(self.add_tenants(doing, &lost.iter().collect::<Vec<_>>()).await);
        }
        tenants.extend(lost);

        let partitions = tenants.iter().flat_map(|tenant| (0..partitions(tenant)).map(move |number| (tenant, number)));
        let partitions: Vec<(&Name, u32)> = partitions.collect();
        let mut existing: BTreeSet<&Name> = BTreeSet::new();
        for some in partitions.chunks(TENANTS) {
            let mut ask = pipe();
            for (tenant, number) in some {
                let keys = Keys::new(&self.prefix, tenant, *number);
                ask.cmd("EXISTS").arg(keys.topics()).arg(keys.schedules());
            }
            let exists = self.link.query::<Vec<u64>>(doing, &ask).await?;
            existing.extend(some.iter().zip(exists).filter(|(_, keys)| *keys > 0).map(|((tenant, _), _)| *tenant));
        }
        Ok(existing.into_iter().cloned().collect())
    }
}
