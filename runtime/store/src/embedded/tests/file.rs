//! A store in memory or in a file of its own.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use crate::Clock;
use crate::embedded::file::request::Weight;
use crate::embedded::{Durability, EmbeddedStore};
use crate::tests::{TestStore, still_clock};

pub(super) struct TestFile {
    inner: TestStore<EmbeddedStore>,
    folder: Option<TempDir>,
}

impl Deref for TestFile {
    type Target = TestStore<EmbeddedStore>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl TestFile {
    pub(super) async fn in_memory() -> Self {
        Self::with(EmbeddedStore::in_memory().await.unwrap(), None)
    }

    pub(super) async fn on_disk(durability: Durability) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&folder.path().join("jobs.db"), durability).await.unwrap();
        Self::with(store, Some(folder))
    }

    fn with(store: EmbeddedStore, folder: Option<TempDir>) -> Self {
        let (still, clock) = still_clock();
        Self { inner: TestStore { store: store.with_clock(still), clock }, folder }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.as_ref().expect("a store in a file").path().join("jobs.db")
    }

    /// Closes the store and opens its file again.
    pub(super) async fn reopen(self) -> Self {
        let Self { inner: TestStore { store, clock }, folder } = self;
        drop(store);
        let path = folder.as_ref().expect("a store in a file").path().join("jobs.db");
        let store = EmbeddedStore::open(&path, Durability::Process).await.unwrap();
        let store = store.with_clock(Clock::Manual(Arc::clone(&clock)));
        Self { inner: TestStore { store, clock }, folder }
    }

    /// Closes the store; its folder stays until what is returned is dropped.
    pub(super) fn close(self) -> Option<TempDir> {
        drop(self.inner);
        self.folder
    }

    /// Overwrites a page of the file under the open store, which finds out when it reads that page next. `page` asks for its
    /// number.
    pub(super) async fn with_page_changed(self, page: &'static str) -> Self {
        const PAGE: usize = 4096;
        let page = usize::try_from(self.number(page).await).unwrap();
        let path = self.file();
        let store = self.reopen().await;
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[(page - 1) * PAGE..page * PAGE].fill(0xff);
        store.store.health().while_moving(|| std::fs::write(&path, &bytes)).unwrap();
        store.raw("PRAGMA shrink_memory").await;
        store
    }

    /// Changes the file as an accident or a person does.
    pub(super) async fn raw(&self, sql: &'static str) {
        self.inner
            .store
            .write("test", Weight::default(), move |work| Ok(work.connection.execute_batch(sql)?))
            .await
            .unwrap();
    }

    /// Asks the file.
    pub(super) async fn number(&self, sql: &'static str) -> i64 {
        let ask =
            self.inner.store.read("test", move |connection, _| Ok(connection.query_row(sql, [], |row| row.get(0))?));
        ask.await.unwrap()
    }
}
