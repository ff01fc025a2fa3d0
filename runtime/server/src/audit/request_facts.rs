//! What is found out about a request on its way to its route.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::openapi::{Argument, Requirement};
use gristmill_core::job::Name;
use gristmill_core::token::{Scope, Token, TokenId};

/// What is found out about a request. Clones share it. Where nothing is recorded, it keeps nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestFacts(Option<Arc<Mutex<Facts>>>);

/// The client of a request, and what the request does.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) client: ClientKind,
    pub(super) token: Option<TokenId>,
    pub(super) tenant: Option<Name>,
    pub(super) account: Option<String>,
    /// The client, for people; empty if it is not known.
    pub(super) actor: String,
    /// The request does what needs the scope `admin`.
    pub(super) administers: bool,
    pub(super) made: Option<String>,
}

/// How a client was identified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClientKind {
    /// One with a token.
    Token,
    /// An account of lmstfy's admin API.
    Account,
    /// A command on this machine, with the server's own secret.
    Command,
    /// Any client, where requests need no token.
    Anybody,
    /// It was refused before, or there was nothing to identify it by.
    #[default]
    Unknown,
}

impl RequestFacts {
    pub(super) fn begin() -> Self {
        Self(Some(Arc::default()))
    }

    /// The facts of the request that these extensions belong to.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// The client was identified, perhaps by a token.
    pub(crate) fn identified(&self, client: ClientKind, token: Option<&Token>, actor: impl FnOnce() -> String) {
        self.note(|facts| {
            facts.client = client;
            facts.actor = actor();
            facts.token = token.map(|token| token.id.clone());
            facts.tenant = token.and_then(|token| token.tenant.clone());
        });
    }

    /// The client used an account of lmstfy's admin API; `None` if that needs none.
    pub(crate) fn administers_as(&self, account: Option<String>) {
        self.note(|facts| {
            facts.client = if account.is_some() { ClientKind::Account } else { ClientKind::Anybody };
            facts.actor = account.clone().unwrap_or_default();
            facts.account = account;
            facts.administers = true;
        });
    }

    /// The route asks this of a token.
    pub(crate) fn requires(&self, requirement: Requirement) {
        if let Requirement::InTenant(Scope::Admin) | Requirement::Everywhere(Scope::Admin) = requirement {
            self.administers();
        }
    }

    /// The request does what needs the scope `admin`.
    pub(crate) fn administers(&self) {
        self.note(|facts| facts.administers = true);
    }

    /// The request made this: a token or a bulk action, by its id.
    pub(crate) fn made(&self, id: &str) {
        self.note(|facts| facts.made = Some(id.to_owned()));
    }

    pub(super) fn snapshot(&self) -> Facts {
        self.0.as_ref().map(|facts| facts.lock().clone()).unwrap_or_default()
    }

    fn note(&self, note: impl FnOnce(&mut Facts)) {
        if let Some(facts) = &self.0 {
            note(&mut facts.lock());
        }
    }
}

impl<S: Sync> FromRequestParts<S> for RequestFacts {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

impl Argument for RequestFacts {}
