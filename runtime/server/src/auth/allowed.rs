//! What a route asks of a token, stated in the signature of its route function.
//!
//! The first argument of a route function is [`Allowed`] (a scope over what the path names), [`AllowedQuery`] (a scope in each
//! tenant that the query names), [`AllowedDocument`] (the same of the body), [`AnyToken`] or [`Public`].
//! [`crate::routes::Routes`] takes no other functions, so a route without one of them does not compile.
//! lmstfy's routes check scopes themselves.

use std::marker::PhantomData;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::identity::{Identity, Scope};
use crate::extract::{Document, Head};
use crate::openapi::{Argument, Gate, InPath, Operation, Requirement};
use crate::problem::{Code, Problem};
use crate::state::AppState;
use crate::wire::NamesTenants;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::trace::TRACEPARENT;

/// The scopes as types.
pub(crate) mod scope {
    use super::{RequiredScope, Scope};

    macro_rules! scopes {
        ($($name:ident)*) => {$(
            #[derive(Debug)]
            pub(crate) struct $name;

            impl RequiredScope for $name {
                const SCOPE: Scope = Scope::$name;
            }
        )*};
    }

    scopes!(Push Work Read Admin);
}

pub(crate) trait RequiredScope: Send {
    const SCOPE: Scope;
}

impl Identity {
    fn may_in_each<S: RequiredScope>(&self, request: &impl NamesTenants) -> Result<(), Problem> {
        request.tenants().try_for_each(|tenant| self.may(S::SCOPE, tenant))
    }
}

/// A request whose token has the scope `S` over `T`, which is read from the path, and what it is answered from.
#[derive(Debug)]
pub(crate) struct Allowed<S, T> {
    pub(crate) over: T,
    pub(crate) identity: Identity,
    pub(crate) state: AppState,
    scope: PhantomData<S>,
}

/// What a scope must hold over.
pub(crate) trait Target {
    const IS_ONE_TENANT: bool = true;

    /// `None`: all tenants.
    fn tenant(&self) -> Option<&Name>;
}

impl Target for Name {
    fn tenant(&self) -> Option<&Name> {
        Some(self)
    }
}

impl Target for TopicId {
    fn tenant(&self) -> Option<&Name> {
        Some(&self.tenant)
    }
}

/// A tenant, and something of it.
impl<A> Target for (Name, A) {
    fn tenant(&self) -> Option<&Name> {
        Some(&self.0)
    }
}

/// A tenant, a topic, and something of the topic.
impl<A> Target for (Name, Name, A) {
    fn tenant(&self) -> Option<&Name> {
        Some(&self.0)
    }
}

/// All tenants, whatever else the path names.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct AllTenants<P = ()>(pub(crate) P);

impl<P> Target for AllTenants<P> {
    const IS_ONE_TENANT: bool = false;

    fn tenant(&self) -> Option<&Name> {
        None
    }
}

impl<S, T> FromRequestParts<AppState> for Allowed<S, T>
where
    S: RequiredScope,
    T: Target + DeserializeOwned + Send,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let identity = Identity::from_request_parts(parts, state).await?;
        let path = Path::<T>::from_request_parts(parts, state).await;
        let Path(over) = path.map_err(|rejection| Problem::from(rejection).into_response())?;
        let allowed = match over.tenant() {
            Some(tenant) => identity.may(S::SCOPE, tenant),
            None => identity.may_everywhere(S::SCOPE),
        };
        allowed.map_err(IntoResponse::into_response)?;
        Ok(Self { over, identity, state: state.clone(), scope: PhantomData })
    }
}

/// A request that any valid token may send.
#[derive(Debug)]
pub(crate) struct AnyToken(pub(crate) Identity);

impl<A: Send + Sync> FromRequestParts<A> for AnyToken {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &A) -> Result<Self, Response> {
        Identity::from_request_parts(parts, state).await.map(Self)
    }
}

