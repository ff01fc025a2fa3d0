//! How many bytes a tenant has in the file.

use async_trait::async_trait;
use rusqlite::Connection;

use crate::embedded::place::of_topic;
use crate::embedded::row::whole;
use crate::embedded::store::EmbeddedStore;
use crate::{StoreError, StoreSize, Usage};
use gristmill_core::job::Name;

/// Of jobs, unique values, results, states, and links, which stand in a table and in an index.
const BYTES: &str = concat!(
    "SELECT (SELECT coalesce(sum(
             coalesce(octet_length(body),
                      (SELECT octet_length(bodies.body) FROM bodies WHERE bodies.number = large), 0)
             + coalesce(octet_length(metadata), 0) + coalesce(octet_length(key), 0)
             + coalesce(octet_length(content_type), 0) + coalesce(octet_length(unique_value), 0)
             + coalesce(octet_length(failure), 0) + coalesce(octet_length(checkpoint), 0)
             + coalesce(octet_length(options), 0)), 0)
         FROM topics CROSS JOIN job_rows ON ",
    of_topic!("job_rows.number"),
    " WHERE topics.tenant = ?1)
      + (SELECT coalesce(sum(octet_length(value)), 0)
         FROM topics CROSS JOIN uniques ON topic_number = topics.number WHERE tenant = ?1)
      + (SELECT coalesce(sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(content_type), 0)
                             + coalesce(octet_length(failure), 0)), 0)
         FROM results WHERE tenant = ?1)
      + (SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) FROM states WHERE tenant = ?1)
      + (SELECT coalesce(sum(60 + 2 * (octet_length(waiter) + octet_length(job))), 0) FROM links WHERE tenant = ?1)"
);

/// How many bytes its disk has room for. `None`: it is in memory, or the system does not say.
pub(in crate::embedded) fn room_on_disk(connection: &Connection) -> Option<u64> {
    let disk = rustix::fs::statvfs(connection.path().filter(|path| !path.is_empty())?).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

#[async_trait]
impl Usage for EmbeddedStore {
    async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError> {
        let tenant = tenant.clone();
        let counted = self.read_list("count bytes", move |connection, _| {
            let mut count = connection.prepare_cached(BYTES)?;
            Ok(count.query_row([tenant.as_str()], |row| row.get::<_, i64>(0))?)
        });
        Ok(whole(counted.await?))
    }

    /// The pages of the file that are in use. It may grow for as long as its disk has room.
    async fn store_size(&self, _: &Name) -> Result<StoreSize, StoreError> {
        let looked = self.read("look at its size", |connection, _| {
            let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map(whole);
            let (pages, free, bytes) = (number("page_count")?, number("freelist_count")?, number("page_size")?);
            let capacity = room_on_disk(connection).map(|room| room + pages * bytes);
            Ok(StoreSize { used: pages.saturating_sub(free) * bytes, capacity })
        });
        looked.await
    }
}
