//! A fresh instance and one call.

use std::sync::Arc;

use criterion::Criterion;
use gristmill_tests::parts::{component, invoke, job};

pub(crate) fn bench(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let component = component();
    let job = Arc::new(job());
    let mut group = criterion.benchmark_group("sandbox");
    group.bench_function("instantiate and call/no-op, 200 bytes", |b| {
        b.to_async(&runtime).iter(|| invoke(&component, &job));
    });
    group.finish();
}
