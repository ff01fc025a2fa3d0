//! The routes of the API, each with what it asks of a token.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, on};

use crate::auth::allowed::{Requirement, StatesRequirement};
use crate::state::AppState;

/// One method of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    /// With names in braces, such as `/v1/tenants/{tenant}/topics`.
    pub path: String,
    pub requires: Requirement,
}

/// A router that takes only handlers that state what they ask of a token, and knows its routes.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    router: Router<AppState>,
    routes: Vec<Route>,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn get<H: Handler<T, AppState>, T: StatesRequirement + 'static>(self, path: &str, handler: H) -> Self {
        self.add(Method::GET, MethodFilter::GET, path, handler)
    }

    pub(crate) fn post<H: Handler<T, AppState>, T: StatesRequirement + 'static>(self, path: &str, handler: H) -> Self {
        self.add(Method::POST, MethodFilter::POST, path, handler)
    }

    pub(crate) fn put<H: Handler<T, AppState>, T: StatesRequirement + 'static>(self, path: &str, handler: H) -> Self {
        self.add(Method::PUT, MethodFilter::PUT, path, handler)
    }

    pub(crate) fn delete<H: Handler<T, AppState>, T: StatesRequirement + 'static>(
        self,
        path: &str,
        handler: H,
    ) -> Self {
        self.add(Method::DELETE, MethodFilter::DELETE, path, handler)
    }

    fn add<H, T>(mut self, method: Method, filter: MethodFilter, path: &str, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: StatesRequirement + 'static,
    {
        self.router = self.router.route(path, on(filter, handler));
        self.routes.push(Route { method, path: path.to_owned(), requires: T::REQUIREMENT });
        self
    }

    /// Lets each of these routes take a body of so many bytes.
    pub(crate) fn body_bytes(self, most: usize) -> Self {
        self.layered(|router| router.layer(DefaultBodyLimit::max(most)))
    }

    /// Puts something around all of these routes.
    pub(crate) fn layered(mut self, layer: impl FnOnce(Router<AppState>) -> Router<AppState>) -> Self {
        self.router = layer(self.router);
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.routes.extend(other.routes);
        self
    }

    /// The same routes below a path.
    pub(crate) fn nested(self, below: &str) -> Self {
        let full = |route: Route| Route { path: format!("{below}{}", route.path.trim_end_matches('/')), ..route };
        Self { router: Router::new().nest(below, self.router), routes: self.routes.into_iter().map(full).collect() }
    }

    pub(crate) fn into_parts(self) -> (Router<AppState>, Vec<Route>) {
        (self.router, self.routes)
    }
}
