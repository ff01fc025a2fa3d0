//! What it costs to look at the page: a full queue while no browser has it open, and while ten screens show the overview.

use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;

use super::figure::Figure;
use super::http::{Server, ask, connect};
use super::load::fill;
use super::test_bed::TestBed;

/// How many have the page open.
const SCREENS: u32 = 10;
/// So often the page loads what it shows.
const EVERY: Duration = Duration::from_secs(2);
/// What the overview loads then. Every 15 s it loads the history as well, which the server has in memory.
const OVERVIEW: [&str; 2] = ["/v1/tenants/default/topics", "/readyz"];
/// Runs of each case, in turns: the speed of a machine changes, and neighbours in time are compared.
const ROUNDS: usize = 5;

/// A server beside the runner answers the requests that the page makes, on the same machine. Each case's figure is the one with the median
/// rate; the ratio is the median of those to the run before it, in which no page was open.
///
/// # Errors
/// If the store is not a Redis, whose page another process can serve, or fails; the server does not start, or does not answer.
pub async fn screens(bed: &TestBed, jobs: usize) -> anyhow::Result<Vec<Figure>> {
    bed.settings.progress.begin("screens", 4 * ROUNDS * jobs);
    let server = Server::start(bed).await?;
    let (mut closed, mut open) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        fill(bed, jobs).await?;
        let alone = bed.work_off("screens", jobs).await?;
        fill(bed, jobs).await?;
        let screens = show(&server).await?;
        open.push(bed.work_off("screens", jobs).await?.rate_of(&alone, "closed"));
        closed.push(alone);
        for screen in screens {
            // One that the server did not answer measured nothing.
            if screen.is_finished() {
                screen.await??;
            }
        }
    }
    let cases = [(closed, "no page open".to_owned()), (open, format!("the page open on {SCREENS} screens"))];
    Ok(cases.into_iter().filter_map(|(runs, case)| Some(Figure::median(runs)?.case(case))).collect())
}

/// Screens that load in turns, each every two seconds, until they are dropped.
async fn show(server: &Server) -> anyhow::Result<Vec<AbortOnDropHandle<anyhow::Result<()>>>> {
    let begin = Instant::now();
    let mut screens = Vec::new();
    for number in 0..SCREENS {
        let mut client = connect(server.address).await?;
        let mut ticks = interval_at(begin + EVERY * number / SCREENS, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let screen = async move {
            loop {
                ticks.tick().await;
                for path in OVERVIEW {
                    ask(&mut client, Request::get(path), Bytes::new()).await?;
                }
            }
        };
        screens.push(AbortOnDropHandle::new(tokio::spawn(screen)));
    }
    Ok(screens)
}
