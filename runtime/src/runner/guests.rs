//! The threads that guests run on, one single-threaded runtime each.
//!
//! A guest runs inside `poll`, so a busy one holds its thread until it yields (every some 100,000 units of fuel). On
//! threads of their own they cannot hold up the store's loops; pinned to a thread, an instance meets warm memory slots.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::execute::{Desk, Work, execute};

/// Hands work to the guest threads. Dropping it ends them once they have nothing left.
#[derive(Debug)]
pub(super) struct Guests {
    threads: Vec<mpsc::UnboundedSender<Vec<Work>>>,
    /// Which thread is next.
    turn: AtomicUsize,
}

impl Guests {
    /// Starts `count` threads; the handles end when the [`Guests`] is dropped and the last attempt has ended.
    pub(super) fn start(count: usize, desk: &Arc<Desk>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let mut threads = Vec::new();
        let mut handles = Vec::new();
        for number in 0..count.max(1) {
            let (sender, inbox) = mpsc::unbounded_channel();
            let desk = Arc::clone(desk);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name(format!("guest-{number}"));
            handles.push(
                thread.spawn(move || runtime.block_on(tokio::task::LocalSet::new().run_until(serve(inbox, desk))))?,
            );
            threads.push(sender);
        }
        Ok((Self { threads, turn: AtomicUsize::new(0) }, handles))
    }

    /// Deals a batch out evenly. The queues are as long as the runner's gate lets them be.
    pub(super) fn hand_over(&self, mut work: Vec<Work>) {
        let share = work.len().div_ceil(self.threads.len());
        while !work.is_empty() {
            let rest = work.split_off(share.min(work.len()));
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.threads.len();
            if let Some(thread) = self.threads.get(turn) {
                thread.send(work).ok();
            }
            work = rest;
        }
    }
}

async fn serve(mut inbox: mpsc::UnboundedReceiver<Vec<Work>>, desk: Arc<Desk>) {
    let attempts = TaskTracker::new();
    while let Some(batch) = inbox.recv().await {
        for work in batch {
            attempts.spawn_local(execute(work, Arc::clone(&desk)));
        }
    }
    attempts.close();
    attempts.wait().await;
}
