//! Every bounded setting: its key, how it is written, and what is allowed. `docs/reference/manifest.md` repeats this table, and a
//! test compares the two.

use gristmill_core::units::{COUNT, DURATION, NUMBER, SIZE, Scale};

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

/// `NAME = key, scale, least to most;` for each setting.
macro_rules! ranges {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $scale:ident, $min:tt to $max:tt;)+) => {
        $($(#[$doc])* pub(super) static $name: Bounds =
            Bounds { key: $key, scale: &$scale, min: $min, max: $max };)+

        #[cfg(test)]
        pub(super) static ALL: &[&Bounds] = &[$(&$name),+];
    };
}

ranges! {
    // [server]
    SERVER_CONCURRENCY = "concurrency", NUMBER, 1 to 10_000;
    THREADS = "threads", NUMBER, 1 to 1024;
    SHUTDOWN_GRACE = "shutdown-grace", DURATION, 0 to HOUR;
    BILL_RETENTION = "bill-retention", DURATION, DAY to (3650 * DAY);

    // [store]
    REPLICAS = "replicas", NUMBER, 0 to 10;
    /// Less than a store waits for any answer.
    ACKNOWLEDGED_WITHIN = "acknowledged-within", DURATION, 10 to (4 * SECOND);

    // [handlers]
    RESCAN = "rescan", DURATION, 100 to HOUR;
    COMPONENT_LIMIT = "component-limit", SIZE, KIB to GIB;
    COMPILE_TIMEOUT = "compile-timeout", DURATION, SECOND to HOUR;
    /// A compiler of a fair-sized component needs some hundred MiB; less would refuse everything.
    COMPILE_MEMORY = "compile-memory", SIZE, (256 * MIB) to (64 * GIB);

    // [otel]
    SLOWER_THAN = "slower-than", DURATION, 1 to HOUR;

    // [journal]
    ROTATE_AT = "rotate-at", SIZE, (64 * KIB) to (1024 * GIB);
    /// Each one is renamed when the next is put aside.
    KEEP = "keep", NUMBER, 1 to 1000;

    // Topics and defaults
    CONCURRENCY = "concurrency", NUMBER, 1 to 10_000;
    /// More than all runners of a large fleet have slots.
    MAX_RUNNING = "max-running", NUMBER, 1 to 1_000_000;
    /// See `KeyLimits::MAX_RUNNING`.
    RUNNING_PER_KEY = "max-running", NUMBER, 1 to 100;
    /// See `Rate::MAX_BURST`.
    BURST = "burst", NUMBER, 1 to 100_000;
    REUSE = "reuse", NUMBER, 1 to 1_000_000;
    /// Each is asked for jobs by each runner.
    PARTITIONS = "partitions", NUMBER, 1 to 64;
    /// Instantiating the smallest component takes some thousand instructions.
    FUEL = "fuel", COUNT, 10_000 to 100_000_000_000_000;
    /// One page of Wasm memory is the least; the pool reserves address space for the most.
    MEMORY = "memory", SIZE, (64 * KIB) to GIB;
    TIMEOUT = "timeout", DURATION, 1 to HOUR;
    ATTEMPTS = "attempts", NUMBER, 1 to 1000;
    PAYLOAD_LIMIT = "payload-limit", SIZE, 0 to (64 * MIB);
    OUTPUT_LIMIT = "output-limit", SIZE, 0 to (64 * MIB);
    LOG_LIMIT = "log-limit", SIZE, 0 to (16 * MIB);
    HOST_CALLS = "host-calls", COUNT, 0 to 1_000_000_000;
    FOLLOW_UPS = "follow-ups", NUMBER, 0 to 10_000;
    CHECKPOINT_LIMIT = "checkpoint-limit", SIZE, 0 to (16 * MIB);
    STATE_LIMIT = "state-limit", SIZE, 0 to (16 * MIB);
    STATE_TTL = "state-ttl", DURATION, SECOND to (3650 * DAY);
    RESULT_RETENTION = "result-retention", DURATION, 0 to (365 * DAY);
    ENDED_RETENTION = "ended-retention", DURATION, 0 to (30 * DAY);
    TTL = "ttl", DURATION, 1 to (365 * DAY);
    DEAD_LIMIT = "dead-limit", COUNT, 0 to 10_000_000;
    DEAD_RETENTION = "dead-retention", DURATION, (60 * SECOND) to (3650 * DAY);
    /// The runner keeps the ids of so many jobs.
    PAUSE_AFTER_TRAPS = "pause-after-traps", NUMBER, 0 to 1000;

    // The table `http` of a topic
    HTTP_TIMEOUT = "timeout", DURATION, 1 to (300 * SECOND);
    /// A request and its answer are in the host's memory, once for every attempt that is running.
    REQUEST_LIMIT = "request-limit", SIZE, 0 to (64 * MIB);
    RESPONSE_LIMIT = "response-limit", SIZE, 0 to (64 * MIB);
    REQUESTS = "requests", NUMBER, 1 to 10_000;

    // A topic's tables `schedule`
    EVERY = "every", DURATION, SECOND to (366 * DAY);
    TICK_JITTER = "jitter", DURATION, 0 to DAY;

    // The tables `limits`
    REQUESTS_PER_SECOND = "requests-per-second", NUMBER, 1 to 1_000_000;
    STORED_JOBS = "stored-jobs", COUNT, 1 to 1_000_000_000;
    STORED_BYTES = "stored-bytes", SIZE, (64 * KIB) to (1024 * GIB);
    TOPICS = "topics", COUNT, 0 to 1_000_000;
    PAYLOAD = "payload", SIZE, 0 to (64 * MIB);
    KEEP_RESULT = "keep-result", DURATION, 0 to (3650 * DAY);
    /// An `Idempotency-Key` is held for a day.
    UNIQUE_WINDOW = "unique-window", DURATION, DAY to (3650 * DAY);
    REQUESTS_AT_ONCE = "concurrency", NUMBER, 1 to 100_000;
    WEIGHT = "weight", NUMBER, 1 to 1000;
    RUNNING_OF_TENANT = "max-running", NUMBER, 1 to 1_000_000;
    JOBS_PER_DAY = "jobs-per-day", COUNT, 1 to 1_000_000_000_000;
    /// Sums up to this are whole numbers in a double.
    FUEL_PER_HOUR = "fuel-per-hour", COUNT, 10_000 to 1_000_000_000_000_000;

    // The table `backoff`; `backoff = "…"` is held to the bounds of `base`.
    BACKOFF_BASE = "base", DURATION, 0 to (7 * DAY);
    BACKOFF_MAX = "max", DURATION, 0 to (30 * DAY);
    JITTER = "jitter", NUMBER, 0 to 100;
}

impl Bounds {
    /// "1ms to 1h".
    pub(super) fn range(&self) -> String {
        format!("{} to {}", self.scale.show(self.min), self.scale.show(self.max))
    }
}
