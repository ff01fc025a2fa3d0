//! Whether a fast topic suffers from its neighbours.

use std::time::Duration;

use super::figure::Figure;
use super::load::{drain, job_with};
use super::scenario::one_by_one;
use super::stopwatch::figure;
use super::test_bed::{TestBed, TopicSetup, load, topic};
use gristmill_core::job::Due;
use gristmill_sandbox::Sandbox;

/// What runs beside the fast topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// Nothing.
    None,
    /// A full queue of jobs that wait 100 ms each, give or take 20 so that they do not fall into step, a hundred at once.
    Waiting,
    /// Handlers that keep a CPU busy, this many at once.
    Computing(usize),
    /// Another tenant with a full queue of jobs that wait as long, which would take all of so many slots.
    Flooding(usize),
}

impl Neighbour {
    fn case(self) -> String {
        match self {
            Self::None => "alone".into(),
            Self::Waiting => "beside 100 that wait 100 ms".into(),
            Self::Computing(count) => format!("beside {count} busy computing"),
            Self::Flooding(slots) => format!("beside a tenant that floods {slots} slots"),
        }
    }

    /// Attempts at once, and the work that keeps that up for the time of the measurement: about 100 ms each.
    fn load(self, lasting: Duration) -> Option<(usize, Vec<String>)> {
        let rounds = usize::try_from(lasting.as_millis() / 100).unwrap_or(0) + 2;
        match self {
            Self::None => None,
            Self::Waiting => Some((100, waits(100 * rounds))),
            Self::Flooding(slots) => Some((slots, waits(slots * rounds))),
            Self::Computing(count) => Some((count, vec![r#"{"compute-ms": 100}"#.to_owned(); count * rounds])),
        }
    }
}

/// Of so many jobs that wait, the work.
fn waits(jobs: usize) -> Vec<String> {
    (0..jobs).map(|number| format!(r#"{{"wait-ms": {}}}"#, 80 + number * 7 % 41)).collect()
}

/// A steady trickle of fast jobs, one every 5 ms: from push to start, each.
///
/// # Errors
/// If the store fails, or the neighbour's component does not load.
pub async fn isolation(bed: &TestBed, sandbox: &Sandbox, beside: Neighbour, jobs: usize) -> anyhow::Result<Figure> {
    const PERIOD: Duration = Duration::from_millis(5);
    bed.settings.progress.begin(format!("isolation: {}", beside.case()), jobs);
    let mut neighbour = topic("neighbour");
    if matches!(beside, Neighbour::Flooding(_)) {
        neighbour.tenant = neighbour.topic.clone();
    }
    let mut setups = vec![bed.topic_setup(bed.topic.clone())];
    if let Some((concurrency, work)) = beside.load(PERIOD * u32::try_from(jobs).unwrap_or(u32::MAX)) {
        let component = load(sandbox, &bed.settings.simulate).await?;
        setups.push(TopicSetup { topic: neighbour.clone(), component, concurrency, reuse: 1 });
        let jobs: Vec<_> = work.into_iter().map(|work| job_with(&neighbour, work.into_bytes(), Due::Now)).collect();
        for jobs in jobs.chunks(1000) {
            bed.store.store.push(jobs).await?;
        }
    }
    bed.serve(setups);
    let delay = one_by_one(bed, Some(PERIOD), jobs).await?;
    drain(bed, &neighbour).await?;
    Ok(Figure { delay, ..figure(bed, "isolation", jobs).case(beside.case()) })
}
