//! What counting an attempt costs, and emitting an event while no stream is open.

use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use gristmill::metrics::{Attempt, Event, EventKind, Metrics, Usage};
use gristmill::outcome::{OutcomeKind, Settled, Verdict};

pub(crate) fn bench(criterion: &mut Criterion) {
    let metrics = Metrics::default();
    let meter = metrics.topic(&"bench".parse().unwrap());
    let began = std::time::Instant::now();
    let attempt = || {
        let (waited, latency) = (Some(Duration::from_micros(700)), Some(Duration::from_micros(900)));
        let usage = Usage { duration: Duration::from_micros(30), fuel: 20_417, memory_peak_bytes: 1 << 20 };
        let (verdict, settled) = (&Verdict::Ack(None), Some(Settled::Done));
        let ran = Some((Some([7; 32]), began));
        Attempt { outcome: OutcomeKind::Complete, verdict, settled, ran, waited, usage: Some(usage), latency }
    };
    let mut group = criterion.benchmark_group("count");
    group.bench_function("attempt", |b| b.iter(|| meter.attempt(black_box(&attempt()))));
    group.bench_function("event that nobody hears", |b| {
        b.iter(|| black_box(&metrics).emit(|| Event::new(EventKind::JobCompleted)));
    });
    group.finish();
}
