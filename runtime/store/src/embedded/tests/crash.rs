//! What a crash leaves behind: the file and its log, cut at any byte of any write.
//!
//! SQLite writes the log front to back, and only then the file. So what a crash can leave of a step is a log whose first
//! bytes are new and the rest old, beside the old file; or a file of which some is new, beside the new log. Whatever is
//! left must open as exactly the state before the step or the one after it: then every acknowledged step is there, each
//! step is there as a whole or not at all, and nothing is there that was never asked for.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use rusqlite::Connection;

use super::file::TestFile;
use super::invariants::{broken, content};
use crate::embedded::file::request::Weight;
use crate::embedded::work::Work;
use crate::embedded::{Durability, EmbeddedStore};
use crate::prelude::*;
use crate::tests::{bury, delayed, job, retry, tenant, topic, unique, with};
use crate::{DeadLimits, Settlement, StateFilter};
use gristmill_core::job::{Claim, JobId, NewJob, Payload, Priority};
use gristmill_core::outcome::Verdict;

const STEPS: usize = 128;

/// Of this many steps one is looked at in every place, the others in some.
const THOROUGH: usize = 16;

/// A page, and a frame of the log: a page and its header. The log begins with a header of its own.
const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;
const LOG_HEADER: usize = 32;

/// The bytes of a store at rest.
struct Image {
    file: Vec<u8>,
    log: Vec<u8>,
}

impl Image {
    fn of(file: &Path) -> Self {
        Self { file: fs::read(file).unwrap(), log: fs::read(log(file)).unwrap_or_default() }
    }

    fn write(&self, file: &Path) {
        for leftover in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(file, leftover));
        }
        fs::write(file, &self.file).unwrap();
        fs::write(log(file), &self.log).unwrap();
    }
}

fn beside(file: &Path, suffix: &str) -> std::path::PathBuf {
    format!("{}{suffix}", file.display()).into()
}

fn log(file: &Path) -> std::path::PathBuf {
    beside(file, "-wal")
}

/// The first `cut` bytes are written, the rest is not.
fn torn(old: &[u8], new: &[u8], cut: usize) -> Vec<u8> {
    let cut = cut.min(new.len());
    let mut torn = new[..cut].to_vec();
    torn.extend(old.get(cut..).unwrap_or_default());
    torn
}

