//! The journal alone: what a line has, and what happens to lines when files and disks do not behave.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::line_file::{Gap, LineKind, Queue, RotatedFile, write_line, write_lines};
use super::super::record::{AttemptRecord, Run};
use super::*;
use gristmill_config::LineFileSettings;
use gristmill_core::job::{Claim, Job, JobSpec, Lease, Payload, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, OutcomeKind, Reason, Settled, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_sandbox::Version;

fn settings(folder: &TempDir) -> LineFileSettings {
    LineFileSettings::at(folder.path().join("journal.jsonl"))
}

fn file(settings: &LineFileSettings) -> RotatedFile {
    RotatedFile::open(settings, AttemptLine::FILE, AttemptLine::MODE).unwrap()
}

fn worker() -> WorkerId {
    WorkerId::new("mill-1")
}

/// An attempt that was acked, at a job of this name.
pub(crate) fn record(job: &str) -> AttemptRecord {
    let topic: TopicId = "acme/resize".parse().unwrap();
    let body = Payload { data: vec![0; 200], content_type: None };
    let spec = JobSpec { id: job.parse().unwrap(), ..JobSpec::new(topic.clone(), body) };
    let [enqueued_at, due_at, claimed_at] = [1_000, 2_000, 2_001].map(Timestamp::from_millis);
    let claim = Claim {
        lease: Lease { job: spec.id.clone(), topic, worker: worker(), delivery: 1, batch: None },
        job: Arc::new(Job { spec, enqueued_at, due_at }),
        attempt: 1,
        claimed_at,
        lease_until: claimed_at,
        previous: None,
        checkpoint: None,
    };
    let run = Run {
        version: Some(Version([0xa5; 32])),
        started: Instant::now(),
        ran: true,
        queued: Duration::from_micros(150),
        waited: Duration::ZERO,
        duration: Duration::from_micros(1_234),
        fuel: 12_345,
        memory_peak: 131_072,
        requests: 3,
        follow_ups: 2,
        trace: None,
        follow_up_bytes: 30,
    };
    let result = Payload { data: vec![0; 7], content_type: None };
    let (outcome, verdict) = (OutcomeKind::Complete, Verdict::Ack(Some(result)));
    AttemptRecord { claim: Arc::new(claim), run: Some(run), outcome, verdict, settled: Some(Settled::Done) }
}

/// The record of an attempt whose worker was lost.
fn lost(worker: &str) -> AttemptRecord {
    let mut lost = AttemptRecord { run: None, outcome: OutcomeKind::WorkerDied, ..record("j") };
    Arc::make_mut(&mut lost.claim).lease.worker = WorkerId::new(worker);
    lost
}

fn records(numbers: std::ops::Range<usize>) -> Vec<AttemptRecord> {
    numbers.map(|number| record(&number.to_string())).collect()
}

fn append(journal: &Journal, records: &[AttemptRecord]) {
    journal.append(records.iter().map(AttemptLine::from));
}

fn line(record: &AttemptRecord) -> String {
    let mut lines = Vec::new();
    write_line(&mut lines, &AttemptLine::from(record)).unwrap();
    String::from_utf8(lines).unwrap()
}

/// Every line of a file, each of which must be a document.
fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn jobs(lines: &[Value]) -> Vec<usize> {
    lines.iter().filter_map(|line| line["job"].as_str()?.parse().ok()).collect()
}

fn aside(path: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}.{number}", path.display()))
}

#[test]
fn a_record_is_one_line_with_every_field() {
    let component = "a5".repeat(32);
    let expected = format!(
        "{{\"worker\":\"mill-1\",\"tenant\":\"acme\",\"topic\":\"resize\",\"job\":\"j\",\"attempt\":1,\"delivery\":1,\
         \"component\":\"{component}\",\"enqueued_us\":1000000,\"due_us\":2000000,\"claimed_us\":2001000,\
         \"started_us\":2001150,\"ended_us\":2002384,\"run_us\":1234,\"outcome\":\"complete\",\"verdict\":\"ack\",\"settled\":\"done\",\
         \"reason\":null,\"fuel\":12345,\"memory_peak_bytes\":131072,\"memory_kib_ms\":157,\"requests\":3,\"body_bytes\":200,\"result_bytes\":7,\
         \"follow_ups\":2,\"follow_up_bytes\":30}}\n"
    );
    assert_eq!(line(&record("j")), expected);
}

#[test]
fn what_is_not_known_is_null() {
    let run = Run { version: None, ..record("j").run.unwrap() };
    let unknown = AttemptRecord { run: Some(run), settled: None, ..record("j") };
    let line: Value = serde_json::from_str(&line(&unknown)).unwrap();
    assert_eq!((&line["component"], &line["settled"]), (&Value::Null, &Value::Null));
    assert_eq!(line.as_object().unwrap().len(), 25);
}

#[test]
fn an_attempt_of_a_lost_worker_has_its_name_and_no_times_of_running() {
    let line: Value = serde_json::from_str(&line(&lost("mill-0"))).unwrap();
    assert_eq!((&line["worker"], &line["claimed_us"]), (&json!("mill-0"), &json!(2_001_000)));
    assert_eq!([&line["started_us"], &line["ended_us"], &line["run_us"]], [&Value::Null; 3]);
}

