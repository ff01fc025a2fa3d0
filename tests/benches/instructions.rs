//! One part of a job's way, done so many times: for `scripts/instructions.sh`, which counts the instructions of it.
//!
//! ```console
//! $ instructions --bench          # names of the parts
//! $ instructions <part> <times>
//! ```
//!
//! Counting two runs that differ only in how often they do the part leaves, divided, what doing it once costs: start-up,
//! loading and warming up fall out.

use std::hint::black_box;
use std::sync::Arc;

use gristmill_tests::parts::{component, decode, encode, full_job, invoke, job, outcomes, verdict};

/// Does a part so many times.
type Part = fn(times: u32);

const PARTS: [(&str, Part); 7] = [
    ("sandbox-call", sandbox_call),
    ("envelope-encode-plain", |times| encode_job(times, &job())),
    ("envelope-encode-full", |times| encode_job(times, &full_job())),
    ("envelope-decode-plain", |times| decode_job(times, &job())),
    ("envelope-decode-full", |times| decode_job(times, &full_job())),
    ("decide-complete", |times| decide(times, "complete")),
    ("decide-timed-out", |times| decide(times, "timed out")),
];

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--bench"] => PARTS.iter().for_each(|(name, _)| println!("{name}")),
        [name, times] if let Some(part) = part(name) => part(times.parse().unwrap()),
        // From `cargo test`, perhaps with words for other tests: see that each works.
        _ => PARTS.iter().for_each(|(_, part)| part(1)),
    }
}

fn part(name: &str) -> Option<Part> {
    PARTS.iter().find(|(found, _)| *found == name).map(|(_, part)| *part)
}

/// From an attempt to its report: a fresh instance, a call, a line of the log.
fn sandbox_call(times: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (component, job) = (component(), Arc::new(job()));
    runtime.block_on(async {
        for _ in 0..times {
            black_box(invoke(&component, black_box(&job)).await);
        }
    });
}

fn encode_job(times: u32, job: &gristmill::job::Job) {
    for _ in 0..times {
        black_box(encode(black_box(job))).unwrap();
    }
}

fn decode_job(times: u32, job: &gristmill::job::Job) {
    let stored = encode(job).unwrap();
    for _ in 0..times {
        black_box(decode(&job.spec.topic.tenant, job.spec.id.clone(), black_box(&stored))).unwrap();
    }
}

fn decide(times: u32, name: &str) {
    let (_, outcome) = outcomes().into_iter().find(|(found, _)| *found == name).unwrap();
    for _ in 0..times {
        black_box(verdict(black_box(outcome())));
    }
}
