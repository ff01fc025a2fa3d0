//! The file is removed under the open store, or becomes another one.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use gristmill_test_servers::wait::{SOON, until};
use rusqlite::Connection;

use super::file::TestFile;
use crate::embedded::{Durability, EmbeddedStore};
use crate::prelude::*;
use crate::tests::job;

/// What happens to the file, given its path and that of a copy of an older state.
type Accident = fn(&Path, &Path);

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn write_over(file: &Path, backup: &Path) {
    assert!(std::fs::copy(backup, file).unwrap() > 0);
}

/// Cuts the log to one part in `part`.
fn cut_log(file: &Path, part: u64) {
    let log = std::fs::File::options().write(true).open(beside(file, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() / part).unwrap();
}

/// Waits until the store says why it takes no jobs; and how many it took before.
async fn refusal(store: &EmbeddedStore) -> (String, u64) {
    let mut taken = 0;
    let refused = async || match store.push(&[job("mail")]).await {
        Ok(_) => {
            taken += 1;
            None
        }
        Err(error) => Some(error),
    };
    let error = until("the store to refuse", SOON, refused).await;
    assert!(error.is_unavailable(), "{error:?}");
    assert!(store.probe().await.unwrap_err().is_unavailable(), "it is not ready either");
    (format!("{:#}", anyhow::Error::from(error)), taken)
}

#[tokio::test]
async fn a_file_that_goes_away_takes_no_jobs_any_more() {
    let accidents: [(Accident, &str); 7] = [
        (|file, _| std::fs::remove_file(file).unwrap(), "is gone"),
        (|file, _| std::fs::rename(file, beside(file, ".aside")).unwrap(), "is gone"),
        (|file, backup| std::fs::rename(backup, file).unwrap(), "another file"),
        (write_over, "written over"),
        (|file, _| std::fs::remove_file(beside(file, "-wal")).unwrap(), "write-ahead log"),
        (|file, _| cut_log(file, 2), "was cut"),
        (|file, _| cut_log(file, u64::MAX), "was cut"),
    ];
    for (accident, said) in accidents {
        let store = TestFile::on_disk(Durability::Process).await;
        store.push(&[job("mail")]).await;
        let (file, backup) = (store.file(), store.file().with_file_name("backup.db"));
        Connection::open(&file).unwrap().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
        store.push(&(0..20).map(|_| job("mail")).collect::<Vec<_>>()).await;
        // As health checks do all the time.
        store.store.probe().await.unwrap();
        accident(&file, &backup);
        let (refusal, _) = refusal(&store.store).await;
        assert!(refusal.contains(said), "{said}: {refusal}");
    }
}

#[tokio::test]
async fn a_file_that_is_back_takes_jobs_again() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("mail")]).await;
    let (file, aside) = (store.file(), store.file().with_file_name("aside.db"));
    std::fs::rename(&file, &aside).unwrap();
    let (_, taken) = refusal(&store.store).await;
    std::fs::rename(&aside, &file).unwrap();
    until("the store to go on", SOON, async || store.store.push(&[job("mail")]).await.ok()).await;
    let store = store.reopen().await;
    assert_eq!(store.counts("mail").await.ready, taken + 2, "what was acknowledged is there");
}

#[tokio::test]
async fn a_folder_that_is_swapped_by_its_link_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other, current) = (folder.path().join("1"), folder.path().join("2"), folder.path().join("current"));
    for release in [&one, &other] {
        std::fs::create_dir(release).unwrap();
    }
    symlink(&one, &current).unwrap();
    let file = current.join("jobs.db");
    let store = EmbeddedStore::open(&file, Durability::Process).await.unwrap();
    store.push(&[job("mail")]).await.unwrap();
    let next = folder.path().join("next");
    symlink(&other, &next).unwrap();
    std::fs::rename(&next, &current).unwrap();
    assert!(refusal(&store).await.0.contains("is gone"));
    drop(EmbeddedStore::open(&file, Durability::Process).await.unwrap());
    // It is not looked at before each commit.
    until("the other file to be noticed", SOON, async || {
        refusal(&store).await.0.contains("another file").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_backup_that_took_the_place_of_the_file_is_sound_afterwards() {
    let replace: [Accident; 2] = [|file, backup| std::fs::rename(backup, file).unwrap(), write_over];
    for replace in replace {
        let store = TestFile::on_disk(Durability::Process).await;
        store.push(&[job("mail")]).await;
        let (file, backup) = (store.file(), store.file().with_file_name("backup.db"));
        Connection::open(&file).unwrap().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
        store.push(&(0..500).map(|_| job("mail")).collect::<Vec<_>>()).await;
        store.store.probe().await.unwrap();
        replace(&file, &backup);
        refusal(&store.store).await;
        let store = store.reopen().await;
        assert_eq!(store.counts("mail").await.ready, 1, "the state of the backup");
        assert!(store.store.fsck().await.unwrap().findings.is_empty());
    }
}

#[tokio::test]
async fn a_file_whose_log_was_cut_is_sound_afterwards() {
    for part in [2, u64::MAX] {
        let store = TestFile::on_disk(Durability::Process).await;
        store.push(&(0..500).map(|_| job("mail")).collect::<Vec<_>>()).await;
        cut_log(&store.file(), part);
        refusal(&store.store).await;
        let store = store.reopen().await;
        assert!(store.store.fsck().await.unwrap().findings.is_empty());
    }
}

#[tokio::test]
async fn a_program_that_only_moves_the_log_into_the_file_does_no_harm() {
    let store = TestFile::on_disk(Durability::Process).await;
    let health = store.store.health();
    for mode in ["PASSIVE", "RESTART", "TRUNCATE"] {
        store.push(&(0..50).map(|_| job("mail")).collect::<Vec<_>>()).await;
        health.refresh();
        let other = Connection::open(store.file()).unwrap();
        other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        health.refresh();
        assert!(health.refusal().is_none());
    }
    store.push(&[job("mail")]).await;
}

#[tokio::test]
async fn damage_that_was_met_makes_the_store_not_ready() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&(0..200).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'installation'";
    store.store.probe().await.unwrap();
    let store = store.with_page_changed(page).await;
    assert!(store.store.store_id().await.is_err());
    let error = store.store.probe().await.unwrap_err();
    assert!(format!("{:#}", anyhow::Error::from(error)).contains("is damaged"));
}