#[test]
fn a_line_can_be_read_whatever_a_worker_is_called() {
    let odd = "mill \"7\"\n\\ü";
    let read: Value = serde_json::from_str(&line(&lost(odd))).unwrap();
    assert_eq!(read["worker"], odd);
    let mut gap = Vec::new();
    write_line(&mut gap, &Gap { worker: &WorkerId::new(odd), dropped: 7 }).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&gap).unwrap(), json!({ "worker": odd, "dropped": 7 }));
}

#[test]
fn a_failure_is_named_by_its_reason_alone() {
    let detail = FailureDetail { message: "on fire".into(), ..FailureDetail::default() };
    let verdict = Verdict::Bury(Failure::new(Reason::Trap, detail));
    let line = line(&AttemptRecord { outcome: OutcomeKind::Trapped, verdict, ..record("j") });
    assert!(!line.contains("on fire"), "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["outcome"], &line["verdict"], &line["reason"]),
        (&json!("trapped"), &json!("bury"), &json!("trap"))
    );
}

#[test]
fn every_field_is_in_the_reference() {
    let reference = include_str!("../../../../docs/reference/journal.md");
    let line: Value = serde_json::from_str(&line(&record("j"))).unwrap();
    for field in line.as_object().unwrap().keys().map(String::as_str).chain(["dropped"]) {
        assert!(reference.contains(&format!("| `{field}` |")), "docs/reference/journal.md has no row for `{field}`");
    }
}

/// Closes it, and waits for its thread for longer than a runner would.
async fn close(journal: Journal) {
    let ended = journal.0.ended.clone();
    journal.close().await;
    let ended = tokio::time::timeout(Duration::from_secs(60), ended.cancelled());
    ended.await.expect("the journal's thread does not end");
}

#[tokio::test]
async fn everything_appended_is_there_in_order_once_it_is_closed() {
    let folder = TempDir::new().unwrap();
    let settings = settings(&folder);
    let journal = Journal::open(&settings, &worker()).unwrap();
    for start in (0..5000).step_by(100) {
        append(&journal, &records(start..start + 100));
    }
    close(journal).await;
    assert_eq!(jobs(&lines_of(&settings.path)), (0..5000).collect::<Vec<_>>());
}

#[test]
fn a_file_that_cannot_be_opened_is_named_with_the_reason() {
    let folder = TempDir::new().unwrap();
    for (path, reason) in [("gone/journal.jsonl", "No such file"), (".", "directory")] {
        let settings = LineFileSettings::at(folder.path().join(path));
        let error = anyhow::Error::from(Journal::open(&settings, &worker()).unwrap_err());
        let shown = format!("{error:#}");
        assert!(shown.contains(path) && shown.contains("[journal]") && shown.contains(reason), "{shown}");
    }
    let error = Journal::open(&LineFileSettings::at("/dev/null".into()), &worker()).unwrap_err();
    assert!(format!("{:#}", anyhow::Error::from(error)).contains("not a regular file"));
}

#[test]
fn a_full_file_is_put_aside_and_the_oldest_are_deleted() {
    let folder = TempDir::new().unwrap();
    let settings = LineFileSettings { rotate_bytes: 10, keep: 3, ..settings(&folder) };
    // Kept by an earlier run whose settings kept more.
    for number in [3, 4, 5, 7] {
        fs::write(aside(&settings.path, number), "old\n").unwrap();
    }
    let mut file = file(&settings);
    for text in ["1\n", "2 has more than ten bytes\n", "3\n", "4 has more than ten bytes\n", "5\n"] {
        assert_eq!(file.append(text.as_bytes()).unwrap(), text.len());
    }
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    assert_eq!(read(&settings.path), "5\n");
    assert_eq!(read(&aside(&settings.path, 1)), "3\n4 has more than ten bytes\n");
    assert_eq!(read(&aside(&settings.path, 2)), "1\n2 has more than ten bytes\n");
    let remaining: Vec<u32> = (3..8).filter(|number| aside(&settings.path, *number).exists()).collect();
    assert_eq!(remaining, [7], "nothing but what the row leads to is deleted");
}

#[test]
fn a_line_that_a_crash_tore_stays_by_itself() {
    let folder = TempDir::new().unwrap();
    let path = settings(&folder).path;
    fs::write(&path, "{\"whole\":1}\n{\"to").unwrap();
    let mut file = file(&settings(&folder));
    file.append(b"{\"next\":2}\n").unwrap();
    // As another runner with the same file would, killed in the middle.
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"other").unwrap();
    file.append(b"{\"last\":3}\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"whole\":1}\n{\"to\n{\"next\":2}\n{\"other\n{\"last\":3}\n");
}

