//! The one writer: a thread that owns the writing connection and commits whatever has queued up while the last commit
//! ran (group commit). A lone request is committed at once; under load one fsync serves hundreds.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::checkpoint::Checkpoints;
use super::health::Health;
use super::owner::Lock;
use super::request::{Request, Weight};
use super::threads::Queue;
use crate::clock_step::{ClockStep, Followed, Move};
use crate::embedded::clock::set_clock::{move_waits, note_step};
use crate::embedded::clock::{OwnClock, shown};
use crate::embedded::fault::{Done, Fault};
use crate::embedded::memory::topics::Topics;
use crate::embedded::signals::Listeners;
use crate::embedded::work::{Sequence, Work};
use crate::{Clock, Signal};
use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;
use gristmill_core::token::TokenId;

/// What one commit may hold: about ten milliseconds of the writer, and what its journal may grow by. A single request may
/// be larger, if it has a single job that is.
const COMMIT: Weight = Weight { jobs: 4096, bytes: 16 << 20 };

/// A full disk is asked to take something several times a second, for as long as it is full.
const WARN_AGAIN: Duration = Duration::from_secs(10);

pub(in crate::embedded) struct Writer {
    pub(in crate::embedded) connection: Connection,
    pub(in crate::embedded) topics: Topics,
    /// They may say something else than the file: read them again before anything is done.
    pub(in crate::embedded) topics_unsure: bool,
    pub(in crate::embedded) sequence: Sequence,
    pub(in crate::embedded) clock: Arc<OwnClock>,
    pub(in crate::embedded) listeners: Arc<Listeners>,
    /// None in memory.
    pub(in crate::embedded) checkpoints: Option<Checkpoints>,
    /// The lock outlives the connection: fields are dropped in order.
    pub(in crate::embedded) lock: Option<Arc<Lock>>,
    pub(in crate::embedded) health: Arc<Health>,
    /// The log was put away because of the file's state.
    pub(in crate::embedded) log_is_away: bool,
    /// When this was last logged: nothing can be committed.
    pub(in crate::embedded) warned_at: Option<Instant>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("checkpoints", &self.checkpoints).finish_non_exhaustive()
    }
}

impl Writer {
    /// Ends when no caller can ask any more and everything asked is done.
    pub(in crate::embedded) fn run(mut self, queue: &Queue<Request>) {
        while let Some(first) = queue.next() {
            let requests = gather(first, queue);
            if let Some(fault) = self.health.refusal() {
                self.put_log_away();
                requests.into_iter().for_each(|request| request.refuse(fault.clone()));
                continue;
            }
            self.log_is_away = false;
            self.serve(requests);
            self.checkpoints.iter_mut().for_each(|checkpoints| checkpoints.after_commit(&self.connection));
        }
        self.close();
    }

    /// Moves what waits if the clock was set. If that fails, it is tried again with the next request: until then the clock is not followed.
    fn follow(&mut self, clock: &Clock) {
        let Some((step, before)) = self.clock.step(clock) else { return };
        let moves = step.moves(before);
        let followed = Followed { step, moved_ms: moves.ms };
        match self.move_waits(&followed, moves, clock) {
            Ok(signals) => {
                self.clock.follow(clock, followed);
                warn_of_step(step, moves);
                self.listeners.send(&signals, &[]);
            }
            Err(fault) => {
                tracing::warn!(error = %fault, "this host's {step}, and the store could not move what waits");
                self.roll_back();
            }
        }
    }

    fn move_waits(&mut self, followed: &Followed, moves: Move, clock: &Clock) -> Done<Vec<Signal>> {
        let time = shown(clock);
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        note_step(&self.connection, followed)?;
        if !moves.is_none() {
            move_waits(&self.connection, moves, time.now)?;
        }
        let mut work = Work::new(&self.connection, &mut self.topics, &self.sequence);
        work.time = time;
        work.mend_schedules()?;
        let signals = work.signals;
        // Before any reader can see what was moved.
        self.health.note_change(0);
        self.connection.execute_batch("COMMIT")?;
        // What the memory says of them is no longer so.
        self.topics_unsure = true;
        Ok(signals)
    }

    /// Carries out requests in one transaction, and answers them.
    fn serve(&mut self, mut requests: Vec<Request>) {
        if let Some(first) = requests.first() {
            let clock = first.clock.clone();
            self.follow(&clock);
        }
        match self.commit(&mut requests) {
            Ok(News { signals, tokens, taken }) => {
                self.listeners.send(&signals, &taken);
                self.listeners.send_tokens(&tokens);
                requests.into_iter().for_each(|request| request.answer(Ok(())));
            }
            // One request cost them all the transaction, and nothing was done: each gets one of its own.
            Err(Failed::Lost) if requests.len() > 1 => {
                requests.into_iter().for_each(|request| self.serve(vec![request]));
            }
            Err(Failed::Lost) => requests.into_iter().for_each(|request| request.answer(Err(Fault::Closed))),
            Err(Failed::Commit(fault)) => {
                if self.warned_at.is_none_or(|at| at.elapsed() > WARN_AGAIN) {
                    self.warned_at = Some(Instant::now());
                    tracing::warn!(error = %fault, requests = requests.len(), "the store could not commit");
                }
                requests.into_iter().for_each(|request| request.answer(Err(fault.clone())));
            }
        }
    }

    fn commit(&mut self, requests: &mut Vec<Request>) -> Result<News, Failed> {
        let outcome = self.transact(requests);
        if outcome.is_err() {
            self.roll_back();
        }
        outcome
    }

