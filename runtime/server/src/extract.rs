//! Reads what a request brings. What does not fit is answered with a [`Problem`].

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use schemars::JsonSchema;

use crate::openapi::{Argument, Operation};
use crate::problem::{Code, Problem};
use gristmill_core::json::object::Object;

/// A part of the request's head.
pub(super) struct Head<E>(pub(super) E);

impl<E, S> FromRequestParts<S> for Head<E>
where
    E: FromRequestParts<S, Rejection: Into<Problem>>,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        E::from_request_parts(parts, state).await.map(Self).map_err(Into::into)
    }
}

/// The request's body, a JSON document that is an object.
pub(super) struct Document<T>(pub(super) T);

impl<T, S> FromRequest<S> for Document<T>
where
    Json<Object<T>>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Json(Object(document)) = Json::from_request(request, state).await?;
        Ok(Self(document))
    }
}

impl<T: JsonSchema> Argument for Head<Query<T>> {
    fn describe(operation: &mut Operation<'_>) {
        operation.in_query::<T>();
        operation.fails(Code::BadRequest);
    }
}

impl<T: JsonSchema> Argument for Document<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.document::<T>();
        [Code::BadRequest, Code::TooLarge, Code::MediaType].into_iter().for_each(|code| operation.fails(code));
    }
}

/// A request that the route reads itself, as `D` describes it.
pub(super) struct RequestOf<D> {
    pub(super) request: Request,
    described: PhantomData<D>,
}

impl<D, S: Sync> FromRequest<S> for RequestOf<D> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self { request, described: PhantomData })
    }
}

impl<D: Argument> Argument for RequestOf<D> {
    fn describe(operation: &mut Operation<'_>) {
        D::describe(operation);
    }
}