#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let folder = TempDir::new().unwrap();
    let path = settings(&folder).path;
    let mut file = file(&settings(&folder));
    file.append(b"1\n").unwrap();
    fs::rename(&path, folder.path().join("by-logrotate")).unwrap();
    file.append(b"2\n").unwrap();
    fs::remove_file(&path).unwrap();
    file.append(b"3\n").unwrap();
    // And one that was cut in place (`copytruncate`) is appended to from its new beginning.
    fs::File::create(&path).unwrap();
    file.append(b"4\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
    assert_eq!(fs::read_to_string(folder.path().join("by-logrotate")).unwrap(), "1\n");
}

#[test]
fn two_runners_share_a_file_and_lose_nothing() {
    let folder = TempDir::new().unwrap();
    let settings = LineFileSettings { rotate_bytes: 20_000, keep: 1000, ..settings(&folder) };
    let write = |numbers: std::iter::StepBy<std::ops::Range<usize>>| {
        let mut file = file(&settings);
        for number in numbers {
            let line = line(&record(&number.to_string()));
            assert_eq!(file.append(line.as_bytes()).unwrap(), line.len());
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| write((0..2000).step_by(2)));
        scope.spawn(|| write((1..2000).step_by(2)));
    });
    let mut seen = BTreeSet::new();
    let asides = (1..=1000).map(|number| aside(&settings.path, number)).take_while(|path| path.exists());
    let files: Vec<PathBuf> = asides.chain([settings.path.clone()]).collect();
    // How many depends on who is interrupted: one that puts a file aside does not keep the other from writing to it.
    assert!(files.len() > 1, "it was put aside at least once");
    for path in &files {
        seen.extend(jobs(&lines_of(path)));
    }
    assert_eq!(seen, (0..2000).collect());
}

/// Takes this many bytes and no more.
struct Disk {
    room: usize,
    taken: Vec<u8>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let before = self.taken.len();
        self.taken.extend(parts.iter().flat_map(|part| part.iter()));
        self.taken.truncate(before + self.room);
        self.room -= self.taken.len() - before;
        Ok(self.taken.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn of_what_a_full_disk_took_only_whole_lines_count() {
    let lines = b"one\ntwo\nthree\n";
    for (room, torn, taken) in
        [(14, false, 14), (15, true, 14), (13, false, 8), (9, true, 8), (8, true, 4), (4, false, 4)]
    {
        let mut disk = Disk { room, taken: Vec::new() };
        assert_eq!(write_lines(&mut disk, torn, lines).unwrap(), taken, "{room} {torn}");
        assert_eq!(disk.taken.first() == Some(&b'\n'), torn);
    }
    for (room, torn) in [(3, false), (4, true), (1, true), (0, false), (0, true)] {
        let error = write_lines(&mut Disk { room, taken: Vec::new() }, torn, lines).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

/// A journal with little room, whose folder has been taken away: every write is refused.
fn refused(folder: &TempDir, room: usize) -> (Journal, PathBuf, PathBuf) {
    let (here, away) = (folder.path().join("here"), folder.path().join("away"));
    fs::create_dir(&here).unwrap();
    let file = file(&LineFileSettings::at(here.join("journal.jsonl")));
    fs::rename(&here, &away).unwrap();
    (Journal::start(file, &worker(), Queue::of(room)).unwrap(), here, away)
}

#[tokio::test]
async fn what_a_refusing_disk_costs_is_counted_and_marked_in_its_place() {
    let folder = TempDir::new().unwrap();
    let (journal, here, away) = refused(&folder, 8);
    append(&journal, &records(0..30));
    fs::rename(&away, &here).unwrap();
    append(&journal, &records(30..33));
    let lost = journal.lost();
    close(journal).await;
    let lines = lines_of(&here.join("journal.jsonl"));
    assert_eq!(jobs(&lines[..8]), (0..8).collect::<Vec<_>>());
    let dropped = lines[8]["dropped"].as_u64().unwrap();
    assert_eq!((&lines[8]["worker"], lines[8].as_object().unwrap().len()), (&json!("mill-1"), 2));
    assert!(dropped >= 22, "{dropped}");
    assert_eq!(lost(), dropped);
    assert_eq!(lines.len() as u64 - 1 + dropped, 33, "every attempt is written or counted");
}

#[tokio::test]
async fn a_disk_that_refuses_to_the_end_delays_no_job() {
    let folder = TempDir::new().unwrap();
    let (journal, here, _) = refused(&folder, 8);
    append(&journal, &records(0..100));
    close(journal).await;
    assert!(!here.exists());
}

#[test]
fn the_queue_drops_what_it_has_no_room_for_and_warns_once() {
    let queue = Queue::of(10);
    let append = |numbers| queue.append(records(numbers).iter().map(AttemptLine::from));
    assert_eq!(append(0..10), None, "at the edge");
    assert_eq!(append(10..13), Some(3), "beyond it");
    assert_eq!(append(13..14), None, "warned a moment ago");
    let take = || queue.take().map(|(lines, dropped)| (lines.len(), dropped));
    assert_eq!(take(), Some((10, 4)));
    assert_eq!(append(14..15), None);
    assert_eq!((take(), queue.lost()), (Some((1, 0)), 4), "counted once");
    queue.close();
    assert_eq!(take(), None);
}
