//! A request as every route gets it: names that fit, a pool that is there, a client that may come in. In this order, as in
//! lmstfy.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::api::Api;
use super::client::Client;
use super::names::{self, Queue};
use super::query::Query;
use super::refusal::Refusal;
use gristmill_core::job::Name;

/// About one queue.
#[derive(Debug)]
pub(super) struct RequestContext {
    pub(super) queue: Queue,
    /// The job in the path, if the route has one, as it stands there.
    pub(super) job: String,
    pub(super) query: Query,
    pub(super) client: Client,
    /// As the client wrote it.
    pub(super) namespace: String,
}

/// About several queues of a tenant.
#[derive(Debug)]
pub(super) struct QueuesContext {
    pub(super) tenant: Name,
    pub(super) queues: Vec<Queue>,
    pub(super) query: Query,
    pub(super) client: Client,
    pub(super) namespace: String,
}

/// What stands in a path.
struct InPath {
    namespace: String,
    queue: String,
    job: String,
}

impl InPath {
    async fn read(parts: &mut Parts) -> Result<Self, Refusal> {
        let path: Result<Path<HashMap<String, String>>, _> = Path::from_request_parts(parts, &()).await;
        // No UTF-8.
        let Path(mut path) = path.map_err(|_| Refusal::bad("queue name contains forbidden characters"))?;
        let mut take = |name| path.remove(name).unwrap_or_default();
        let read = Self { namespace: take("namespace"), queue: take("queue"), job: take("job") };
        // Two slashes with nothing in between are no route of lmstfy's.
        if read.namespace.is_empty() || read.queue.is_empty() { Err(Refusal::NO_API) } else { Ok(read) }
    }
}

impl FromRequestParts<Api> for RequestContext {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Refusal> {
        let InPath { namespace, queue, job } = InPath::read(parts).await?;
        let queue = names::one(&namespace, &queue)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let client = Client::admit(parts, &query, &queue.topic.tenant, api).await?;
        Ok(Self { queue, job, query, client, namespace })
    }
}

impl FromRequestParts<Api> for QueuesContext {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Refusal> {
        let InPath { namespace, queue, job: _ } = InPath::read(parts).await?;
        let (tenant, queues) = names::several(&namespace, &queue)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let client = Client::admit(parts, &query, &tenant, api).await?;
        Ok(Self { tenant, queues, query, client, namespace })
    }
}
