//! A topic's component: upload one, remove it.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Query};
use axum::http::{HeaderMap, StatusCode};
use serde_json::json;

use crate::api::jobs::PUSH_BYTES;
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::{Identity, Scope};
use crate::auth::origin::media_type;
use crate::extract::{Head, RequestOf, is_document};
use crate::limits::requests::NoPermit;
use crate::openapi::{Argument, Operation};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::wire;
use crate::wire::handler::HandlerVersions;
use gristmill_core::deployment;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::Topic;
use gristmill_metrics::{Event, EventKind};
use gristmill_runner::handlers::{HandlerRegistry, UploadError};
use gristmill_runner::{NotDecided, share_jobs};

/// Checks, compiling and the start of service; the compiler has a limit of its own.
const TAKE_IN_WITHIN: Duration = Duration::from_secs(180);

const UPLOAD: &str = "The component passes the checks of a file that is dropped into the handlers folder, is written there, \
    and serves when the answer comes: all jobs, or this `share` of them, such as `5%`, until it has shown itself no worse, or is rolled back. \
    The version that does the jobs, or all but a share of them, does all of them: that ends the trial of another one. So does a third version, which is then tried in \
    its place. What fails a check changes nothing.";

const VERSIONS: &str = "What each imports, and whether the topic grants it. Versions from before the process of this server began are not \
    known, nor are files that failed a check.";

const COMPONENT: &str = "To those who may see payloads. The version is named by the first digits of its SHA-256, at least 4, and is one that this \
    machine keeps. Of a handler that does jobs of several tenants, it needs a token for all tenants.";

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/topics/{topic}/handler";
    Routes::of("topics")
        .get(path, versions, "List the versions of a topic's component")
        .description(VERSIONS)
        .problems(&[Code::TopicUnknown, Code::Starting])
        .put(path, upload, "Bring a topic's component")
        .description(UPLOAD)
        .problems(&[Code::TopicUnknown, Code::HandlerRefused, Code::Busy, Code::Starting, Code::Timeout])
        .delete(path, remove, "Remove a topic's component")
        .answer("The topic's jobs wait.")
        .problems(&[Code::TopicUnknown, Code::HandlerUnknown, Code::Busy, Code::Starting, Code::Timeout])
        .body_bytes(PUSH_BYTES)
        .get(&format!("{path}/versions/{{version}}"), component, "Give a version of a topic's component")
        .description(COMPONENT)
        .problems(&[Code::TopicUnknown, Code::HandlerUnknown, Code::Busy, Code::Starting, Code::Timeout])
}

/// A body that is a component.
struct Component;

impl Argument for Component {
    fn describe(operation: &mut Operation<'_>) {
        operation.body("application/wasm", json!({ "type": "string", "format": "binary" }));
        [Code::TooLarge, Code::MediaType].into_iter().for_each(|code| operation.fails(code));
    }
}

async fn versions(
    Allowed { over: topic, state, .. }: Allowed<scope::Read, TopicId>,
) -> Result<Json<HandlerVersions>, Problem> {
    let registry = state.registry()?;
    let entry = registry.get(&topic).ok_or_else(|| unknown(&topic))?;
    Ok(Json(HandlerVersions::of(entry, &registry)))
}

async fn component(
    Allowed { over: (tenant, topic, version), identity, state, .. }: Allowed<scope::Read, (Name, Name, String)>,
    _: NoPermit,
) -> Result<Json<wire::Component>, Problem> {
    state.may_see_payloads(&identity, &tenant)?;
    let registry = state.registry()?;
    let topic = owned(&identity, &registry, &TopicId { tenant, topic }, Scope::Read)?;
    let permit = state.request_limiter.wait(identity.tenant())?;
    let found = registry.kept_component(&topic.handler, &version).await.map_err(|error| {
        Problem::new(Code::HandlersFolder, format!("the kept file of version {version} cannot be read: {error}"))
    })?;
    drop(permit);
    let (version, wasm) = found.ok_or_else(|| NotDecided::not_kept(&registry, &topic.handler, &version))?;
    Ok(Json(wire::Component { digest: version.digest(), component: wire::Base64(wasm) }))
}

