//! Who asks, and what they may do.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::problem::Problem;
use crate::job::Name;

/// What a request wants to do in a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// Bring jobs.
    Push,
    /// Claim and settle jobs.
    Work,
    /// Look at jobs and topics.
    Read,
    /// Everything else: cancel, pause, respawn, delete, components, tokens.
    Admin,
}

/// Whoever sent the request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {}

impl Caller {
    /// # Errors
    /// The caller has no business in this tenant, or not of this kind. The answer is the same whether or not there is such a
    /// tenant.
    pub(crate) fn may(&self, _scope: Scope, _tenant: &Name) -> Result<(), Problem> {
        Ok(())
    }

    /// Over all tenants, as whoever keeps the server.
    ///
    /// # Errors
    /// The caller belongs to one tenant.
    pub(crate) fn may_everywhere(&self, _scope: Scope) -> Result<(), Problem> {
        Ok(())
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(_parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self {})
    }
}
