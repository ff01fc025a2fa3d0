//! Opening a file, or refusing to.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use gristmill_test_servers::wait::{SOON, until};
use rusqlite::Connection;

use super::file::TestFile;
use crate::embedded::{Durability, EmbeddedStore, Owner, owner};
use crate::prelude::*;
use crate::tests::job;
use crate::{JobState, ServerName, StoreError};
use gristmill_core::job::{Due, NewJob};
use gristmill_core::time::Timestamp;

async fn open(path: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(path, Durability::Process).await
}

/// The error with its causes.
async fn refusal(path: &Path) -> String {
    let error = open(path).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    format!("{:#}", anyhow::Error::from(error))
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[tokio::test]
async fn what_waits_in_a_file_of_a_clock_that_was_an_hour_ahead_waits_no_longer_once_that_is_right() {
    const HOUR: u64 = 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    // By this host's clock, from which the step is known.
    let store = open(&file).await.unwrap();
    let named = Timestamp::from_millis(Timestamp::now().as_millis() + HOUR / 2);
    let (minute, at) = (Due::After(Duration::from_secs(60)), Due::At(named));
    let jobs = [minute, at].map(|due| NewJob { due, ..job("mail") });
    store.push(&jobs).await.unwrap();
    drop(store);
    until("the file to have no owner", SOON, async || owner(&file).unwrap().is_none().then_some(())).await;
    // As if the clock had been ahead when they were pushed.
    let written = "UPDATE job_rows SET enqueued_at = enqueued_at + ?1, delayed_until = delayed_until + ?1, due_at = due_at + ?1 WHERE fixed = 0";
    let past = Connection::open(&file).unwrap();
    past.execute(written, [HOUR as i64]).unwrap();
    past.execute("UPDATE topics SET changed_at = changed_at + ?1, next_due = NULL", [HOUR as i64]).unwrap();
    drop(past);

    let store = open(&file).await.unwrap();
    store.heartbeat(&crate::tests::worker()).await.unwrap();
    let mut until_ms = Vec::new();
    for job in &jobs {
        let view = store.job(&job.spec.topic.tenant, &job.spec.id).await.unwrap().unwrap();
        let JobState::Delayed { until } = view.state else { panic!("{:?}", view.state) };
        until_ms.push(until);
    }
    assert!(until_ms[0] <= Timestamp::now().plus(Duration::from_secs(61)), "{until_ms:?}");
    assert_eq!(until_ms[1], named);
    drop((store, folder));
}

#[tokio::test]
async fn a_file_has_one_owner_until_its_last_clone_is_gone() {
    let store = TestFile::on_disk(Durability::Process).await;
    let file = store.file();
    let server = ServerName { store: store.store.store_id().await.unwrap(), instance: "i".into() };
    let ours = |http: Option<std::net::SocketAddr>| {
        let server = http.map(|_| server.clone());
        Some(Owner { pid: std::process::id(), http, secret: http.map(|_| "hush".to_owned().into()), server })
    };
    assert_eq!(owner(&file).unwrap(), ours(None));
    let http = "127.0.0.1:7777".parse().unwrap();
    store.store.announce(http, "hush", &server).unwrap();
    let note = std::fs::metadata(file.with_file_name("jobs.db.owner")).unwrap();
    assert_eq!(note.permissions().mode() & 0o777, 0o600, "no other user reads the secret");
    assert_eq!(owner(&file).unwrap(), ours(Some(http)));

    let link = file.with_file_name("link.db");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for name in [&file, &link] {
        let refused = open(name).await.unwrap_err();
        assert!(matches!(refused, StoreError::Owned { owner, .. } if owner == std::process::id()), "{refused:?}");
    }
    let clone = store.store.clone();
    let folder = store.close();
    assert!(owner(&file).unwrap().is_some());
    drop(clone);
    // What it wrote down is stale now: at once, unless another test begins a process at this moment, which has all files of this one.
    until("the file to have no owner", SOON, async || owner(&file).unwrap().is_none().then_some(())).await;
    let again = open(&file).await.unwrap();
    assert_eq!(owner(&file).unwrap(), ours(None), "and is not believed of the next owner");
    drop(again);
    assert_eq!(owner(Path::new("/no/such/file.db")).unwrap(), None);
    drop(folder);
}

#[tokio::test]
async fn a_file_has_one_owner_though_its_owner_file_is_deleted() {
    let store = TestFile::on_disk(Durability::Process).await;
    let file = store.file();
    std::fs::remove_file(file.with_file_name("jobs.db.owner")).unwrap();
    assert_says(&refusal(&file).await, &["jobs.db", "another process has it open", ".owner", "end that process"]);
    store.push(&[job("mail")]).await;
    let folder = store.close();
    drop(open(&file).await.unwrap());
    drop(folder);
}

#[tokio::test]
async fn a_file_with_several_names_is_refused() {
    let store = TestFile::on_disk(Durability::Process).await;
    let (file, link) = (store.file(), store.file().with_file_name("link.db"));
    std::fs::hard_link(&file, &link).unwrap();
    for name in [&file, &link] {
        assert_says(&refusal(name).await, &["2 names", "hard links"]);
    }
    std::fs::remove_file(&link).unwrap();
    let folder = store.close();
    drop(open(&file).await.unwrap());
    drop(folder);
}

#[tokio::test]
async fn a_file_of_another_program_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    let notes = "not a database, but long enough to be asked ".repeat(100);
    std::fs::write(&text, &notes).unwrap();
    assert_says(&refusal(&text).await, &["notes.txt", "name another file"]);
    assert_eq!(std::fs::read_to_string(&text).unwrap(), notes);

    let foreign = folder.path().join("theirs.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let bytes = std::fs::read(&foreign).unwrap();
    assert_says(&refusal(&foreign).await, &["theirs.db", "another application"]);
    assert_eq!(std::fs::read(&foreign).unwrap(), bytes);
    assert!(!folder.path().join("theirs.db-wal").exists());
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let store = TestFile::on_disk(Durability::Process).await;
    let file = store.file();
    store.raw("PRAGMA user_version = 99").await;
    let closed = store.close();
    assert_says(&refusal(&file).await, &["jobs.db", "format 99", "later version"]);
    drop(closed);
}

#[tokio::test]
async fn a_file_from_before_the_first_release_is_refused() {
    let store = TestFile::on_disk(Durability::Process).await;
    let file = store.file();
    store.raw("PRAGMA user_version = 4").await;
    let closed = store.close();
    assert_says(&refusal(&file).await, &["jobs.db", "format 4", "in no release", "name another file"]);
    drop(closed);
}

#[tokio::test]
async fn a_damaged_file_is_refused_with_a_way_out_and_left_as_it_is() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&(0..500).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let file = store.file();
    let closed = store.close();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xa5);
    std::fs::write(&file, &bytes).unwrap();
    assert_says(&refusal(&file).await, &["jobs.db", "damaged", "restore a backup"]);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    drop(closed);
}