    fn transact(&mut self, requests: &mut Vec<Request>) -> Result<News, Failed> {
        let run = |connection: &Connection, sql| connection.prepare_cached(sql)?.execute([]).map(drop);
        let failed = |error: rusqlite::Error| Failed::Commit(error.into());
        if self.topics_unsure {
            self.topics = Topics::load(&self.connection).map_err(Failed::Commit)?;
            self.topics_unsure = false;
        }
        run(&self.connection, "BEGIN IMMEDIATE").map_err(failed)?;
        let mut work = Work::new(&self.connection, &mut self.topics, &self.sequence);
        let mut taken = Vec::new();
        let mut latest = carry_out(requests.iter_mut(), &mut work, &self.clock)?;
        let waiting: Vec<Request> =
            ready(&work.signals).filter_map(|topic| Some(self.listeners.claims.take(topic)?.1)).collect();
        if !waiting.is_empty() {
            let asked = requests.len();
            requests.extend(waiting);
            latest = latest.max(carry_out(requests.iter_mut().skip(asked), &mut work, &self.clock)?);
            taken = work.drained();
        }
        let Work { topics, signals, tokens, .. } = work;
        topics.save(&self.connection, latest).map_err(Failed::Commit)?;
        let has_deleted = topics.take_deleted();
        if has_deleted {
            self.health.note_change(0);
        }
        run(&self.connection, "COMMIT").map_err(failed)?;
        if topics.are_written() && !has_deleted {
            self.health.note_change(latest.as_millis());
        }
        topics.committed();
        Ok(News { signals, tokens, taken })
    }

    /// What is in the log belongs to the file that this process has opened, wherever that is by now, and goes into it. It must not be found beside the file
    /// that is there instead: with that it would make a damaged one. A file that was written over gets nothing more.
    fn put_log_away(&mut self) {
        if std::mem::replace(&mut self.log_is_away, true) {
            return;
        }
        let Some(log) = self.health.log_of_replaced() else {
            self.checkpoints.iter().for_each(|checkpoints| checkpoints.empty_now(&self.connection));
            return;
        };
        let kept = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        let mut aside = log.clone().into_os_string();
        aside.push(".replaced");
        if let Err(error) = kept.map_err(io::Error::other).and_then(|_| std::fs::rename(&log, &aside)) {
            tracing::error!(%error, log = %log.display(), "could not put the write-ahead log away: remove it before the next start");
        }
    }

    /// Takes the transaction back, in the file and in the memory.
    fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the store could not take a transaction back");
        }
        if let Err(fault) = self.topics.roll_back(&self.connection) {
            tracing::error!(error = %fault, "the store could not read its topics again");
            self.topics_unsure = true;
        }
    }

    fn close(mut self) {
        if self.health.log_of_replaced().is_some() {
            self.put_log_away();
        }
        let Self { connection, checkpoints, lock, health, .. } = self;
        let is_replaced = health.log_of_replaced().is_some();
        checkpoints.into_iter().for_each(|checkpoints| checkpoints.close((!is_replaced).then_some(&connection)));
        drop(connection);
        drop(lock);
    }
}

/// Carries out requests. Returns the latest of their moments.
fn carry_out<'a>(
    requests: impl Iterator<Item = &'a mut Request>,
    work: &mut Work<'_>,
    clock: &OwnClock,
) -> Result<Timestamp, Failed> {
    let mut latest = Timestamp::default();
    for request in requests {
        work.time = clock.moment(&request.clock);
        latest = latest.max(work.now());
        // What it has done so far can only be taken back with the transaction. A savepoint for each request would make
        // SQLite copy every page that it changes, and requests hardly ever fail in here.
        if !request.run(work) {
            return Err(Failed::Lost);
        }
        work.announce_due();
    }
    Ok(latest)
}

/// The topics that have become ready.
fn ready(signals: &[Signal]) -> impl Iterator<Item = &TopicId> {
    signals.iter().filter_map(|signal| if let Signal::Ready(topic) = signal { Some(topic) } else { None })
}

fn warn_of_step(step: ClockStep, moves: Move) {
    if !moves.is_none() {
        tracing::warn!(
            "this host's {step}: delays, leases and other relative times were moved by the same step, times that were named were not"
        );
    } else if step.back().is_zero() {
        tracing::warn!("this host's {step}, or the host slept: what waited for a time that it has passed is due");
    } else {
        tracing::warn!("this host's {step}: nothing was moved, it is expected to be put right soon");
    }
}

/// What is emitted once it is committed: wake-ups, and tokens that have changed.
struct News {
    signals: Vec<Signal>,
    tokens: Vec<TokenId>,
    /// The topics that claims which waited have drained.
    taken: Vec<TopicId>,
}

/// Why nothing was committed.
enum Failed {
    /// A request that failed took the transaction with it.
    Lost,
    /// The transaction as a whole.
    Commit(Fault),
}

/// What has queued up, as far as it fits into one commit.
fn gather(first: Request, queue: &Queue<Request>) -> Vec<Request> {
    let mut weight = first.weight;
    let mut requests = vec![first];
    while weight.jobs < COMMIT.jobs && weight.bytes < COMMIT.bytes {
        let Some(request) = queue.try_next() else { break };
        weight.jobs = weight.jobs.saturating_add(request.weight.jobs.max(1));
        weight.bytes = weight.bytes.saturating_add(request.weight.bytes);
        requests.push(request);
    }
    requests
}
