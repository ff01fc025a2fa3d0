//! How much memory an instance may have.

use wasmtime::ResourceLimiter;

/// Limits the linear memories of one [`wasmtime::Store`] (an instance and its state, not the store of jobs) in total;
/// [`wasmtime::StoreLimits`] limits each by itself.
#[derive(Debug)]
pub(super) struct MemoryLimiter {
    limit: usize,
    in_use: usize,
    peak: usize,
    /// What the growth under way adds; taken back if it fails.
    growing: usize,
    denied: bool,
}

impl MemoryLimiter {
    pub(super) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { limit, in_use: 0, peak: 0, growing: 0, denied: false }
    }

    /// For another attempt in the same instance: what it holds already counts, what was before does not.
    pub(super) fn holding(mut self, before: &Self) -> Self {
        (self.in_use, self.peak) = (before.in_use, before.in_use);
        self
    }

    /// Bytes now. They never become fewer: a memory does not shrink.
    pub(super) fn in_use(&self) -> u64 {
        self.in_use as u64
    }

    /// Bytes.
    pub(super) fn peak(&self) -> u64 {
        self.peak as u64
    }

    /// The guest asked for more than its limit, at least once.
    pub(super) fn denied(&self) -> bool {
        self.denied
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // A refusal by the guest's own maximum is not one by our limit.
        if maximum.is_some_and(|maximum| desired > maximum && maximum < self.limit) {
            return Ok(false);
        }
        self.growing = desired.saturating_sub(current);
        let total = self.in_use.saturating_add(self.growing);
        if total > self.limit {
            self.denied = true;
            return Ok(false);
        }
        self.in_use = total;
        self.peak = self.peak.max(total);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.in_use = self.in_use.saturating_sub(self.growing);
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // The pool bounds every table alike.
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_count_together() {
        let mut limiter = MemoryLimiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.denied());
        assert!(!limiter.memory_growing(40, 41, None).unwrap());
        assert!(limiter.denied());
        assert_eq!(limiter.peak(), 100);
    }

    #[test]
    fn a_failed_growth_is_given_back() {
        let mut limiter = MemoryLimiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert!(limiter.memory_growing(0, 100, None).unwrap());
    }

    #[test]
    fn another_attempt_begins_with_what_the_instance_holds() {
        let mut first = MemoryLimiter::new(100);
        assert!(first.memory_growing(0, 60, None).unwrap());
        assert!(!first.memory_growing(60, 200, None).unwrap());
        let mut second = MemoryLimiter::new(100).holding(&first);
        assert_eq!((second.in_use(), second.peak(), second.denied()), (60, 60, false));
        assert!(!second.memory_growing(60, 101, None).unwrap());
    }

    #[test]
    fn the_guests_own_maximum_is_not_our_denial() {
        let mut limiter = MemoryLimiter::new(100);
        assert!(!limiter.memory_growing(10, 30, Some(20)).unwrap());
        assert!(!limiter.denied());
    }
}
