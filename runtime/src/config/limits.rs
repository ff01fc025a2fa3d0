//! `[tenants.NAME.limits]`, and `[limits]` for the default tenant: how much a tenant may ask for at the server's door.

use super::ranges;
use super::read::Section;

/// None: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Of all its tokens together; as many may come at once.
    pub requests_per_second: Option<u32>,
    /// Ready, delayed, running and dead ones.
    pub stored_jobs: Option<u64>,
    /// Bytes of a job's body.
    pub payload_bytes: Option<u64>,
    /// Requests that are being answered, those that wait included.
    pub concurrency: Option<u32>,
}

/// None: the section is not there.
pub(super) fn limits(outer: &mut Section<'_>) -> Option<TenantLimits> {
    let mut section = outer.section("limits")?;
    let limits = TenantLimits {
        requests_per_second: section.limit(&ranges::REQUESTS_PER_SECOND),
        stored_jobs: section.limit(&ranges::STORED_JOBS),
        payload_bytes: section.limit(&ranges::PAYLOAD),
        concurrency: section.limit(&ranges::REQUESTS_AT_ONCE),
    };
    section.finish();
    Some(limits)
}
