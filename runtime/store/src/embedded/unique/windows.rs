//! Unique values that jobs which are over hold for some more time, moved to and from another store.

use std::time::Duration;

use rusqlite::params;

use crate::clock::wait_ms;
use crate::embedded::fault::Fault;
use crate::embedded::file::request::Weight;
use crate::embedded::row::{at, limit as limited, ms};
use crate::embedded::store::EmbeddedStore;
use crate::{StoreError, StoredWindow};
use gristmill_core::job::{Name, TopicId};

/// Values of a topic that are held for a time by jobs that are over.
const WINDOWS: &str = "SELECT value, holder, until FROM uniques
                       WHERE topic_number = (SELECT number FROM topics WHERE tenant = ?1 AND topic = ?2) AND until > ?3
                         AND NOT EXISTS (SELECT 1 FROM job_rows WHERE id = holder AND tenant = ?1)
                       LIMIT ?4";

/// Whether there are links.
const LINKS: &str = "SELECT 1 FROM links WHERE tenant = ?1 LIMIT 1";

impl EmbeddedStore {
    pub(in crate::embedded) async fn windows(
        &self,
        topic: &TopicId,
        limit: usize,
    ) -> Result<Vec<StoredWindow>, StoreError> {
        let topic = topic.clone();
        self.read_list("read unique values to be moved", move |connection, now| {
            let mut select = connection.prepare_cached(WINDOWS)?;
            let names = params![topic.tenant.as_str(), topic.topic.as_str(), ms(now), limited(limit)];
            let mut rows = select.query(names)?;
            let mut windows = Vec::new();
            while let Some(row) = rows.next()? {
                let (value, holder): (String, String) = (row.get(0)?, row.get(1)?);
                let unreadable = |_| Fault::Unreadable {
                    job: holder.clone(),
                    problem: "it holds a unique value, and its id is none".into(),
                };
                let holder = holder.parse().map_err(unreadable)?;
                windows.push(StoredWindow { value, holder, ttl: at(row.get(2)?).since(now) });
            }
            Ok(windows)
        })
        .await
    }

    pub(in crate::embedded) async fn any_links(&self, tenant: &Name) -> Result<bool, StoreError> {
        let tenant = tenant.clone();
        self.read("look for links", move |connection, _| {
            Ok(connection.prepare_cached(LINKS)?.exists([tenant.as_str()])?)
        })
        .await
    }

    pub(in crate::embedded) async fn add_windows(
        &self,
        topic: &TopicId,
        windows: &[StoredWindow],
    ) -> Result<(), StoreError> {
        let (topic, windows) = (topic.clone(), windows.to_vec());
        self.write("import unique values", Weight { jobs: windows.len(), bytes: 0 }, move |work| {
            let number = work.topics.find_or_add(work.connection, &topic)?;
            // It may be new, and have nothing else: its number stands for it in the file only if its row does.
            work.topics.change(number);
            for StoredWindow { value, holder, ttl } in &windows {
                if work.holder(number, value)?.is_none() {
                    let until = work.now().plus(Duration::from_millis(wait_ms(*ttl)));
                    work.hold(number, value, holder, Some(until))?;
                }
            }
            Ok(())
        })
        .await
    }

    pub(in crate::embedded) async fn drop_windows(
        &self,
        topic: &TopicId,
        windows: &[StoredWindow],
    ) -> Result<(), StoreError> {
        let (topic, windows) = (topic.clone(), windows.to_vec());
        self.write("remove exported unique values", Weight { jobs: windows.len(), bytes: 0 }, move |work| {
            let Some(number) = work.topics.find(work.connection, &topic)? else { return Ok(()) };
            windows.iter().try_for_each(|window| work.leave(number, &window.value, &window.holder))
        })
        .await
    }
}
