//! Whether a fast topic suffers from its neighbours.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::figure::{Figure, Spread};
use super::load::{drain, job, job_with};
use super::rig::{Rig, RigError, Seating, load, topic};
use super::watch::figure;
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
pub async fn isolation(rig: &Rig, sandbox: &Sandbox, beside: Neighbour, jobs: usize) -> Result<Figure, RigError> {
    const PERIOD: Duration = Duration::from_millis(5);
    rig.settings.progress.begin(format!("isolation: {}", beside.case()), jobs);
    let neighbour = topic("neighbour");
    let mut seatings = vec![rig.seating(rig.topic.clone())];
    if let Some((concurrency, work)) = beside.load(PERIOD * u32::try_from(jobs).unwrap_or(u32::MAX)) {
        let component = load(sandbox, &rig.settings.simulate).await?;
        seatings.push(Seating { topic: neighbour.clone(), component, concurrency, reuse: 1 });
        push_work(rig, &neighbour, work).await?;
    }
    rig.serve(seatings);
    let delays = trickle(rig, PERIOD, jobs).await?;
    rig.serve(vec![rig.seating(rig.topic.clone())]);
    drain(rig, &neighbour).await?;
    Ok(Figure { delay: Spread::of(delays), ..figure(rig, "isolation", jobs).case(beside.case()) })
}

async fn push_work(rig: &Rig, to: &TopicId, work: Vec<String>) -> Result<(), RigError> {
    let jobs: Vec<_> = work.into_iter().map(|work| job_with(to, work.into_bytes(), Due::Now)).collect();
    rig.place.store.push(&jobs).await?;
    Ok(())
}

async fn trickle(rig: &Rig, period: Duration, jobs: usize) -> Result<Vec<Duration>, RigError> {
    let (runner, mut records) = rig.run()?;
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut delays = Vec::with_capacity(jobs);
    while delays.len() < jobs {
        ticks.tick().await;
        let pushed = Instant::now();
        rig.place.store.push(&[job(rig, Due::Now)]).await?;
        // One at a time: what the neighbour's attempts settle meanwhile is passed over.
        while let Some(record) = records.recv().await {
            if record.topic == rig.topic {
                delays.push(record.started.saturating_duration_since(pushed));
                break;
            }
        }
        rig.settings.progress.add(1);
    }
    Rig::end(runner).await;
    Ok(delays)
}
