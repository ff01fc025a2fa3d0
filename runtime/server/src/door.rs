//! Who is let in, and how much they may ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::caller::{self, Caller};
use super::guard;
use super::keyring::Keyring;
use super::limits::HttpLimits;
use super::problem::{Code, Problem};
use super::quota::{Pass, Quota, Stored};
use super::room::Room;
use gristmill_config::{TenantLimits, TlsSettings};
use gristmill_core::job::{Name, NewJob};
use gristmill_core::token::TokenHash;
use gristmill_metrics::Metrics;
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_store::{Store, StoreError};

/// Where it is told what was counted.
const METRICS: &str = "/metrics";

/// How a server is to let others in.
#[derive(Debug, Clone, Default)]
pub struct DoorSettings {
    pub limits: HttpLimits,
    /// Whether everybody may come in who can reach it, as long as there are no tokens. On loopback that is so anyway.
    pub insecure: bool,
    /// None: plain HTTP.
    pub tls: Option<TlsSettings>,
    /// The topics and tenants as the manifest has them, without handlers: what is known while those are being read.
    pub plan: Arc<HandlerRegistry>,
    /// Where it is counted what comes in.
    pub metrics: Arc<Metrics>,
}

/// What all routes share of it. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) keyring: Arc<Keyring>,
    quota: Quota,
    stored: Arc<Stored>,
    /// What commands of this machine say, which can read it where the server wrote it down.
    secret: TokenHash,
    loopback: bool,
    insecure: bool,
    pub(super) plan: Arc<HandlerRegistry>,
}

impl Door {
    pub(super) fn new(store: Arc<dyn Store>, secret: TokenHash, loopback: bool, settings: &DoorSettings) -> Self {
        Self {
            keyring: Arc::new(Keyring::new(store)),
            quota: Quota::default(),
            stored: Arc::default(),
            secret,
            loopback,
            insecure: settings.insecure,
            plan: settings.plan.clone(),
        }
    }

    /// Whether no tokens are asked for.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(super) async fn is_open(&self) -> Result<bool, StoreError> {
        Ok((self.loopback || self.insecure) && !self.keyring.has_any().await?)
    }

    /// Whether no tokens were asked for when the store last said whether there are any.
    fn was_open(&self) -> bool {
        (self.loopback || self.insecure) && self.keyring.had_none()
    }

    /// Whether a request must be for a name of this machine: where nobody is asked for a token.
    pub(super) async fn minds_the_host(&self) -> bool {
        self.loopback && self.is_open().await.unwrap_or_else(|_| self.was_open())
    }

    pub(super) fn is_own_secret(&self, hash: &TokenHash) -> bool {
        self.secret.is(hash)
    }
}

impl Room {
    /// Counts a request of the caller, which goes on until the pass is dropped. None: nobody counts.
    ///
    /// # Errors
    /// It is more than its token or its tenant may ask for: `rate-limited`, and when to come again.
    pub(super) fn enter(&self, caller: &Caller) -> Result<Option<Pass>, Problem> {
        let Some(token) = caller.token() else { return Ok(None) };
        let limits = token.tenant.as_ref().map(|tenant| self.limits_of(tenant)).unwrap_or_default();
        self.door.quota.enter(token, limits).map(Some)
    }

    /// Whether these jobs may be pushed, as far as their tenants' limits go. Every door asks before it pushes. Their tenants
    /// are looked after from now on, or what is delayed would wait for the next look at the store.
    ///
    /// # Errors
    /// `too-large`: a body is too long. `too-many-jobs`: there is no place for them; nothing was counted for tenants that
    /// come after the one that is full.
    pub(super) async fn admit(&self, jobs: &[NewJob]) -> Result<(), Problem> {
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
            if !self.door.stored.let_in(&*self.store, tenant, more, most).await? {
                let detail = format!("the tenant may have {most} jobs in the store, dead ones included");
                return Err(Problem::new(Code::TooManyJobs, detail).retry_after(caller::COME_AGAIN));
            }
        }
        Ok(())
    }

    fn limits_of(&self, tenant: &Name) -> TenantLimits {
        self.topics().limits(tenant)
    }
}

/// Where requests come in. Health answers everybody; lmstfy's paths see to their tokens themselves.
pub(super) async fn enter(State(room): State<Room>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let measures = path == METRICS;
    let (health, ours) = (matches!(path, "/healthz" | "/readyz"), asks_for_tokens(path));
    if health {
        return next.run(request).await;
    }
    let host = guard::check_host(&request);
    if let (true, Err(problem)) = (room.door.minds_the_host().await, host) {
        return problem.into_response();
    }
    if !ours {
        return next.run(request).await;
    }
    let caller = match caller::identify(&room, request.headers()).await {
        // Whoever watches over a server wants to hear most of all that its store is away.
        Err(problem) if problem.code == Code::StoreAway && measures && room.door.was_open() => Ok(Caller::anybody()),
        caller => caller,
    };
    let pass = match caller {
        Ok(caller) => room.enter(&caller).inspect(|_| _ = request.extensions_mut().insert(caller)),
        Err(problem) => Err(problem),
    };
    match pass {
        Ok(None) => next.run(request).await,
        Ok(Some(pass)) => pass.until_sent(next.run(request).await),
        Err(problem) => problem.into_response(),
    }
}

fn asks_for_tokens(path: &str) -> bool {
    path == METRICS || path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_paths_ask_for_tokens() {
        for (path, asks) in [
            ("/v1", true),
            ("/v1/", true),
            ("/v1/jobs", true),
            ("/metrics", true),
            ("/v1x", false),
            ("/v2", false),
            ("/healthz", false),
            ("/api/a/b", false),
        ] {
            assert_eq!(asks_for_tokens(path), asks, "{path}");
        }
    }
}
