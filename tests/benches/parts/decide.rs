//! From an outcome to its verdict.

use std::hint::black_box;

use criterion::Criterion;
use gristmill_tests::parts::{outcomes, verdict};

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    for (name, outcome) in outcomes() {
        group.bench_function(name, |b| b.iter(|| verdict(black_box(outcome()))));
    }
    group.finish();
}
