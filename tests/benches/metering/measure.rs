//! CPU time per job.

use std::rc::Rc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::{LocalSet, spawn_local};

use crate::guest::Guest;
use crate::sandbox::Sandbox;

/// Longer than any guest takes here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Jobs that a variant does in one turn.
const JOBS_MIN: u32 = 2;
const JOBS_MAX: u32 = 5_000;

#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// How long one variant's turn in a round is to take.
    pub(crate) turn: Duration,
}

/// What a job costs in one variant.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// CPU time of the cheapest round: what others' load disturbed least.
    pub(crate) cpu: Duration,
    /// Of the first variant's in the same round, the median of all rounds.
    pub(crate) ratio: f64,
}

/// The cost of a job in each sandbox.
pub(crate) fn cost(runtime: &Runtime, sandboxes: &[Rc<Sandbox>], guest: &Rc<Guest>, effort: Effort) -> Vec<Cost> {
    let jobs = jobs_per_turn(runtime, sandboxes, guest, effort);
    let mut rounds = vec![vec![Duration::ZERO; sandboxes.len()]; effort.rounds];
    for (number, round) in rounds.iter_mut().enumerate() {
        let mut turns: Vec<usize> = (0..sandboxes.len()).collect();
        // There and back, so that nobody always comes after the same one.
        if number % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            round[turn] = turn_of(runtime, &sandboxes[turn], guest, jobs) / jobs;
        }
    }
    (0..sandboxes.len())
        .map(|index| Cost {
            cpu: rounds.iter().map(|round| round[index]).min().unwrap(),
            ratio: median(rounds.iter().map(|round| round[index].as_secs_f64() / round[0].as_secs_f64()).collect()),
        })
        .collect()
}

/// As many as fill a turn. Warms every sandbox up.
fn jobs_per_turn(runtime: &Runtime, sandboxes: &[Rc<Sandbox>], guest: &Rc<Guest>, effort: Effort) -> u32 {
    let took = sandboxes.iter().map(|sandbox| turn_of(runtime, sandbox, guest, JOBS_MIN) / JOBS_MIN).max().unwrap();
    let jobs = effort.turn.as_nanos() / took.as_nanos().max(1);
    u32::try_from(jobs).unwrap_or(JOBS_MAX).clamp(JOBS_MIN, JOBS_MAX)
}

/// Runs jobs one after the other, each in a task of its own as the runner does, and tells this thread's CPU time.
fn turn_of(runtime: &Runtime, sandbox: &Rc<Sandbox>, guest: &Rc<Guest>, jobs: u32) -> Duration {
    let _clock = sandbox.clock();
    runtime.block_on(LocalSet::new().run_until(async {
        let begun = thread_cpu();
        for _ in 0..jobs {
            let (sandbox, guest) = (Rc::clone(sandbox), Rc::clone(guest));
            spawn_local(async move { sandbox.run(&guest, TIMEOUT).await }).await.unwrap();
        }
        thread_cpu() - begun
    }))
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
