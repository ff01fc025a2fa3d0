//! What traces cost: a full queue without them, with one attempt of a hundred kept, and with all kept.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::figure::Figure;
use super::load::fill;
use super::test_bed::TestBed;
use gristmill_config::OtelSettings;
use gristmill_core::job::WorkerId;
use gristmill_runner::Traces;

/// Runs of each case, in turns: the speed of a machine changes, and neighbours in time are compared.
const ROUNDS: usize = 5;
/// Of a million attempts, how many are kept; the first case has no traces.
const CASES: [(&str, Option<u32>); 3] = [("off", None), ("1 % kept", Some(10_000)), ("all kept", Some(1_000_000))];

/// Takes spans in this process and does nothing with them. Ends when dropped.
struct Receiver {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

/// Each case's figure is the one with the median rate; its ratio is the median of those to the run without traces just before it.
/// The case says how many spans were lost, if any were: those cost less than they should.
///
/// # Errors
/// If the store fails, or no port is free.
pub async fn traces(bed: &mut TestBed, jobs: usize) -> anyhow::Result<Vec<Figure>> {
    bed.settings.progress.begin(format!("traces, {}", bed.settings.store), 2 * ROUNDS * CASES.len() * jobs);
    let receiver = Receiver::start().await?;
    let mut runs = CASES.map(|_| Vec::with_capacity(ROUNDS));
    let mut lost = CASES.map(|_| 0);
    for _ in 0..ROUNDS {
        let mut off: Option<Figure> = None;
        for (((_, kept), runs), lost) in CASES.iter().zip(&mut runs).zip(&mut lost) {
            fill(bed, jobs).await?;
            bed.traces = kept.map(|kept| receiver.traces(kept)).transpose()?;
            let figure = bed.work_off("traces", jobs).await?;
            if let Some(traces) = bed.traces.take() {
                let lost_now = traces.lost();
                traces.close().await;
                *lost += lost_now();
            }
            let figure = match &off {
                Some(off) => figure.rate_of(off, "off"),
                None => figure,
            };
            off.get_or_insert_with(|| figure.clone());
            runs.push(figure);
        }
    }
    let figures = CASES.iter().zip(runs).zip(lost).filter_map(|(((case, kept), runs), lost)| {
        let spans = ROUNDS as u64 * jobs as u64 * u64::from(kept.unwrap_or_default()) / 1_000_000;
        Some(Figure::median(runs)?.case(named(case, lost, spans)))
    });
    Ok(figures.collect())
}

fn named(case: &str, lost: u64, spans: u64) -> String {
    match lost {
        0 => case.to_owned(),
        lost => format!("{case}, {:.0} % of the spans lost", 100.0 * lost as f64 / spans.max(lost) as f64),
    }
}

impl Receiver {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("failed to open a port for spans")?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(take)));
            }
        });
        Ok(Self { address, _task: AbortOnDropHandle::new(task) })
    }

    /// Keeps no attempt for anything but by chance.
    fn traces(&self, sample_per_million: u32) -> anyhow::Result<Traces> {
        let endpoint = Url::parse(&format!("http://{}", self.address))?;
        let slower_than = std::time::Duration::from_secs(3600);
        let settings =
            OtelSettings { endpoint: Some(endpoint), sample_per_million, slower_than, ..OtelSettings::default() };
        Ok(Traces::open(&settings, &WorkerId::new("bench"))?)
    }
}

async fn take(request: hyper::Request<Incoming>) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        drop(frame?);
    }
    Ok(Response::new(Empty::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_spans_are_named() {
        assert_eq!(
            [named("all kept", 0, 10), named("all kept", 5, 10)],
            ["all kept", "all kept, 50 % of the spans lost"]
        );
    }
}
