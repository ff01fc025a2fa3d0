//! Whether requests and jobs may come in, as far as the limits of tokens and tenants go.

use std::collections::BTreeMap;

use crate::auth::identity::Identity;
use crate::limits::TenantPermit;
use crate::problem::{COME_AGAIN, Code, Problem};
use crate::state::AppState;
use gristmill_config::TenantLimits;
use gristmill_core::job::{Name, NewJob};

impl AppState {
    /// Counts a request of the caller, which goes on until the pass is dropped. None: nobody counts.
    ///
    /// # Errors
    /// It is more than its token or its tenant may ask for: `rate-limited`, and when to come again.
    pub(crate) fn enter(&self, identity: &Identity) -> Result<Option<TenantPermit>, Problem> {
        let Some(token) = identity.token() else { return Ok(None) };
        let limits = token.tenant.as_ref().map(|tenant| self.limits_of(tenant)).unwrap_or_default();
        self.tenant_limiter.enter(token, limits).map(Some)
    }

    /// Whether these jobs may be pushed, as far as their tenants' limits go. Every door asks before it pushes. Their tenants
    /// are looked after from now on, or what is delayed would wait for the next look at the store.
    ///
    /// # Errors
    /// `too-large`: a body is too long. `too-many-jobs`: there is no place for them; nothing was counted for tenants that
    /// come after the one that is full.
    pub(crate) async fn admit(&self, jobs: &[NewJob]) -> Result<(), Problem> {
        let mut more: BTreeMap<&Name, u64> = BTreeMap::new();
        for job in jobs {
            let (spec, limits) = (&job.spec, self.limits_of(&job.spec.topic.tenant));
            let bytes = spec.body.data.len() as u64;
            if let Some(most) = limits.payload_bytes.filter(|most| bytes > *most) {
                let detail =
                    format!("the body of job {} has {bytes} bytes; the tenant's jobs may have {most}", spec.id);
                return Err(Problem::new(Code::TooLarge, detail));
            }
            *more.entry(&spec.topic.tenant).or_default() += 1;
        }
        for (tenant, more) in more {
            self.tenants.note(tenant);
            let Some(most) = self.limits_of(tenant).stored_jobs else { continue };
            if !self.stored_jobs.let_in(&*self.store, tenant, more, most).await? {
                let detail = format!("the tenant may have {most} jobs in the store, dead ones included");
                return Err(Problem::new(Code::TooManyJobs, detail).retry_after(COME_AGAIN));
            }
        }
        Ok(())
    }

    fn limits_of(&self, tenant: &Name) -> TenantLimits {
        self.topics().limits(tenant)
    }
}
