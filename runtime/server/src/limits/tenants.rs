//! How much callers may ask for: requests by token and by tenant, and jobs by tenant. Each server counts for itself.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::rate::Rates;
use super::shares::Share;
use crate::polled_body::{PolledBody, next_frame};
use crate::problem::{COME_AGAIN, Code, Problem};
use gristmill_config::TenantLimits;
use gristmill_core::job::Name;
use gristmill_core::token::{Rate, Token, TokenId};

/// How often each tenant asks, and which requests are being answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct TenantLimiter(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    tokens: Rates<TokenId>,
    tenants: Rates<Name>,
    /// Requests of tenants that are being answered; none is none.
    at_once: HashMap<Name, u32>,
}

/// A request that was let in. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct TenantPermit {
    quota: TenantLimiter,
    tenant: Option<Name>,
    /// Its part of the connections.
    connection: Option<Share<Name>>,
}

impl TenantLimiter {
    /// Counts a request of a client of this tenant, which has these limits. `None`: of a client for all tenants. The request
    /// counts for each of `tokens`: the one that it brings, and those with which that was made.
    ///
    /// # Errors
    /// It is one too many. The problem says when to come again.
    pub(crate) fn enter<'a>(
        &self,
        tokens: impl IntoIterator<Item = &'a Token>,
        tenant: Option<&Name>,
        limits: TenantLimits,
    ) -> Result<TenantPermit, Problem> {
        let (mut used, now) = (self.0.lock(), Instant::now());
        for token in tokens {
            let Some(rate) = token.limits.requests else { continue };
            let counted = used.tokens.count(token.id.clone(), rate, now);
            counted.map_err(|wait| {
                limited(
                    "the token's requests per second are used up: send fewer, or give the token a higher limit",
                    wait,
                )
            })?;
        }
        let Some(tenant) = tenant else {
            return Ok(TenantPermit { quota: self.clone(), tenant: None, connection: None });
        };
        if let Some(rate) = limits.requests_per_second.and_then(evenly) {
            let counted = used.tenants.count(tenant.clone(), rate, now);
            counted.map_err(|wait| limited("the tenant's requests per second are used up: send fewer, or raise `requests-per-second` in its `limits`", wait))?;
        }
        let at_once = used.at_once.entry(tenant.clone()).or_default();
        if limits.concurrency.is_some_and(|most| *at_once >= most) {
            return Err(limited(
                "the tenant has as many requests at once as it may: send fewer, or raise `concurrency` in its `limits`",
                COME_AGAIN,
            ));
        }
        *at_once += 1;
        Ok(TenantPermit { quota: self.clone(), tenant: Some(tenant.clone()), connection: None })
    }
}

/// As many a second as may come at once.
fn evenly(per_second: u32) -> Option<Rate> {
    NonZero::new(per_second).map(|per_second| Rate { per_second, burst: per_second })
}

fn limited(detail: &str, wait: Duration) -> Problem {
    Problem::new(Code::RateLimited, detail).retry_after(wait)
}

impl TenantPermit {
    /// Keeps this part of the connections for as long.
    pub(crate) fn keeping(mut self, connection: Option<Share<Name>>) -> Self {
        self.connection = connection;
        self
    }

    /// Keeps the permit until the answer's body is sent or given up.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        response.map(|body| {
            Body::new(PolledBody::new(body, move |body, context| {
                let _held = &self;
                next_frame(body, context)
            }))
        })
    }
}

impl Drop for TenantPermit {
    fn drop(&mut self) {
        let Some(tenant) = &self.tenant else { return };
        let mut used = self.quota.0.lock();
        if let Some(at_once) = used.at_once.get_mut(tenant) {
            *at_once -= 1;
            if *at_once == 0 {
                used.at_once.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::HttpBody;
    use http_body_util::BodyExt;

    use super::*;
    use gristmill_core::time::Timestamp;
    use gristmill_core::token::{TokenHash, TokenLimits};

    fn token(text: &str, tenant: Option<&str>) -> Token {
        Token {
            id: TokenHash::of(text).id(),
            tenant: tenant.map(|tenant| tenant.parse().unwrap()),
            scopes: [].into(),
            description: String::new(),
            created_at: Timestamp::default(),
            expires_at: None,
            limits: TokenLimits::default(),
            made_by: None,
        }
    }

    fn enter(limiter: &TenantLimiter, token: &Token, limits: TenantLimits) -> Result<TenantPermit, Problem> {
        limiter.enter([token], token.tenant.as_ref(), limits)
    }

    fn at_once(most: u32) -> TenantLimits {
        TenantLimits { concurrency: Some(most), ..TenantLimits::default() }
    }

    #[test]
    fn so_many_requests_at_once_and_no_more() {
        let (quota, a, b) = (TenantLimiter::default(), token("a", Some("acme")), token("b", Some("acme")));
        let first = enter(&quota, &a, at_once(2)).unwrap();
        let second = enter(&quota, &b, at_once(2)).unwrap();
        let refused = enter(&quota, &b, at_once(2)).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (Code::RateLimited, Some(COME_AGAIN)));
        assert!(refused.detail.contains("raise `concurrency`"), "{}", refused.detail);
        enter(&quota, &token("c", Some("other")), at_once(1)).unwrap();
        drop(first);
        drop((enter(&quota, &a, at_once(2)).unwrap(), second));
        assert!(quota.0.lock().at_once.is_empty(), "a tenant without requests is not remembered");
    }

    #[test]
    fn tokens_of_a_tenant_share_its_rate_and_operators_have_none() {
        let limits = TenantLimits { requests_per_second: Some(2), ..TenantLimits::default() };
        let quota = TenantLimiter::default();
        for text in ["a", "b"] {
            enter(&quota, &token(text, Some("acme")), limits).unwrap();
        }
        // Each with a token of its own. The first of them is one too many, unless half a second has passed meanwhile.
        let refused = (0..1000).find_map(|n| enter(&quota, &token(&n.to_string(), Some("acme")), limits).err());
        assert_eq!(refused.unwrap().code, Code::RateLimited);
        enter(&quota, &token("a", Some("other")), limits).unwrap();
        for _ in 0..10 {
            enter(&quota, &token("d", None), limits).unwrap();
        }
    }

    #[test]
    fn tokens_that_were_made_with_a_token_share_its_rate() {
        let one = NonZero::<u32>::MIN;
        let limited = |text: &str| {
            let requests = Some(Rate { per_second: one, burst: NonZero::new(5).unwrap() });
            Token { limits: TokenLimits { requests, throttle: None }, ..token(text, Some("acme")) }
        };
        let (limiter, maker) = (TenantLimiter::default(), limited("maker"));
        let ask = |n: usize| {
            let child = limited(&n.to_string());
            limiter.enter([&child, &maker], maker.tenant.as_ref(), TenantLimits::default()).map(drop)
        };
        let refused = (0..1000).find(|n| ask(*n).is_err());
        assert!(refused.is_some_and(|first| first >= 5), "{refused:?}");
    }

    #[tokio::test]
    async fn an_answer_is_being_given_until_its_body_is_sent() {
        let (quota, a) = (TenantLimiter::default(), token("a", Some("acme")));
        let response = enter(&quota, &a, at_once(1)).unwrap().until_sent(Response::new(Body::from("x")));
        assert!(enter(&quota, &a, at_once(1)).is_err());
        assert_eq!(response.body().size_hint().exact(), Some(1));
        response.into_body().collect().await.unwrap();
        enter(&quota, &a, at_once(1)).unwrap();
    }
}
