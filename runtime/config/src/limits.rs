//! `[tenants.NAME.limits]`, and `[limits]` for the default tenant: how much a tenant may ask of the server.

use std::time::Duration;

use super::ranges;
use super::read::Section;
use gristmill_core::admission::{TenantRules, USUAL_SPAN};
use gristmill_core::topic::TenantFleetLimits;

/// The topics that a tenant may have beside those of the manifest and of components, unless it has a limit of its own.
const TOPICS: u64 = 1000;

/// The weight of a tenant that names none.
const WEIGHT: u32 = 1;

/// None: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantLimits {
    /// Of all its tokens together; as many may come at once.
    pub requests_per_second: Option<u32>,
    /// Ready, delayed, running and dead ones.
    pub stored_jobs: Option<u64>,
    /// Of jobs, failures, checkpoints, unique values and results. `None`: half of what the store can hold.
    pub stored_bytes: Option<u64>,
    /// Topics that neither the manifest nor a component makes: a push makes them.
    pub topics: u64,
    /// Bytes of a job's body.
    pub payload_bytes: Option<u64>,
    /// The longest keeping of its result that a job may ask for.
    pub keep_result: Duration,
    /// The longest unique window that a job may ask for.
    pub unique_window: Duration,
    /// Requests that are being answered, those that wait included.
    pub concurrency: Option<u32>,
    /// Its part of each runner where several tenants have jobs, beside the weights of the others.
    pub weight: u32,
    /// What its jobs may do in all runners together.
    pub fleet: TenantFleetLimits,
    /// What is in its jobs is answered to workers, and to tokens that may do everything in all tenants.
    pub hide_payloads: bool,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            stored_jobs: None,
            stored_bytes: None,
            topics: TOPICS,
            payload_bytes: None,
            keep_result: USUAL_SPAN,
            unique_window: USUAL_SPAN,
            concurrency: None,
            weight: WEIGHT,
            fleet: TenantFleetLimits::NONE,
            hide_payloads: false,
        }
    }
}

impl TenantLimits {
    /// What every new job of the tenant is held to.
    pub fn rules(&self) -> TenantRules {
        let Self { payload_bytes, keep_result, unique_window, .. } = *self;
        TenantRules { payload_bytes, keep_result, unique_window }
    }
}

/// None: the section is not there.
pub(super) fn limits(outer: &mut Section<'_>) -> Option<TenantLimits> {
    let mut section = outer.section("limits")?;
    let mut hide_payloads = false;
    section.boolean("hide-payloads", &mut hide_payloads);
    let limits = TenantLimits {
        hide_payloads,
        requests_per_second: section.limit(&ranges::REQUESTS_PER_SECOND),
        stored_jobs: section.limit(&ranges::STORED_JOBS),
        stored_bytes: section.limit(&ranges::STORED_BYTES),
        topics: section.limit(&ranges::TOPICS).unwrap_or(TOPICS),
        payload_bytes: section.limit(&ranges::PAYLOAD),
        keep_result: section.limit(&ranges::KEEP_RESULT).unwrap_or(USUAL_SPAN),
        unique_window: section.limit(&ranges::UNIQUE_WINDOW).unwrap_or(USUAL_SPAN),
        concurrency: section.limit(&ranges::REQUESTS_AT_ONCE),
        weight: section.limit(&ranges::WEIGHT).unwrap_or(WEIGHT),
        fleet: TenantFleetLimits {
            max_running: section.limit(&ranges::RUNNING_OF_TENANT),
            jobs_per_day: section.limit(&ranges::JOBS_PER_DAY),
            fuel_per_hour: section.limit(&ranges::FUEL_PER_HOUR),
        },
    };
    section.finish();
    Some(limits)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;
    use gristmill_core::job::Name;

    #[test]
    fn tenants_have_limits_of_their_own_and_the_default_one_too() {
        let acme =
            "requests-per-second = 5\nstored-jobs = \"2k\"\nstored-bytes = \"1GiB\"\ntopics = 5\npayload = \"1KiB\"
                    keep-result = \"1h\"\nunique-window = \"2d\"\nweight = 3\nmax-running = 50\nhide-payloads = true
                    jobs-per-day = \"100k\"\nfuel-per-hour = \"5T\"";
        let manifest = parse(&format!("[limits]\nconcurrency = 3\n[tenants.acme.limits]\n{acme}"));
        let limits = |tenant: &str| manifest.limits.get(&tenant.parse::<Name>().unwrap()).copied();
        assert_eq!(limits("default"), Some(TenantLimits { concurrency: Some(3), ..TenantLimits::default() }));
        let acme = TenantLimits {
            requests_per_second: Some(5),
            stored_jobs: Some(2000),
            stored_bytes: Some(1 << 30),
            topics: 5,
            payload_bytes: Some(1024),
            keep_result: Duration::from_secs(3600),
            unique_window: Duration::from_secs(2 * 86_400),
            concurrency: None,
            weight: 3,
            fleet: TenantFleetLimits {
                max_running: Some(50),
                jobs_per_day: Some(100_000),
                fuel_per_hour: Some(5_000_000_000_000),
            },
            hide_payloads: true,
        };
        assert_eq!(limits("acme"), Some(acme));
        assert_eq!(limits("other"), None);
    }

    #[test]
    fn every_topic_of_a_tenant_has_the_limits_that_hold_for_all_of_them() {
        let manifest = parse(
            "[limits]\nmax-running = 3\n[topics.a]\nmax-running = 2\n[tenants.acme.limits]\njobs-per-day = 7\n[tenants.acme.topics.b]",
        );
        let fleet = |id: &str| manifest.topics[&id.parse().unwrap()].fleet;
        let three = TenantFleetLimits { max_running: Some(3), ..TenantFleetLimits::NONE };
        assert_eq!((fleet("a").max_running, fleet("a").tenant), (Some(2), three));
        assert_eq!(manifest.auto_topic(&"c".parse().unwrap()).fleet.tenant, three);
        let seven = TenantFleetLimits { jobs_per_day: Some(7), ..TenantFleetLimits::NONE };
        assert_eq!((fleet("acme/b").max_running, fleet("acme/b").tenant), (None, seven));
    }
}
