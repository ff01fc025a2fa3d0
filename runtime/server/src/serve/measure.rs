//! Counts requests by the template of their route.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;

use gristmill_metrics::Metrics;

/// Around everything else, so that refused requests are also counted.
pub(super) async fn measure(metrics: &Metrics, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    // Dropped half-way if the other side hangs up.
    let counted = metrics.requests().begin(route, request.method().as_str());
    let response = next.run(request).await;
    counted.answered(response.status().as_u16());
    response
}
