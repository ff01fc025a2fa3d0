//! The routes of the API, each with what it asks of a token and with its words in the OpenAPI document.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};

use crate::openapi::{Docs, Endpoint, Route};
use crate::problem::Code;
use crate::receive::receive;
use crate::state::AppState;

/// A router that takes only handlers that state what they ask of a token, and knows its routes.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    tag: &'static str,
    router: Router<AppState>,
    routes: Vec<Route>,
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {$(
        /// Adds a route, with its summary.
        pub(crate) fn $name<T: 'static, H: Endpoint<T, AppState>>(
            self,
            path: &str,
            handler: H,
            summary: &'static str,
        ) -> Self {
            self.add(Method::$method, MethodFilter::$method, path, handler, summary)
        }
    )*};
}

impl Routes {
    /// Routes of one kind; the document lists the kinds.
    pub(crate) fn of(tag: &'static str) -> Self {
        Self { tag, ..Self::default() }
    }

    methods!(get GET post POST put PUT patch PATCH delete DELETE);

    fn add<T: 'static, H: Endpoint<T, AppState>>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &str,
        handler: H,
        summary: &'static str,
    ) -> Self {
        let received = from_fn(|request, next| receive(H::REQUIREMENT, H::TAKES_PERMIT, H::TAKES_QUERY, request, next));
        self.router = self.router.route(path, on(filter, handler).route_layer(received));
        let docs = Docs {
            tag: self.tag,
            summary,
            description: None,
            answer: None,
            headers: Vec::new(),
            problems: Vec::new(),
            #[cfg(test)]
            describe: H::describe,
        };
        self.routes.push(Route { method, path: path.to_owned(), requires: H::REQUIREMENT, docs });
        self
    }

    /// Says more about the route that was added last.
    pub(crate) fn description(self, text: &'static str) -> Self {
        self.documented(|docs| docs.description = Some(text))
    }

    /// Describes the answer of the route that was added last, where its type does not.
    pub(crate) fn answer(self, text: &'static str) -> Self {
        self.documented(|docs| docs.answer = Some(text))
    }

    /// Describes a header of that answer.
    pub(crate) fn header(self, name: &'static str, text: &'static str) -> Self {
        self.documented(|docs| docs.headers.push((name, text)))
    }

    /// Names problems of that route, besides those that follow from its arguments.
    pub(crate) fn problems(self, codes: &[Code]) -> Self {
        self.documented(|docs| docs.problems.extend_from_slice(codes))
    }

    fn documented(mut self, change: impl FnOnce(&mut Docs)) -> Self {
        if let Some(route) = self.routes.last_mut() {
            change(&mut route.docs);
        }
        self
    }

    /// Lets each of these routes take a body of this many bytes.
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
        let routes = self.routes.into_iter().map(full).collect();
        Self { tag: self.tag, router: Router::new().nest(below, self.router), routes }
    }

    pub(crate) fn into_parts(self) -> (Router<AppState>, Vec<Route>) {
        (self.router, self.routes)
    }
}
