//! The file of the embedded store, cut off at every write.
//!
//! The store appends every change to its log. A crash leaves a beginning of it, so beginnings are opened as stores of their own. Of a
//! transaction only the last page matters: without it whole, SQLite forgets the pages before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_store::embedded::{Durability, EmbeddedStore};
use gristmill_store::{Clock, ManualClock};
use tempfile::TempDir;

use super::scenario::World;

/// As the clock of the conformance suite.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// What stands in front of SQLite's log, and of each page in it.
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

fn log_of(file: &Path) -> PathBuf {
    file.with_file_name("jobs.db-wal")
}

async fn world(file: &Path, clock: Arc<ManualClock>) -> World {
    let store = EmbeddedStore::open(file, Durability::Process).await.unwrap();
    World::new(Arc::new(store.with_clock(Clock::Manual(Arc::clone(&clock)))), clock)
}

/// The bytes of a page, as the file's header says.
fn page(file: &[u8]) -> u64 {
    u64::from(u16::from_be_bytes([file[16], file[17]]))
}

#[tokio::test]
async fn a_file_cut_off_at_any_write_loses_nothing_and_repeats_nothing() {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let path = folder.path().join("jobs.db");
    let mut whole = world(&path, Arc::new(ManualClock::new(BEGIN_MS))).await;
    whole.log = Some(log_of(&path));
    let first = fs::metadata(log_of(&path)).unwrap().len();
    whole.play().await;
    let (file, log) = (fs::read(&path).unwrap(), fs::read(log_of(&path)).unwrap());
    let now = whole.clock.now().as_millis();
    let frame = FRAME_HEADER + page(&file);
    assert_eq!((log.len() as u64 - LOG_HEADER) % frame, 0, "the log consists of whole pages");
    let first = first.max(LOG_HEADER);
    // The last page of a transaction says how large the file is then.
    let is_last = |at: &u64| log[*at as usize + 4..][..4] != [0; 4];
    let last_pages = (first..log.len() as u64).step_by(frame as usize).filter(is_last);
    let cuts: Vec<u64> = last_pages.flat_map(|at| [at + frame / 2, at + frame]).collect();
    for cut in &cuts {
        let folder = TempDir::with_prefix("gristmill-").unwrap();
        let path = folder.path().join("jobs.db");
        fs::write(&path, &file).unwrap();
        fs::write(log_of(&path), &log[..*cut as usize]).unwrap();
        let mut world = world(&path, Arc::new(ManualClock::new(now))).await;
        world.acknowledged = whole.acknowledged.clone();
        world.assert_all_end_once(*cut).await;
    }
    println!(
        "| cuts of the log of a file | {} beginnings of {} bytes | 0 lost, 0 repeated | yes |",
        cuts.len(),
        log.len()
    );
}
