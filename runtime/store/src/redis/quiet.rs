//! Which tenants are worth a look: the many of which there is nothing to find cost one command together.

use std::collections::HashSet;

use parking_lot::Mutex;
use redis::pipe;

use super::keys::Keys;
use super::store::RedisStore;
use crate::StoreError;
use gristmill_core::job::Name;

/// Tenants in one command.
const TENANTS: usize = 256;

/// The tenants of which something was found when they were last asked for.
#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<HashSet<Name>>);

impl Busy {
    pub(super) fn note(&self, tenant: &Name, is_busy: bool) {
        let mut busy = self.0.lock();
        if !is_busy {
            busy.remove(tenant);
        } else if !busy.contains(tenant) {
            busy.insert(tenant.clone());
        }
    }
}

impl RedisStore {
    /// Whether one of these keys of a tenant may exist, for each tenant. Those that were busy are asked for in any case. Of the others one
    /// command asks for all: if a key of one exists, it may be any of them.
    pub(super) async fn may_have<const N: usize>(
        &self,
        doing: &'static str,
        tenants: &[&Name],
        busy: &Busy,
        keys: impl Fn(&Keys) -> [String; N],
    ) -> Result<Vec<bool>, StoreError> {
        // No command names keys of several servers.
        if self.link.is_cluster() {
            return Ok(vec![true; tenants.len()]);
        }
        let mut may_have: Vec<bool> = {
            let busy = busy.0.lock();
            tenants.iter().map(|tenant| busy.contains(*tenant)).collect()
        };
        let quiet: Vec<(&mut bool, &Name)> = may_have
            .iter_mut()
            .zip(tenants)
            .filter(|(is_busy, _)| !**is_busy)
            .map(|(one, name)| (one, *name))
            .collect();
        if quiet.is_empty() {
            return Ok(may_have);
        }
        let mut ask = pipe();
        for quiet in quiet.chunks(TENANTS) {
            ask.cmd("EXISTS");
            for (_, tenant) in quiet {
                ask.arg(&keys(&self.keys(tenant))[..]);
            }
        }
        let existing: Vec<u64> = self.link.query(doing, &ask).await?;
        for (position, (may_have, _)) in quiet.into_iter().enumerate() {
            *may_have = existing.get(position / TENANTS).is_none_or(|existing| *existing > 0);
        }
        Ok(may_have)
    }
}
