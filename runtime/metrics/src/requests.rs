//! HTTP requests, by the template of their route and never by their path.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;

use super::histogram::{Histogram, Scale};

/// Templates with series of their own: many times the number of routes.
const ROUTES: usize = 500;
/// The label of requests without a route, and of templates beyond the bound.
const NO_ROUTE: &str = "_none";
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "HEAD", "_other"];
/// Statuses with a series of their own; any other is shown as `_other`.
const STATUSES: [u16; 30] = [
    200, 201, 202, 204, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 421, 422,
    429, 431, 500, 501, 502, 503, 507,
];
/// Behind them: other statuses, and requests that were aborted before their answer began.
const OTHER_STATUS: usize = STATUSES.len();
const ABORTED: usize = OTHER_STATUS + 1;

/// All routes, and the connections.
#[derive(Debug, Default)]
pub struct Requests {
    /// Read without a lock. The first request of a route swaps a copy in.
    routes: ArcSwap<HashMap<Box<str>, Arc<Route>>>,
    connections: Arc<AtomicU64>,
    accepted: AtomicU64,
}

/// One template.
#[derive(Debug)]
struct Route {
    methods: [Arc<Method>; METHODS.len()],
}

#[derive(Debug)]
pub(super) struct Method {
    statuses: [AtomicU64; ABORTED + 1],
    pub(super) duration: Histogram,
}

/// A request that is being answered. Dropped without [`Request::answered`], it was aborted.
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
    /// Begins to measure a request. `route`: the template; `None` if no route fits the path.
    pub fn begin(&self, route: Option<&str>, method: &str) -> Request {
        let route = self.route(route.unwrap_or(NO_ROUTE));
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        Request { route, method, status: ABORTED, begun: Instant::now() }
    }

    /// Counts a connection until it is dropped.
    pub fn connect(&self) -> Connection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connection(Arc::clone(&self.connections))
    }

    /// How many connections are open, and how many ever were.
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

    /// Every route and method with what was counted of it, in order.
    pub(super) fn all(&self) -> Vec<(String, &'static str, Arc<Method>)> {
        let routes = self.routes.load();
        let each = routes.iter().flat_map(|(template, route)| {
            METHODS
                .into_iter()
                .zip(&route.methods)
                .map(|(name, method)| (template.to_string(), name, Arc::clone(method)))
        });
        let mut all: Vec<_> = each.collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }
}

impl Default for Route {
    fn default() -> Self {
        let method = || Method {
            statuses: std::array::from_fn(|_| AtomicU64::new(0)),
            duration: Histogram::new(&Scale::CALL_TIMES),
        };
        Self { methods: std::array::from_fn(|_| Arc::new(method())) }
    }
}

impl Method {
    /// The label `status` with its number.
    pub(super) fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        let statuses = STATUSES.iter().map(u16::to_string).chain(["_other", "aborted"].map(str::to_owned));
        statuses.zip(self.statuses.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

impl Request {
    /// The answer begins.
    pub fn answered(mut self, status: u16) {
        self.status = STATUSES.iter().position(|known| *known == status).unwrap_or(OTHER_STATUS);
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
        for (route, method, counted) in requests.all() {
            let answered = counted.counts().filter(|(_, count)| *count > 0);
            counts.extend(answered.map(|(status, count)| format!("{method} {route} {status} {count}")));
        }
        counts
    }

    #[test]
    fn requests_are_counted_by_route_method_and_status() {
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