#[tokio::test]
async fn a_place_where_no_file_can_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_says(&refusal(&folder.path().join("missing/jobs.db")).await, &["missing/jobs.db", "folder is missing"]);
    assert_says(&refusal(folder.path()).await, &["it is a folder"]);
    // Where no user may make a file, not even root.
    assert_says(&refusal(Path::new("/sys/kernel/jobs.db")).await, &["/sys/kernel/jobs.db", "writable"]);
}

#[tokio::test]
async fn a_link_to_a_file_that_is_not_there_yet_is_no_second_owner() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("jobs.db"), folder.path().join("link.db"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let _first = open(&link).await.unwrap();
    for name in [&file, &link] {
        let refused = open(name).await.unwrap_err();
        assert!(matches!(refused, StoreError::Owned { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn an_empty_file_is_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    std::fs::write(&path, "").unwrap();
    let store = open(&path).await.unwrap();
    drop(store);
    let format = |pragma| {
        let connection = Connection::open(&path).unwrap();
        connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((format("user_version"), format("application_id")), (27, 0x476d_696c));
}

#[tokio::test]
async fn the_next_owner_need_not_wait_for_the_silence_of_the_last_ones_workers() {
    let store = TestFile::on_disk(Durability::Process).await;
    let running = store.running().await;
    store.store.heartbeat(&running.lease.worker).await.unwrap();
    let store = store.reopen().await;
    let tenants = [running.lease.topic.tenant.clone()];
    let overdue = async || store.store.overdue(&tenants, Duration::from_secs(7), 10).await.unwrap().jobs;
    assert!(overdue().await.is_empty(), "it may have been opened just to look");
    store.store.presume_workers_dead().await.unwrap();
    let found = overdue().await;
    assert_eq!((found.len(), found[0].worker_died), (1, true));
    assert_eq!(found[0].claim.lease, running.lease);
}

#[tokio::test]
async fn the_files_of_a_store_are_private() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = EmbeddedStore::open(&path, Durability::Process).await.unwrap();
    store.tenants().await.unwrap();
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
    assert!(files.iter().any(|file| file.file_name() == "jobs.db-wal"), "{files:?}");
    for file in files {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn root_is_warned_that_a_service_cannot_open_the_file_it_made() {
    use crate::embedded::file::open::made_by_root;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    drop(EmbeddedStore::open(&path, Durability::Process).await.unwrap());
    assert_eq!(made_by_root(&path), None);
    // Only root may do this.
    let given = std::os::unix::fs::chown(folder.path(), Some(12345), None).is_ok();
    let warning = made_by_root(&path);
    assert_eq!(warning.as_ref().is_some_and(|warning| warning.contains("(id 12345)")), given, "{warning:?}");
}

/// Between its start and its program, a child has the files of its parent open, and with them their locks.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_are_started_meanwhile_do_not_keep_a_file_from_its_next_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    // A child closes its files in their order: here, the two with locks long after each other.
    let mut others: Vec<_> = (0..500).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    others.remove(0);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let starting = [(); 2].map(|()| {
        let stop = std::sync::Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        })
    });
    for _ in 0..300 {
        match open(&path).await {
            // The first of the two is held by such a child for longer than an owner is waited for: it is named as what it is.
            Err(StoreError::Owned { .. }) => {}
            opened => drop(opened.unwrap()),
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    starting.into_iter().for_each(|thread| thread.join().unwrap());
}
