//! The names of all keys, of all servers, a bounded number in one step.

use redis::pipe;

use crate::StoreError;
use crate::redis::connection::link::Servers;
use crate::redis::connection::slots::Slot;
use crate::redis::partitions::RedisStore;

/// How many keys a server looks at in one step.
const KEYS: usize = 1000;

impl RedisStore {
    /// `None`: there is one server.
    pub(in crate::redis) async fn a_slot_of_each_server(
        &self,
        doing: &'static str,
    ) -> Result<Vec<Option<Slot>>, StoreError> {
        let Servers::Cluster(cluster) = &self.server.link.servers else { return Ok(vec![None]) };
        let map = cluster.map().await.map_err(|error| self.server.link.failed(doing, error))?;
        let of = |server: &_| map.ranges.iter().find(|range| std::sync::Arc::ptr_eq(&range.server, server));
        Ok(map.servers().into_iter().filter_map(|server| Some(Some(of(server)?.first))).collect())
    }

    /// The next keys of a server whose names fit a pattern, and where to go on; 0 at the end.
    pub(in crate::redis) async fn scan_names(
        &self,
        doing: &'static str,
        slot: Option<Slot>,
        cursor: u64,
        pattern: &str,
    ) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut ask = pipe();
        ask.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(KEYS);
        let (answer,) = self.server.link.query_at(doing, slot, &ask).await?;
        Ok(answer)
    }
}

/// Text that stands for itself in a pattern.
pub(in crate::redis) fn escaped(text: &str) -> String {
    let escape = |c: char| "*?[]\\^-".contains(c).then_some('\\').into_iter().chain([c]);
    text.chars().flat_map(escape).collect()
}
