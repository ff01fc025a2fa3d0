//! Reads what a request brings. What does not fit is answered with a [`Problem`].

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;

use crate::problem::Problem;
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
