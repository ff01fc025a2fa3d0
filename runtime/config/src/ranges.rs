//! Every bounded setting: its key, how it is written, and what is allowed. `docs/manifest.md` repeats this table, and a
//! test compares the two.

use super::units::{COUNT, DURATION, NUMBER, SIZE, Scale};

/// The allowed values of one key, both ends included, in the base of its scale.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) key: &'static str,
    pub(super) scale: &'static Scale,
    pub(super) min: u64,
    pub(super) max: u64,
}

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn bounds(key: &'static str, scale: &'static Scale, min: u64, max: u64) -> Bounds {
    Bounds { key, scale, min, max }
}

// [server]
pub(super) static SERVER_CONCURRENCY: Bounds = bounds("concurrency", &NUMBER, 1, 10_000);
pub(super) static THREADS: Bounds = bounds("threads", &NUMBER, 1, 1024);
pub(super) static SHUTDOWN_GRACE: Bounds = bounds("shutdown-grace", &DURATION, 0, HOUR);

// [handlers]
pub(super) static RESCAN: Bounds = bounds("rescan", &DURATION, 100, HOUR);
pub(super) static COMPONENT_LIMIT: Bounds = bounds("component-limit", &SIZE, KIB, GIB);
pub(super) static COMPILE_TIMEOUT: Bounds = bounds("compile-timeout", &DURATION, SECOND, HOUR);
/// A compiler of a fair-sized component needs some hundred MiB; less would refuse everything.
pub(super) static COMPILE_MEMORY: Bounds = bounds("compile-memory", &SIZE, 256 * MIB, 64 * GIB);

// [journal]
pub(super) static ROTATE_AT: Bounds = bounds("rotate-at", &SIZE, 64 * KIB, 1024 * GIB);
/// Each one is renamed when the next is put aside.
pub(super) static KEEP: Bounds = bounds("keep", &NUMBER, 1, 1000);

// Topics and defaults
pub(super) static CONCURRENCY: Bounds = bounds("concurrency", &NUMBER, 1, 10_000);
pub(super) static REUSE: Bounds = bounds("reuse", &NUMBER, 1, 1_000_000);
/// Instantiating the smallest component takes some thousand instructions.
pub(super) static FUEL: Bounds = bounds("fuel", &COUNT, 10_000, 100_000_000_000_000);
/// One page of Wasm memory is the least; the pool reserves address space for the most.
pub(super) static MEMORY: Bounds = bounds("memory", &SIZE, 64 * KIB, GIB);
pub(super) static TIMEOUT: Bounds = bounds("timeout", &DURATION, 1, HOUR);
pub(super) static ATTEMPTS: Bounds = bounds("attempts", &NUMBER, 1, 1000);
pub(super) static PAYLOAD_LIMIT: Bounds = bounds("payload-limit", &SIZE, 0, 64 * MIB);
pub(super) static OUTPUT_LIMIT: Bounds = bounds("output-limit", &SIZE, 0, 64 * MIB);
pub(super) static LOG_LIMIT: Bounds = bounds("log-limit", &SIZE, 0, 16 * MIB);
pub(super) static HOST_CALLS: Bounds = bounds("host-calls", &COUNT, 0, 1_000_000_000);
pub(super) static FOLLOW_UPS: Bounds = bounds("follow-ups", &NUMBER, 0, 10_000);
pub(super) static CHECKPOINT_LIMIT: Bounds = bounds("checkpoint-limit", &SIZE, 0, 16 * MIB);
pub(super) static RESULT_RETENTION: Bounds = bounds("result-retention", &DURATION, 0, 365 * DAY);
pub(super) static TTL: Bounds = bounds("ttl", &DURATION, 1, 365 * DAY);
pub(super) static DEAD_LIMIT: Bounds = bounds("dead-limit", &COUNT, 0, 10_000_000);
pub(super) static DEAD_RETENTION: Bounds = bounds("dead-retention", &DURATION, 60 * SECOND, 3650 * DAY);

// The table `http` of a topic
pub(super) static HTTP_TIMEOUT: Bounds = bounds("timeout", &DURATION, 1, 300 * SECOND);
/// A request and its answer are in the host's memory, once for every attempt that is running.
pub(super) static REQUEST_LIMIT: Bounds = bounds("request-limit", &SIZE, 0, 64 * MIB);
pub(super) static RESPONSE_LIMIT: Bounds = bounds("response-limit", &SIZE, 0, 64 * MIB);
pub(super) static REQUESTS: Bounds = bounds("requests", &NUMBER, 1, 10_000);

// The tables `limits`
pub(super) static REQUESTS_PER_SECOND: Bounds = bounds("requests-per-second", &NUMBER, 1, 1_000_000);
pub(super) static STORED_JOBS: Bounds = bounds("stored-jobs", &COUNT, 1, 1_000_000_000);
pub(super) static PAYLOAD: Bounds = bounds("payload", &SIZE, 0, 64 * MIB);
pub(super) static REQUESTS_AT_ONCE: Bounds = bounds("concurrency", &NUMBER, 1, 100_000);

// The table `backoff`; `backoff = "…"` is held to the bounds of `base`.
pub(super) static BACKOFF_BASE: Bounds = bounds("base", &DURATION, 0, 7 * DAY);
pub(super) static BACKOFF_MAX: Bounds = bounds("max", &DURATION, 0, 30 * DAY);
pub(super) static JITTER: Bounds = bounds("jitter", &NUMBER, 0, 100);

#[cfg(test)]
pub(super) static ALL: [&Bounds; 36] = [
    &SERVER_CONCURRENCY,
    &THREADS,
    &SHUTDOWN_GRACE,
    &RESCAN,
    &COMPONENT_LIMIT,
    &COMPILE_TIMEOUT,
    &COMPILE_MEMORY,
    &ROTATE_AT,
    &KEEP,
    &CONCURRENCY,
    &REUSE,
    &FUEL,
    &MEMORY,
    &TIMEOUT,
    &ATTEMPTS,
    &PAYLOAD_LIMIT,
    &OUTPUT_LIMIT,
    &LOG_LIMIT,
    &HOST_CALLS,
    &FOLLOW_UPS,
    &CHECKPOINT_LIMIT,
    &RESULT_RETENTION,
    &TTL,
    &DEAD_LIMIT,
    &DEAD_RETENTION,
    &HTTP_TIMEOUT,
    &REQUEST_LIMIT,
    &RESPONSE_LIMIT,
    &REQUESTS,
    &REQUESTS_PER_SECOND,
    &STORED_JOBS,
    &PAYLOAD,
    &REQUESTS_AT_ONCE,
    &BACKOFF_BASE,
    &BACKOFF_MAX,
    &JITTER,
];

impl Bounds {
    /// "1ms to 1h".
    pub(super) fn range(&self) -> String {
        format!("{} to {}", self.scale.show(self.min), self.scale.show(self.max))
    }
}
