//! Requests at the door, by the route's template: never by what stands in a path.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;

use super::histogram::{Histogram, Scale};

/// Templates with series of their own: many times as many as there are.
const ROUTES: usize = 500;
/// Where a request went that went nowhere, or beyond the bound.
const NO_ROUTE: &str = "_none";
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "HEAD", "_other"];
/// Statuses that a door may answer; any other is shown as `_other`.
const STATUSES: [(u16, &str); 30] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (411, "411"),
    (412, "412"),
    (413, "413"),
    (414, "414"),
    (415, "415"),
    (421, "421"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
    (503, "503"),
    (507, "507"),
];
/// Behind them: a status that is not in the list, and a request that was given up before its answer began.
const OTHER_STATUS: usize = STATUSES.len();
const ABORTED: usize = OTHER_STATUS + 1;

/// All routes, and the connections.
#[derive(Debug, Default)]
pub struct Requests {
    /// Read without a lock; a copy is swapped in for each route that is met for the first time.
    routes: ArcSwap<HashMap<Box<str>, Arc<Route>>>,
    connections: Arc<AtomicU64>,
    accepted: AtomicU64,
}

/// One template.
#[derive(Debug)]
struct Route {
    methods: [Method; METHODS.len()],
}

#[derive(Debug)]
struct Method {
    statuses: [AtomicU64; ABORTED + 1],
    duration: Histogram,
}

/// A request that is being answered. Dropped without [`Request::answered`], it was given up.
#[derive(Debug)]
pub struct Request {
    route: Arc<Route>,
    method: usize,
    status: usize,
    begun: Instant,
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub struct Connection(Arc<AtomicU64>);

impl Requests {
    /// `route`: the template; none if the path fits none.
    pub fn begin(&self, route: Option<&str>, method: &str) -> Request {
        let route = self.route(route.unwrap_or(NO_ROUTE));
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        Request { route, method, status: ABORTED, begun: Instant::now() }
    }

    pub fn connect(&self) -> Connection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connection(Arc::clone(&self.connections))
    }

    /// Connections that are open, and how many ever were.
    pub(super) fn connections(&self) -> (u64, u64) {
        (self.connections.load(Ordering::Relaxed), self.accepted.load(Ordering::Relaxed))
    }

    fn route(&self, template: &str) -> Arc<Route> {
        if let Some(route) = self.routes.load().get(template) {
            return Arc::clone(route);
        }
        let made = Arc::new(Route::default());
        self.routes.rcu(|routes| {
            let mut routes = HashMap::clone(routes);
            let template = if routes.len() < ROUTES { template } else { NO_ROUTE };
            routes.entry(template.into()).or_insert_with(|| Arc::clone(&made));
            routes
        });
        let routes = self.routes.load();
        routes.get(template).or_else(|| routes.get(NO_ROUTE)).map_or(made, Arc::clone)
    }

    /// By route, method and status, how many.
    pub(super) fn counts(&self, mut each: impl FnMut(&str, &str, &str, u64)) {
        self.each(|route, name, method| {
            let statuses = STATUSES.iter().map(|(_, text)| *text).chain(["_other", "aborted"]);
            for (status, count) in statuses.zip(&method.statuses) {
                each(route, name, status, count.load(Ordering::Relaxed));
            }
        });
    }

    /// By route and method, until the answer began.
    pub(super) fn durations(&self, mut each: impl FnMut(&str, &str, &Histogram)) {
        self.each(|route, name, method| each(route, name, &method.duration));
    }

    fn each(&self, mut each: impl FnMut(&str, &'static str, &Method)) {
        let routes = self.routes.load();
        let mut routes: Vec<_> = routes.iter().collect();
        routes.sort_unstable_by_key(|(template, _)| *template);
        for (template, route) in routes {
            for (name, method) in METHODS.into_iter().zip(&route.methods) {
                each(template, name, method);
            }
        }
    }
}

impl Default for Route {
    fn default() -> Self {
        let method = || Method {
            statuses: std::array::from_fn(|_| AtomicU64::new(0)),
            duration: Histogram::new(&Scale::CALL_TIMES),
        };
        Self { methods: std::array::from_fn(|_| method()) }
    }
}

impl Request {
    pub fn answered(mut self, status: u16) {
        self.status = STATUSES.iter().position(|(known, _)| *known == status).unwrap_or(OTHER_STATUS);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Some(method) = self.route.methods.get(self.method) else { return };
        method.duration.observe_time(self.begun.elapsed());
        if let Some(count) = method.statuses.get(self.status) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: &Requests) -> Vec<String> {
        let mut counts = Vec::new();
        requests.counts(|route, method, status, count| {
            if count > 0 {
                counts.push(format!("{method} {route} {status} {count}"));
            }
        });
        counts
    }

    #[test]
    fn requests_are_counted_by_what_became_of_them() {
        let requests = Requests::default();
        requests.begin(Some("/a/{id}"), "GET").answered(200);
        requests.begin(Some("/a/{id}"), "GET").answered(299);
        requests.begin(None, "BREW").answered(404);
        drop(requests.begin(Some("/a/{id}"), "POST"));
        let expected = ["GET /a/{id} 200 1", "GET /a/{id} _other 1", "POST /a/{id} aborted 1", "_other _none 404 1"];
        assert_eq!(counts(&requests), expected);
    }

    #[test]
    fn routes_beyond_the_bound_are_counted_together() {
        let requests = Requests::default();
        for number in 0..ROUTES + 10 {
            requests.begin(Some(&format!("/{number}")), "GET").answered(200);
        }
        assert_eq!(requests.routes.load().len(), ROUTES + 1);
        assert!(counts(&requests).contains(&"GET _none 200 10".to_owned()));
    }

    #[test]
    fn a_connection_is_open_until_it_is_dropped() {
        let requests = Requests::default();
        let (first, _second) = (requests.connect(), requests.connect());
        drop(first);
        assert_eq!(requests.connections(), (1, 2));
    }
}
