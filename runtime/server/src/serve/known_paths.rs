//! The answers to a path that does not exist, and to a method that a path does not take.

use std::collections::BTreeMap;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;

use crate::openapi::Route;
use crate::problem::{Code, Problem};
use gristmill_core::units::hint;

/// The paths of the API with their parameters, such as `/v1/tenants/{tenant}/topics`, each with its methods.
#[derive(Debug)]
pub(super) struct KnownPaths(BTreeMap<String, Vec<Method>>);

impl KnownPaths {
    pub(super) fn of(routes: &[Route]) -> Self {
        let mut paths: BTreeMap<String, Vec<Method>> = BTreeMap::new();
        for route in routes {
            paths.entry(route.path.clone()).or_default().push(route.method.clone());
        }
        Self(paths)
    }

    /// Names the path that was perhaps meant.
    pub(super) fn unknown(&self, path: &str) -> Problem {
        let hint = hint(self.near(path));
        Problem::new(Code::NotFound, format!("there is no such path{hint}; see docs/reference/http-api.md"))
    }

    /// Names the methods that the path takes.
    pub(super) fn not_allowed(&self, request: &Request) -> Problem {
        let path = request.extensions().get::<MatchedPath>().and_then(|path| self.0.get(path.as_str()));
        let detail = match path {
            Some(methods) => {
                let methods: Vec<_> = methods.iter().map(Method::as_str).collect();
                format!("this path takes {}, not {}", methods.join(", "), request.method())
            }
            // Of the page.
            None => format!("this path takes GET, not {}", request.method()),
        };
        Problem::new(Code::MethodNotAllowed, detail)
    }

    /// The same without a slash too many, or in the tenant `default`.
    fn near(&self, path: &str) -> Option<String> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let plain = format!("/{}", parts.join("/"));
        let in_default = plain.strip_prefix("/v1/").map(|rest| format!("/v1/tenants/default/{rest}"));
        [plain].into_iter().chain(in_default).find(|near| near != path && self.has(near))
    }

    fn has(&self, path: &str) -> bool {
        self.0.keys().any(|known| {
            let mut parts = path.split('/');
            let fits =
                known.split('/').all(|known| parts.next().is_some_and(|part| known == part || known.starts_with('{')));
            fits && parts.next().is_none()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::server::routes;

    #[test]
    fn a_path_that_there_is_not_names_the_one_that_was_meant() {
        let paths = KnownPaths::of(&routes());
        let cases = [
            ("/v1/tenants/default/topics/", Some("/v1/tenants/default/topics")),
            ("/v1//tenants/default//topics", Some("/v1/tenants/default/topics")),
            ("/v1/topics/x/jobs", Some("/v1/tenants/default/topics/x/jobs")),
            ("/v1/topics/", Some("/v1/tenants/default/topics")),
            ("/v2/topics", None),
            ("/", None),
        ];
        for (path, near) in cases {
            assert_eq!(paths.near(path).as_deref(), near, "{path}");
        }
        let said = paths.unknown("/v1/topics").detail;
        assert!(said.starts_with("there is no such path (did you mean `/v1/tenants/default/topics`?)"), "{said}");
    }
}
