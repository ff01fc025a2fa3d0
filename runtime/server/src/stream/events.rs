//! Events as they happen, as server-sent events (the HTML standard, §9.2), until either side has enough.

use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use hyper::body::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::auth::identity::Identity;
use crate::extract::Head;
use crate::limits::requests::Permit;
use crate::openapi::{AnyOf, Described, EventStream};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use gristmill_core::job::{JobId, Name};
use gristmill_metrics::{Event, EventKind, Filter, Received};

/// How often something is sent although nothing happens, so that nobody on the way takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const EVENTS: &str = "Server-sent events, until either side ends: `event` is the kind, `id` counts this stream's events, \
    `data` is an `Event`; or `event` is `lagged` and `data` a `Lagged`.";

type Events = Described<EventStream<AnyOf<Event, Lagged>>>;

/// Stands in the place of events that this stream has missed.
#[derive(Debug, Serialize, JsonSchema)]
struct Lagged {
    /// How many events are missing here.
    missed: u64,
}

pub(crate) fn routes() -> Routes {
    Routes::of("events")
        .get("/events", everywhere, "Listen to what happens on this server")
        .answer(EVENTS)
        .problems(&[Code::TooManyStreams])
        .get("/tenants/{tenant}/events", of_tenant, "Listen to what happens in a tenant")
        .answer(EVENTS)
        .problems(&[Code::TooManyStreams])
}

/// What is wanted; what is left out, of every kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Only of this topic.
    topic: Option<Name>,
    /// Only of this job.
    job: Option<JobId>,
    /// Only these: kinds of events with commas between them.
    #[schemars(regex(pattern = kinds()))]
    kind: Option<String>,
}

/// Kinds with commas between them, as a regular expression.
fn kinds() -> String {
    let kind = format!("({})", EventKind::NAMES.join("|"));
    format!("^{kind}(,{kind})*$")
}

async fn everywhere(
    Allowed { identity, .. }: Allowed<scope::Read, AllTenants>,
    State(state): State<AppState>,
    Head(Query(wanted)): Head<Query<Wanted>>,
) -> Result<Events, Problem> {
    stream(&state, &identity, wanted.filter(None)?)
}

async fn of_tenant(
    Allowed { over: tenant, identity, .. }: Allowed<scope::Read, Name>,
    State(state): State<AppState>,
    Head(Query(wanted)): Head<Query<Wanted>>,
) -> Result<Events, Problem> {
    stream(&state, &identity, wanted.filter(Some(tenant))?)
}

impl Wanted {
    fn filter(self, tenant: Option<Name>) -> Result<Filter, Problem> {
        let Self { topic, job, kind } = self;
        let kinds =
            kind.map(|names| names.split(',').map(parse).collect::<Result<Vec<EventKind>, Problem>>()).transpose()?;
        Ok(Filter { tenant, topic, job, kinds })
    }
}

fn parse(name: &str) -> Result<EventKind, Problem> {
    let unknown = || {
        Problem::new(
            Code::BadRequest,
            format!("`{name}` is no kind of event: there are {}", EventKind::NAMES.join(", ")),
        )
    };
    EventKind::parse(name).ok_or_else(unknown)
}

/// The answer begins at once: what happens after that is told.
fn stream(state: &AppState, identity: &Identity, filter: Filter) -> Result<Events, Problem> {
    let permit = state.request_limiter.wait(identity.tenant())?;
    let listener = state.metrics.events().subscribe(filter);
    let listener = listener.map_err(|problem| Problem::new(Code::TooManyStreams, problem.to_string()))?;
    let mut keep_alive = interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = Box::pin(state.stop.clone().cancelled_owned());
    let stream = Stream { listener, keep_alive, stop, _permit: permit };
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(stream)).into_response().into())
}

/// A body that goes on for as long as the server does.
struct Stream {
    listener: gristmill_metrics::EventStream,
    /// The first tick is at once: whoever waits for the beginning of the stream sees it.
    keep_alive: Interval,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: Permit,
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Poll::Ready(told) = self.listener.poll_next(context) {
            return Poll::Ready(Some(Ok(Frame::data(written(&told).into()))));
        }
        if self.stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        self.keep_alive.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }
}

fn written(told: &Received) -> String {
    let mut text = String::new();
    let wrote = match told {
        Received::Event { number, event } => {
            // Names and numbers: nothing of it can fail to be written as JSON, and JSON has no line ends.
            let data = serde_json::to_string(&**event).unwrap_or_default();
            write!(text, "event: {}\nid: {number}\ndata: {data}\n\n", event.kind.as_str())
        }
        Received::Lagged(missed) => {
            let data = serde_json::to_string(&Lagged { missed: *missed }).unwrap_or_default();
            write!(text, "event: lagged\ndata: {data}\n\n")
        }
    };
    // A `String` takes everything.
    wrote.ok();
    text
}
