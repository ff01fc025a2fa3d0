//! Whether a fast topic suffers from its neighbours.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::figure::{Figure, Spread};
use super::load::{drain, job, job_with};
use super::stopwatch::figure;
use super::test_bed::{BenchError, TestBed, TopicSetup, load, topic};
use gristmill_core::job::{Due, TopicId};
use gristmill_sandbox::Sandbox;

/// What runs beside the fast topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    None,
    /// A full queue of jobs that wait 100 ms each, give or take 20 so that they do not fall into step, a hundred at once.
    Waiting,
    /// Handlers that keep a CPU busy, this many at once.
    Computing(usize),
}

impl Neighbour {
    fn case(self) -> String {
        match self {
            Self::None => "alone".into(),
            Self::Waiting => "beside 100 that wait 100 ms".into(),
            Self::Computing(count) => format!("beside {count} busy computing"),
        }
    }

    /// Attempts at once, what each does, and how many jobs keep that up for the time of the measurement.
    /// Attempts at once, and the work that keeps that up for the time of the measurement: about 100 ms each.
    fn load(self, lasting: Duration) -> Option<(usize, Vec<String>)> {
        let rounds = usize::try_from(lasting.as_millis() / 100).unwrap_or(0) + 2;
        match self {
            Self::None => None,
            Self::Waiting => {
                let work = |number: usize| format!(r#"{{"wait-ms": {}}}"#, 80 + number * 7 % 41);
                Some((100, (0..100 * rounds).map(work).collect()))
            }
            Self::Computing(count) => Some((count, vec![r#"{"compute-ms": 100}"#.to_owned(); count * rounds])),
        }
    }
}

/// A steady trickle of fast jobs, one every 5 ms: from push to start, each.
///
/// # Errors
/// If the store fails, or the neighbour's component does not load.
pub async fn isolation(bed: &TestBed, sandbox: &Sandbox, beside: Neighbour, jobs: usize) -> Result<Figure, BenchError> {
    const PERIOD: Duration = Duration::from_millis(5);
    bed.settings.progress.begin(format!("isolation: {}", beside.case()), jobs);
    let neighbour = topic("neighbour");
    let mut setups = vec![bed.topic_setup(bed.topic.clone())];
    if let Some((concurrency, work)) = beside.load(PERIOD * u32::try_from(jobs).unwrap_or(u32::MAX)) {
        let component = load(sandbox, &bed.settings.simulate).await?;
        setups.push(TopicSetup { topic: neighbour.clone(), component, concurrency, reuse: 1 });
        push_work(bed, &neighbour, work).await?;
    }
    bed.serve(setups);
    let delays = trickle(bed, PERIOD, jobs).await?;
    bed.serve(vec![bed.topic_setup(bed.topic.clone())]);
    drain(bed, &neighbour).await?;
    Ok(Figure { delay: Spread::of(delays), ..figure(bed, "isolation", jobs).case(beside.case()) })
}

async fn push_work(bed: &TestBed, to: &TopicId, work: Vec<String>) -> Result<(), BenchError> {
    let jobs: Vec<_> = work.into_iter().map(|work| job_with(to, work.into_bytes(), Due::Now)).collect();
    bed.store.store.push(&jobs).await?;
    Ok(())
}

async fn trickle(bed: &TestBed, period: Duration, jobs: usize) -> Result<Vec<Duration>, BenchError> {
    let (runner, mut records) = bed.run()?;
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut delays = Vec::with_capacity(jobs);
    while delays.len() < jobs {
        ticks.tick().await;
        let pushed = Instant::now();
        bed.store.store.push(&[job(bed, Due::Now)]).await?;
        // One at a time: what the neighbour's attempts settle meanwhile is passed over.
        while let Some(record) = records.recv().await {
            if record.topic == bed.topic {
                delays.push(record.started.saturating_duration_since(pushed));
                break;
            }
        }
        bed.settings.progress.add(1);
    }
    TestBed::end(runner).await;
    Ok(delays)
}