/// A request that needs no token.
#[derive(Debug)]
pub(crate) struct Public;

impl<A: Send + Sync> FromRequestParts<A> for Public {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(_: &mut Parts, _: &A) -> Result<Self, Self::Rejection> {
        Ok(Self)
    }
}

/// A query that names tenants, in all of which the request's token has the scope `S`.
#[derive(Debug)]
pub(crate) struct AllowedQuery<S, Q>(pub(crate) Q, pub(crate) Identity, pub(crate) PhantomData<S>);

impl<A, S, Q> FromRequestParts<A> for AllowedQuery<S, Q>
where
    A: Send + Sync,
    S: RequiredScope,
    Q: NamesTenants + DeserializeOwned + Send,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &A) -> Result<Self, Response> {
        let identity = Identity::from_request_parts(parts, state).await?;
        let query = Query::<Q>::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|rejection| Problem::from(rejection).into_response())?;
        identity.may_in_each::<S>(&query).map_err(IntoResponse::into_response)?;
        Ok(Self(query, identity, PhantomData))
    }
}

impl<S, Q: JsonSchema> Argument for AllowedQuery<S, Q> {
    const TAKES_QUERY: bool = true;

    fn describe(operation: &mut Operation<'_>) {
        Head::<Query<Q>>::describe(operation);
    }
}

impl<S: RequiredScope, Q: NamesTenants + JsonSchema> Gate for AllowedQuery<S, Q> {
    const REQUIREMENT: Requirement = Requirement::InTenant(S::SCOPE);
}

/// A request with a JSON document that names tenants, in all of which its token has the scope `S`.
#[derive(Debug)]
pub(crate) struct AllowedDocument<S, D> {
    pub(crate) document: D,
    /// Here, because a route function takes the request's body in its last argument.
    pub(crate) state: AppState,
    /// The trace context of the request, if it has one.
    pub(crate) traceparent: Option<HeaderValue>,
    scope: PhantomData<S>,
}

impl<S, D> FromRequest<AppState> for AllowedDocument<S, D>
where
    S: RequiredScope,
    D: NamesTenants + Send,
    Document<D>: FromRequest<AppState, Rejection = Problem>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let identity = Identity::from_request_parts(&mut parts, state).await?;
        let traceparent = parts.headers.get(TRACEPARENT).cloned();
        let document = Document::from_request(Request::from_parts(parts, body), state).await;
        let Document(document) = document.map_err(IntoResponse::into_response)?;
        identity.may_in_each::<S>(&document).map_err(IntoResponse::into_response)?;
        Ok(Self { document, state: state.clone(), traceparent, scope: PhantomData })
    }
}

impl<S, D: JsonSchema> Argument for AllowedDocument<S, D> {
    fn describe(operation: &mut Operation<'_>) {
        Document::<D>::describe(operation);
    }
}

impl<S: RequiredScope, D: NamesTenants + JsonSchema> Gate for AllowedDocument<S, D> {
    const REQUIREMENT: Requirement = Requirement::InTenant(S::SCOPE);
}

impl Argument for Public {}

impl Gate for Public {
    const REQUIREMENT: Requirement = Requirement::Nothing;
}

impl Argument for AnyToken {}

impl Gate for AnyToken {
    const REQUIREMENT: Requirement = Requirement::AnyToken;
}

impl<S, T: InPath> Argument for Allowed<S, T> {
    fn describe(operation: &mut Operation<'_>) {
        T::describe(operation);
        operation.fails(Code::BadRequest);
    }
}

impl<S: RequiredScope, T: Target + InPath> Gate for Allowed<S, T> {
    const REQUIREMENT: Requirement =
        if T::IS_ONE_TENANT { Requirement::InTenant(S::SCOPE) } else { Requirement::Everywhere(S::SCOPE) };
}

impl<P: InPath> InPath for AllTenants<P> {
    fn describe(operation: &mut Operation<'_>) {
        P::describe(operation);
    }
}
