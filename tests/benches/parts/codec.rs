//! The job as the Redis store keeps it.

use std::hint::black_box;

use criterion::Criterion;
use gristmill_tests::parts::{decode, encode, full_job, job};

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("envelope");
    for (name, job) in [("plain", job()), ("full", full_job())] {
        let stored = encode(&job).unwrap();
        let (tenant, id) = (&job.spec.topic.tenant, &job.spec.id);
        assert_eq!(decode(tenant, id.clone(), &stored), Some(job.clone()));
        group.bench_function(format!("encode/{name}, 200 bytes"), |b| b.iter(|| encode(black_box(&job))));
        group.bench_function(format!("decode/{name}, 200 bytes"), |b| {
            b.iter(|| decode(tenant, id.clone(), black_box(&stored)));
        });
    }
    group.finish();
}