async fn upload(
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Admin, TopicId>,
    _: NoPermit,
    Head(Query(wire::Upload { share })): Head<Query<wire::Upload>>,
    RequestOf { request, .. }: RequestOf<Component>,
) -> Result<(StatusCode, Json<wire::Served>), Problem> {
    let registry = state.registry()?;
    let topic = owned(&identity, &registry, &topic, Scope::Admin)?;
    refuse_document(request.headers())?;
    let is_new = registry.get(&topic.id).is_none_or(|entry| entry.handler.is_none());
    let permit = state.request_limiter.wait(identity.tenant())?;
    let wasm = Bytes::from_request(request, &()).await?;
    let intake = state.uploads()?;
    let decide = async |version, served: &[Topic]| -> Result<Vec<(TopicId, u64)>, Problem> {
        let mut decided = Vec::new();
        let Some(share) = share.as_deref() else { return Ok(decided) };
        let share = deployment::share(share).map_err(|error| Problem::new(Code::BadRequest, error.to_string()))?;
        for topic in served {
            let next = share_jobs(&topic.id, version, share, &registry, &*state.store).await?;
            decided.push((topic.id.clone(), next.generation));
        }
        Ok(decided)
    };
    let version = within(intake.put(&topic, &wasm, decide)).await?.to_string();
    drop(permit);
    tracing::info!(handler = %topic.handler, %version, topic = %topic.id, "component taken in");
    state.metrics.emit(|| Event {
        handler: Some(topic.handler.clone()),
        version: Some(version.clone()),
        ..Event::of_topic(EventKind::HandlerUploaded, &topic.id)
    });
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(wire::Served { handler: topic.handler, version: Some(version) })))
}

/// Refuses what the client takes for a JSON document. Other media types are what programs send that do not know the one of WebAssembly.
fn refuse_document(headers: &HeaderMap) -> Result<(), Problem> {
    match media_type(headers).filter(|media| is_document(media)) {
        Some(media) => {
            Err(Problem::new(Code::MediaType, format!("a component is `application/wasm` and no `{media}`")))
        }
        None => Ok(()),
    }
}

async fn remove(
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Admin, TopicId>,
    _: NoPermit,
) -> Result<Json<wire::Served>, Problem> {
    let topic = owned(&identity, &*state.registry()?, &topic, Scope::Admin)?;
    let intake = state.uploads()?;
    within(intake.remove(&topic)).await?;
    tracing::info!(handler = %topic.handler, topic = %topic.id, "component taken away");
    Ok(Json(wire::Served { handler: topic.handler, version: None }))
}

/// The topic, if this identity may replace its handler, or read it. A handler's file is shared by all topics that name it, of
/// whatever tenant: an identity of one tenant may do so only if no other tenant's jobs run by it.
fn owned(identity: &Identity, registry: &HandlerRegistry, id: &TopicId, scope: Scope) -> Result<Topic, Problem> {
    let topic = registry.topic(id).ok_or_else(|| unknown(id))?;
    let shared = |name: &Name| registry.topics_of(name).iter().any(|other| other.id.tenant != id.tenant);
    if shared(&topic.handler) {
        identity.may_everywhere(scope)?;
    }
    Ok(topic)
}

fn unknown(topic: &TopicId) -> Problem {
    Problem::new(Code::TopicUnknown, format!("there is no topic `{topic}`: a section in the manifest makes one"))
}

async fn within<T, E: Into<Problem>>(work: impl Future<Output = Result<T, E>>) -> Result<T, Problem> {
    let late = || Problem::new(Code::Timeout, format!("not done within {} s", TAKE_IN_WITHIN.as_secs()));
    tokio::time::timeout(TAKE_IN_WITHIN, work).await.map_err(|_| late())?.map_err(Into::into)
}

impl From<UploadError> for Problem {
    fn from(error: UploadError) -> Self {
        let code = match &error {
            UploadError::Busy => Code::Busy,
            UploadError::TooLarge(_) => Code::TooLarge,
            UploadError::Refused(_) => Code::HandlerRefused,
            UploadError::Unknown(_) => Code::HandlerUnknown,
            UploadError::Folder { .. } => Code::HandlersFolder,
            UploadError::NotServed => Code::Timeout,
        };
        Self::new(code, format!("{:#}", anyhow::Error::from(error)))
    }
}