/// Where to cut: around every end of a unit that differs, and at bytes in between.
fn cuts(old: &[u8], new: &[u8], first: usize, unit: usize, rng: &mut Rng) -> Vec<usize> {
    if old == new {
        return Vec::new();
    }
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let end = if old.len() == new.len() {
        new.len() - old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count()
    } else {
        new.len()
    };
    let ends = (first..=new.len()).step_by(unit).filter(|cut| (same..=end + unit).contains(cut));
    let around = ends.flat_map(|cut| [cut.saturating_sub(1), cut, cut + 1]);
    let mut cuts: Vec<usize> = around.chain((0..4).map(|_| rng.usize(same..=end))).collect();
    cuts.retain(|cut| *cut <= new.len());
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// A load that makes every transition, by chance but the same each time.
struct Load {
    rng: Rng,
    claims: Vec<Claim>,
    known: Vec<JobId>,
}

impl Load {
    fn fresh(&mut self) -> NewJob {
        let of = ["mail", "audit"][self.rng.usize(..2)];
        let job = match self.rng.u8(..8) {
            0 => delayed(of, self.rng.u64(1..50)),
            1 => unique(of, ["u", "v"][self.rng.usize(..2)], None),
            2 => unique(of, ["u", "v"][self.rng.usize(..2)], Some(self.rng.u64(1..50))),
            3 => with(of, |spec| spec.options.priority = Priority::High),
            4 => with(of, |spec| spec.options.keep_result = Some(Duration::from_millis(40))),
            5 => with(of, |spec| spec.body = Payload { data: vec![7; 9000], content_type: None }),
            _ => job(of),
        };
        self.known.push(job.spec.id.clone());
        job
    }

    fn verdict(&mut self) -> Verdict {
        let wait = Duration::from_millis(self.rng.u64(..20));
        match self.rng.u8(..8) {
            0 => retry(self.rng.u64(..20)),
            1 => Verdict::Snooze(wait),
            2 => Verdict::Release(wait),
            3 | 4 => bury(),
            5 => Verdict::Expire,
            _ => Verdict::Ack(Some(Payload { data: vec![1; 64], content_type: None })),
        }
    }

    /// One step, which is one commit or none.
    async fn step(&mut self, store: &TestFile) {
        store.pass(self.rng.u64(..10));
        let of = ["mail", "audit"][self.rng.usize(..2)];
        let some: Vec<JobId> = (0..3).map(|_| self.known[self.rng.usize(..self.known.len())].clone()).collect();
        match self.rng.u8(..17) {
            0..=3 => {
                let jobs: Vec<NewJob> = (0..self.rng.usize(1..6)).map(|_| self.fresh()).collect();
                store.push(&jobs).await;
            }
            4..=6 => {
                let max = self.rng.usize(1..8);
                self.claims.extend(store.claim_as(&crate::tests::worker(), of, max).await.claims);
            }
            7..=9 => self.settle(store).await,
            10 => {
                store.migrate().await;
            }
            11 => drop(store.store.respawn(&topic(of), &self.dead(store, of).await).await.unwrap()),
            12 => drop(store.store.cancel(&tenant(), &some).await.unwrap()),
            13 => {
                let limits =
                    DeadLimits { topic: topic(of), keep: 3, retention: Duration::from_millis(self.rng.u64(50..200)) };
                // Without what a sweep does besides, which is a commit of its own.
                let sweep = move |work: &mut Work<'_>| work.sweep_dead(&limits);
                store.store.write("sweep", Weight::default(), sweep).await.unwrap();
            }
            14 => {
                if let Some(claim) = self.claims.first() {
                    store.store.checkpoint(&claim.lease, &[3; 500]).await.unwrap();
                }
            }
            15 => {
                store.store.sweep(&[]).await.unwrap();
            }
            _ => {
                store.store.set_paused(&topic(of), self.rng.bool()).await.unwrap();
            }
        }
    }

    async fn settle(&mut self, store: &TestFile) {
        let ends: Vec<Claim> = self.claims.drain(..self.claims.len().min(4)).collect();
        let mut settlements = Vec::new();
        for claim in &ends {
            let verdict = self.verdict();
            let follow_ups = (0..self.rng.usize(..3)).map(|_| self.fresh()).collect();
            settlements.push(Settlement { follow_ups, ..Settlement::of(claim, verdict, Duration::ZERO) });
        }
        store.store.settle(&settlements).await.unwrap();
    }

    async fn dead(&self, store: &TestFile, of: &str) -> Vec<JobId> {
        let dead = store.store.jobs(&topic(of), StateFilter::Dead, None, 2).await.unwrap();
        dead.jobs.into_iter().map(|dead| dead.id).collect()
    }
}

/// Looks at what is in the files that a crash left.
fn recovered(image: &Image, at: &Path) -> String {
    image.write(at);
    let connection = Connection::open(at).unwrap();
    // The copy need not outlive anything.
    connection.pragma_update(None, "synchronous", "off").unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    content(&connection)
}

async fn now(store: &TestFile) -> String {
    let (broken, content) =
        store.store.read("test", |connection, _| Ok((broken(connection), content(connection)))).await.unwrap();
    assert_eq!(broken, None);
    content
}

#[tokio::test]
async fn whatever_a_crash_leaves_is_the_state_before_the_step_or_after_it() {
    let store = TestFile::on_disk(Durability::Power).await;
    // Many small checkpoints instead of few large ones.
    store.raw("PRAGMA wal_autocheckpoint = 50").await;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("copy.db");
    let mut load = Load { rng: Rng::with_seed(3), claims: Vec::new(), known: Vec::new() };
    let first = load.fresh();
    store.push(&[first]).await;

    let (mut image, mut before) = (Image::of(&store.file()), now(&store).await);
    let (mut looked, mut checkpoints) = (0, 0);
    for step in 0..STEPS {
        load.step(&store).await;
        let (next, after) = (Image::of(&store.file()), now(&store).await);
        let share = if step % THOROUGH == 0 { 1.0 } else { 0.05 };
        for cut in cuts(&image.log, &next.log, LOG_HEADER, FRAME, &mut load.rng) {
            if load.rng.f64() <= share {
                let torn = Image { file: image.file.clone(), log: torn(&image.log, &next.log, cut) };
                let seen = recovered(&torn, &at);
                assert!(seen == before || seen == after, "step {step}, log cut at {cut}: {seen}");
                looked += 1;
            }
        }
        if image.file != next.file {
            checkpoints += 1;
            for cut in cuts(&image.file, &next.file, 0, PAGE, &mut load.rng) {
                if load.rng.f64() <= share.max(0.2) {
                    let torn = Image { file: torn(&image.file, &next.file, cut), log: next.log.clone() };
                    assert_eq!(recovered(&torn, &at), after, "step {step}, file cut at {cut}");
                    looked += 1;
                }
            }
        }
        (image, before) = (next, after);
    }
    assert!(looked > 250 && checkpoints > 1, "{looked} crashes, {checkpoints} checkpoints");
}

#[tokio::test]
async fn what_a_crash_leaves_is_a_store_that_goes_on() {
    let store = TestFile::on_disk(Durability::Power).await;
    let mut load = Load { rng: Rng::with_seed(4), claims: Vec::new(), known: Vec::new() };
    let first = load.fresh();
    store.push(&[first]).await;
    for step in 0..60 {
        load.step(&store).await;
        if step % 10 != 0 {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("copy.db");
        let image = Image::of(&store.file());
        let torn = Image { log: image.log[..image.log.len() - 1].to_vec(), ..image };
        torn.write(&at);
        let copy = EmbeddedStore::open(&at, Durability::Process).await.unwrap();
        let fresh = job("fresh");
        copy.push(std::slice::from_ref(&fresh)).await.unwrap();
        let line = crate::ClaimFrom::new(topic("fresh"), 1, Duration::from_secs(1));
        let claim = copy.claim(&crate::tests::worker(), &[line]).await.unwrap().claims.pop().unwrap();
        copy.settle(&[Settlement::new(claim.lease, Verdict::Ack(None))]).await.unwrap();
        drop(copy);
        assert_eq!(broken(&Connection::open(&at).unwrap()), None);
    }
}
