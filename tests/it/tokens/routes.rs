//! Every route, and what it takes to come in there. A new route is a line here, with what the server says that it requires, or the test below fails; [`super::scopes`]
//! and [`super::isolation`] try each.

use gristmill::server::Requirement;
use gristmill::token::Scope::{self, Admin, Push, Read, Work};
use gristmill_tests::http_client::{Answer, HttpClient};
use hyper::Request;
use hyper::header::HeaderValue;
use serde_json::{Value, json};

use self::Needs::{Everywhere, Nothing, Tenant};

/// Where a scope is needed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Needs {
    /// In the tenant that the request is about.
    Tenant(Scope),
    /// In all tenants.
    Everywhere(Scope),
    /// Any token.
    Nothing,
}

impl Needs {
    fn required(self) -> Requirement {
        match self {
            Self::Tenant(scope) => Requirement::InTenant(scope),
            Self::Everywhere(scope) => Requirement::Everywhere(scope),
            Self::Nothing => Requirement::AnyToken,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) method: &'static str,
    /// With `{tenant}`, `{topic}`, `{schedule}`, `{bulk}`, `{job}` and `{token}`.
    pub(super) path: &'static str,
    /// With the same; empty: none.
    body: &'static str,
    pub(super) needs: Needs,
}

const fn route(method: &'static str, path: &'static str, body: &'static str, needs: Needs) -> Route {
    Route { method, path, body, needs }
}

const JOBS: &str = r#"{"jobs":[{"id":"{job}","tenant":"{tenant}","topic":"{topic}"}]}"#;
const IDS: &str = r#"{"ids":["{job}"]}"#;
const CHANGE: &str = r#"{"due":"now"}"#;
const CHANGE_IDS: &str = r#"{"ids":["{job}"],"due":"now"}"#;
const NEW_TOKEN: &str = r#"{"tenant":"{tenant}","scopes":[]}"#;
const LIMITS: &str = "{}";
const STATE: &str = "/v1/tenants/{tenant}/topics/{topic}/state/{key}";
const UNIQUES: &str = "/v1/tenants/{tenant}/topics/{topic}/unique";
const UNIQUE: &str = "/v1/tenants/{tenant}/topics/{topic}/unique/{value}";
const SCHEDULE: &str = "/v1/tenants/{tenant}/schedules/{topic}/{schedule}";
const PAUSE_SCHEDULE: &str = "/v1/tenants/{tenant}/schedules/{topic}/{schedule}/pause";
const RESUME_SCHEDULE: &str = "/v1/tenants/{tenant}/schedules/{topic}/{schedule}/resume";
const RUN_SCHEDULE: &str = "/v1/tenants/{tenant}/schedules/{topic}/{schedule}/run";
const MOVE: &str = r#"{"to":"home"}"#;

pub(super) const ROUTES: &[Route] = &[
    route("GET", "/v1", "", Nothing),
    route("GET", "/v1/me", "", Nothing),
    route("GET", "/v1/openapi.json", "", Nothing),
    route("POST", "/v1/jobs", JOBS, Tenant(Push)),
    route("GET", "/v1/tenants", "", Everywhere(Read)),
    route("GET", "/v1/workers", "", Everywhere(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs?q=state:ready", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/dead/groups", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs/{job}", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs/{job}/why", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs/{job}/recording", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs/{job}/recording/calls", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs/{job}/links?limit=9", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/jobs/{job}/graph?limit=9", "", Tenant(Read)),
    route("POST", "/v1/tenants/{tenant}/jobs/{job}/seal", "{}", Tenant(Push)),
    route("DELETE", "/v1/tenants/{tenant}/jobs/{job}", "", Tenant(Admin)),
    route("PATCH", "/v1/tenants/{tenant}/jobs/{job}", CHANGE, Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/cancel", IDS, Tenant(Admin)),
    route("GET", "/v1/tenants/{tenant}/bulk", "", Tenant(Read)),
    // Without a query: one needs the scope `read`, too.
    route("POST", "/v1/tenants/{tenant}/bulk", r#"{"action":"cancel"}"#, Tenant(Admin)),
    route("GET", "/v1/tenants/{tenant}/bulk/{bulk}", "", Tenant(Read)),
    route("POST", "/v1/tenants/{tenant}/bulk/{bulk}/start", r#"{"expect":1}"#, Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/bulk/{bulk}/abort", "{}", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/change", CHANGE_IDS, Tenant(Admin)),
    route("GET", "/v1/tenants/{tenant}/topics", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/topics/{topic}", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/topics/{topic}/why", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/topics/{topic}/jobs?state=ready", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/topics/{topic}/recordings", "", Tenant(Read)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/jobs", "{}", Tenant(Push)),
    route("GET", "/v1/tenants/{tenant}/topics/{topic}/handler", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/topics/{topic}/handler/versions/{version}", "", Tenant(Read)),
    route("PUT", "/v1/tenants/{tenant}/topics/{topic}/handler", "no component", Tenant(Admin)),
    route("DELETE", "/v1/tenants/{tenant}/topics/{topic}/handler", "", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/handler/rollback", "{}", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/handler/promote", "{}", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/claim", "{}", Tenant(Work)),
    route("POST", "/v1/tenants/{tenant}/claim", r#"{"topics":["{topic}"]}"#, Tenant(Work)),
    route("POST", "/v1/tenants/{tenant}/leases/checkpoint", r#"{"lease":"none","state":""}"#, Tenant(Work)),
    route("POST", "/v1/tenants/{tenant}/leases/extend", r#"{"leases":[],"lease_ms":1000}"#, Tenant(Work)),
    route("POST", "/v1/tenants/{tenant}/leases/settle", r#"{"settlements":[]}"#, Tenant(Work)),
    route("DELETE", "/v1/tokens", "", Everywhere(Admin)),
    route("GET", "/v1/events", "", Everywhere(Read)),
    route("GET", "/v1/tenants/{tenant}/events", "", Tenant(Read)),
    route("GET", "/metrics", "", Everywhere(Read)),
    route("GET", "/v1/tenants/{tenant}/metrics", "", Tenant(Admin)),
    route("DELETE", "/v1/tenants/{tenant}/topics/{topic}", "", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/pause", "{}", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/resume", "{}", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/dead/respawn", IDS, Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/topics/{topic}/dead/delete", IDS, Tenant(Admin)),
    route("GET", "/v1/tenants/{tenant}/bill", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/attempts", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/history", "", Tenant(Read)),
    route("GET", "/v1/tenants/{tenant}/limits", "", Tenant(Read)),
    route("GET", "/v1/audit", "", Everywhere(Admin)),
    route("GET", "/v1/tenants/{tenant}/audit", "", Tenant(Admin)),
    route("GET", "/v1/tenants/{tenant}/schedules", "", Tenant(Read)),
    route("GET", STATE, "", Tenant(Read)),
    route("DELETE", STATE, "", Tenant(Admin)),
    route("DELETE", UNIQUES, "", Tenant(Admin)),
    route("GET", UNIQUE, "", Tenant(Read)),
    route("DELETE", UNIQUE, "", Tenant(Admin)),
    route("GET", SCHEDULE, "", Tenant(Read)),
    route("PUT", SCHEDULE, r#"{"cron":"@daily"}"#, Tenant(Admin)),
    route("POST", RUN_SCHEDULE, "{}", Tenant(Admin)),
    route("POST", PAUSE_SCHEDULE, "{}", Tenant(Admin)),
    route("POST", RESUME_SCHEDULE, "{}", Tenant(Admin)),
    route("DELETE", SCHEDULE, "", Tenant(Admin)),
    route("GET", "/v1/signals?tenants={tenant}", "", Tenant(Read)),
    route("GET", "/v1/placements", "", Everywhere(Admin)),
    route("GET", "/v1/tenants/{tenant}/placement", "", Everywhere(Admin)),
    route("POST", "/v1/tenants/{tenant}/move", MOVE, Everywhere(Admin)),
    route("GET", "/v1/tokens", "", Everywhere(Admin)),
    route("POST", "/v1/tokens", NEW_TOKEN, Everywhere(Admin)),
    route("DELETE", "/v1/tokens/{token}", "", Everywhere(Admin)),
    route("PUT", "/v1/tokens/{token}/limits", LIMITS, Everywhere(Admin)),
    route("GET", "/v1/tenants/{tenant}/tokens", "", Tenant(Admin)),
    route("POST", "/v1/tenants/{tenant}/tokens", NEW_TOKEN, Tenant(Admin)),
    route("DELETE", "/v1/tenants/{tenant}/tokens/{token}", "", Tenant(Admin)),
    route("PUT", "/v1/tenants/{tenant}/tokens/{token}/limits", LIMITS, Tenant(Admin)),
];

#[test]
fn the_table_is_what_the_server_requires() {
    let named = |path: &str| {
        let ids = [("/jobs/", "{job}"), ("/bulk/", "{bulk}"), ("/tokens/", "{token}")];
        let id = ids.iter().find(|(part, _)| path.contains(part)).map_or("{id}", |(_, id)| id);
        path.replace("{id}", id)
    };
    let mut required: Vec<_> = gristmill::server::routes()
        .into_iter()
        .filter(|route| route.requires != Requirement::Nothing)
        .map(|route| (named(&route.path), route.method.to_string(), format!("{:?}", route.requires)))
        .collect();
    let path = |route: &Route| route.path.split('?').next().unwrap().to_owned();
    let tried =
        ROUTES.iter().map(|route| (path(route), route.method.to_owned(), format!("{:?}", route.needs.required())));
    let mut tried: Vec<_> = tried.collect();
    required.sort();
    tried.sort();
    assert_eq!(tried, required);
}

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) tenant: &'a str,
    pub(super) topic: &'a str,
    pub(super) job: &'a str,
    /// Its id.
    pub(super) token: &'a str,
}

impl About<'_> {
    /// Something that there is not.
    pub(super) const NOTHING: About<'static> =
        About { tenant: "nobody", topic: "none", job: "no-such-job", token: "0123456789abcdef" };

    fn fill(&self, text: &str) -> String {
        let filled = text.replace("{tenant}", self.tenant).replace("{topic}", self.topic);
        let filled = filled.replace("{schedule}", "nightly").replace("{key}", "customer-7").replace("{bulk}", "none");
        filled.replace("{job}", self.job).replace("{token}", self.token)
    }
}

impl Route {
    /// Asks there. Of an answer that has no end only the head is read.
    pub(super) async fn ask(&self, client: &HttpClient, about: About<'_>) -> Answer {
        let request = Request::builder().method(self.method).uri(about.fill(self.path));
        let request = request.header("content-type", "application/json");
        let body = about.fill(self.body).into_bytes();
        let response = client.begin(request, body).await;
        let (head, body) = response.into_parts();
        let endless = |kind: &HeaderValue| kind == "application/x-ndjson" || kind == "text/event-stream";
        let endless = head.headers.get("content-type").is_some_and(endless);
        let body = match endless {
            true => Vec::new(),
            false => http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec(),
        };
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }
}

/// A push as a client would send it, of so many jobs with this body.
pub(super) fn push_of(tenant: &str, count: usize, body: &str) -> Value {
    let job = |n| {
        let id = format!("{n}-{}", gristmill::job::JobId::generate());
        json!({ "id": id, "tenant": tenant, "topic": "mail", "body_base64": body })
    };
    json!({ "jobs": (0..count).map(job).collect::<Vec<_>>() })
}
