//! Events as they happen, until the client or the server ends the stream.

use std::task::Poll;

use axum::body::Bytes;
use axum::extract::Query;
use futures_util::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::auth::identity::Identity;
use crate::extract::Head;
use crate::limits::ClientAddress;
use crate::openapi::{AnyOf, Described, EventStream};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::stream::sse::{self, COMMENT, KEEP_ALIVE};
use gristmill_core::job::{JobId, Name};
use gristmill_metrics::{Event, EventKind, Filter, Received};

const EVENTS: &str = "Server-sent events, until either side ends: `event` is the kind, `id` counts this stream's events, \
    `data` is an `Event`; or `event` is `lagged` and `data` a `Lagged`.";

type Events = Described<EventStream<AnyOf<Event, Lagged>>>;

/// Takes the place of events that this stream has missed.
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

/// Which events the client wants. A field that is left out excludes none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventQuery {
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
    Allowed { identity, state, .. }: Allowed<scope::Read, AllTenants>,
    client: ClientAddress,
    Head(Query(wanted)): Head<Query<EventQuery>>,
) -> Result<Events, Problem> {
    listen(&state, &identity, client, wanted.filter(None)?)
}

async fn of_tenant(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Read, Name>,
    client: ClientAddress,
    Head(Query(wanted)): Head<Query<EventQuery>>,
) -> Result<Events, Problem> {
    listen(&state, &identity, client, wanted.filter(Some(tenant))?)
}

impl EventQuery {
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

/// The answer begins at once, and has every event after that.
fn listen(
    state: &AppState,
    identity: &Identity,
    ClientAddress(client): ClientAddress,
    filter: Filter,
) -> Result<Events, Problem> {
    let limiter = &state.request_limiter;
    let permits = (limiter.wait(identity.tenant())?, limiter.stream_events(identity.tenant(), client)?);
    let mut listener = state.metrics.events().subscribe(filter);
    // The first tick is at once, so that a client sees that the stream has begun.
    let mut keep_alive = interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = Box::pin(state.stop.clone().cancelled_owned());
    let events = stream::poll_fn(move |context| {
        let _permits = &permits;
        if let Poll::Ready(received) = listener.poll_next(context) {
            return Poll::Ready(Some(written(&received)));
        }
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        keep_alive.poll_tick(context).map(|_| Some(COMMENT))
    });
    Ok(sse::answer(events).into())
}

fn written(received: &Received) -> Bytes {
    match received {
        Received::Event { number, event } => sse::event(event.kind.as_str(), Some(*number), &**event),
        Received::Lagged(missed) => sse::event("lagged", None, &Lagged { missed: *missed }),
    }
}
