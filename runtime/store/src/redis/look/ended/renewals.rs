//! When what is remembered of jobs that have ended was last given its full time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// When the texts of this process were last given their full time.
#[derive(Debug, Default)]
pub(in crate::redis) struct Renewals(Mutex<HashMap<String, Instant>>);

impl Renewals {
    /// As many texts are known at a time.
    const KNOWN: usize = 10_000;

    /// Whether the text of this key is to expire from now on: it was not, a good while ago. It lasts for twice as long as what is in it.
    pub(in crate::redis) fn is_time(&self, key: String, keep: Duration) -> bool {
        let (mut known, now) = (self.0.lock(), Instant::now());
        if known.get(&key).is_some_and(|last| now.duration_since(*last) < keep / 2) {
            return false;
        }
        if known.len() >= Self::KNOWN {
            known.clear();
        }
        known.insert(key, now);
        true
    }
}
