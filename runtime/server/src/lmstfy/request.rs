//! What every route gets of a request: valid names, a known pool, an identified client. Checked in this order, as in lmstfy.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::api::Api;
use super::client::Client;
use super::names::{self, Queue};
use super::query::Query;
use super::refusal::Refusal;
use crate::limits::requests::NoPermit;
use gristmill_core::job::Name;

/// A request about one queue.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    pub(super) queue: Queue,
    /// The job in the path, if the route has one, as the client wrote it.
    pub(super) job: String,
    pub(super) query: Query,
    pub(super) client: Client,
    /// As the client wrote it.
    pub(super) namespace: String,
}

/// A request about several queues of a tenant.
#[derive(Debug)]
pub(super) struct QueuesContext {
    pub(super) tenant: Name,
    pub(super) queues: Vec<Queue>,
    pub(super) query: Query,
    pub(super) client: Client,
    pub(super) namespace: String,
}

/// The parameters of a path.
struct PathParameters {
    namespace: String,
    queue: String,
    job: String,
}

impl PathParameters {
    async fn read(parts: &mut Parts) -> Result<Self, Refusal> {
        let path: Result<Path<HashMap<String, String>>, _> = Path::from_request_parts(parts, &()).await;
        // It is not UTF-8.
        let Path(mut path) = path.map_err(|_| Refusal::bad("queue name contains forbidden characters"))?;
        let mut take = |name| path.remove(name).unwrap_or_default();
        let read = Self { namespace: take("namespace"), queue: take("queue"), job: take("job") };
        // lmstfy has no route with two slashes in a row.
        if read.namespace.is_empty() || read.queue.is_empty() { Err(Refusal::NO_API) } else { Ok(read) }
    }
}

impl RequestContext {
    /// Reads the head of a request that has no permit yet.
    pub(super) async fn identify(parts: &mut Parts, api: &Api) -> Result<(Self, NoPermit), Refusal> {
        let PathParameters { namespace, queue, job } = PathParameters::read(parts).await?;
        let queue = names::one(&namespace, &queue)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let client = Client::identify(parts, &query, &queue.topic.tenant, api).await?;
        Ok((Self { queue, job, query, client, namespace }, NoPermit::at_beginning()))
    }

    /// Waits for a permit.
    pub(super) async fn permitted(self, none: NoPermit, api: &Api) -> Self {
        Self { client: self.client.permitted(none, api).await, ..self }
    }
}

/// For requests whose body does not matter.
impl FromRequestParts<Api> for RequestContext {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Refusal> {
        let (context, none) = Self::identify(parts, api).await?;
        Ok(context.permitted(none, api).await)
    }
}

impl FromRequestParts<Api> for QueuesContext {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Refusal> {
        let PathParameters { namespace, queue, job: _ } = PathParameters::read(parts).await?;
        let (tenant, queues) = names::several(&namespace, &queue)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let client = Client::identify(parts, &query, &tenant, api).await?;
        Ok(Self { tenant, queues, query, client, namespace })
    }
}
