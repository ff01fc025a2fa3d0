//! About how many bytes a tenant has in Redis.

use std::collections::BTreeSet;

use redis::pipe;

use crate::redis::connection::slots::{Slot, slot_of_key};
use crate::redis::key_names::Keys;
use crate::redis::store::Partition;
use crate::{StoreError, StoreSize};
use gristmill_core::job::Name;

const DOING: &str = "count bytes";

/// How many entries of a key Redis looks at, to estimate the size of the others.
const SAMPLES: usize = 1000;

/// How many keys of all tenants are looked at, to estimate the size of the results and states of one: each has a key of its own.
const KEYS: usize = 20_000;

impl Partition {
    pub(crate) async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.topics()).arg(0).arg(-1).cmd("SMEMBERS").arg(keys.perishable());
        // A topic that was forgotten may have unique values that are held for a time.
        let (used, perishable): (Vec<String>, Vec<String>) = self.link.query(DOING, &ask).await?;
        let topics: BTreeSet<Name> = used.iter().chain(&perishable).filter_map(|name| name.parse().ok()).collect();
        let sized = [keys.jobs(), keys.failures(), keys.checkpoints(), keys.keyed(), keys.slots(), keys.behind()];
        let sized = sized.into_iter().chain(topics.iter().map(|topic| keys.unique(topic)));
        Ok(self.sizes(sized).await? + self.size_of_single_keys(&keys, self.slot(tenant)).await?)
    }

    /// Says nothing if the user may not run `INFO`, or the server is unavailable: then the caller's next call fails.
    pub(crate) async fn store_size(&self, tenant: &Name) -> Result<StoreSize, StoreError> {
        let info =
            self.link.query_at::<(String,)>(DOING, Some(self.slot(tenant)), pipe().cmd("INFO").arg("memory")).await;
        Ok(info.map(|(info,)| store_size(&info)).unwrap_or_default())
    }
}

impl Partition {
    fn slot(&self, tenant: &Name) -> Slot {
        slot_of_key(self.keys(tenant).jobs().as_bytes())
    }

    async fn sizes(&self, keys: impl IntoIterator<Item = String>) -> Result<u64, StoreError> {
        let mut ask = pipe();
        for key in keys {
            ask.cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(SAMPLES);
        }
        if ask.is_empty() {
            return Ok(0);
        }
        let sizes: Vec<Option<u64>> = self.link.query(DOING, &ask).await?;
        Ok(sizes.into_iter().flatten().sum())
    }

    /// Redis keeps keys in the order of their hashes, so the first ones are like the others.
    async fn size_of_single_keys(&self, keys: &Keys, slot: Slot) -> Result<u64, StoreError> {
        let (mut cursor, mut seen, mut ours) = (0, 0, Vec::new());
        let prefixes = [keys.results(), keys.states()];
        let all = loop {
            let mut ask = pipe();
            ask.cmd("DBSIZE").cmd("SCAN").arg(cursor).arg("COUNT").arg(SAMPLES);
            let (all, (next, found)): (u64, (u64, Vec<String>)) = self.link.query_at(DOING, Some(slot), &ask).await?;
            seen += found.len();
            ours.extend(found.into_iter().filter(|key| prefixes.iter().any(|prefix| key.starts_with(prefix))));
            cursor = next;
            if cursor == 0 || seen >= KEYS {
                break if cursor == 0 { seen as u64 } else { all };
            }
        };
        let bytes = u128::from(self.sizes(ours).await?) * u128::from(all) / seen.max(1) as u128;
        Ok(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// Reads the section `memory` of `INFO`. Without `maxmemory` the machine's memory is what there is.
fn store_size(info: &str) -> StoreSize {
    let number =
        |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')?.parse().ok());
    let capacity = [number("maxmemory"), number("total_system_memory")].into_iter().flatten().find(|bytes| *bytes > 0);
    StoreSize { used: number("used_memory").unwrap_or_default(), capacity }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_maxmemory_the_memory_of_the_machine_bounds_redis() {
        let size = |maxmemory: u64| {
            store_size(&format!(
                "# Memory\r\nused_memory:100\r\nused_memory_human:100B\r\ntotal_system_memory:5000\r\nmaxmemory:{maxmemory}\r\n"
            ))
        };
        assert_eq!(size(3000), StoreSize { used: 100, capacity: Some(3000) });
        assert_eq!(size(0), StoreSize { used: 100, capacity: Some(5000) });
        assert_eq!(store_size(""), StoreSize::default());
    }
}
