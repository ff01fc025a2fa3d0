//! Whether the store takes jobs, by what a push uses; leaves nothing behind.

use async_trait::async_trait;

use super::usage::room_on_disk;
use crate::embedded::fault::Fault;
use crate::embedded::file::request::Weight;
use crate::embedded::store::EmbeddedStore;
use crate::{Probe, StoreError};

/// The pragma with the number of the file's format.
const FORMAT: &str = "user_version";

/// A disk with less room than this is full: a commit of some jobs may not fit any more.
const LITTLE_ROOM: u64 = 1 << 20;

#[async_trait]
impl Probe for EmbeddedStore {
    /// Writes the number of the format once more: a page of the log, and one wait for the disk. A file of which anything was found damaged takes no
    /// jobs as far as this says, until it was replaced; and so does one whose disk is all but full.
    async fn probe(&self) -> Result<(), StoreError> {
        self.write("push jobs", Weight::default(), |work| {
            let format = work.connection.pragma_query_value(None, FORMAT, |row| row.get::<_, i64>(0))?;
            Ok(work.connection.pragma_update(None, FORMAT, format)?)
        })
        .await?;
        // What the log has room for yet is written, but tenants are refused by then: they may have half of the room that there is.
        let room = self.read("look at its disk", |connection, _| Ok(room_on_disk(connection))).await?;
        let full = room
            .filter(|room| *room < LITTLE_ROOM)
            .map(|room| format!("make room on its disk, which has {room} bytes left"));
        let damaged = self.health().damage().map(|damage| format!("the file is damaged: {damage}"));
        full.or(damaged).map_or(Ok(()), |problem| Err(self.error(Fault::Gone(problem), "push jobs")))
    }
}
