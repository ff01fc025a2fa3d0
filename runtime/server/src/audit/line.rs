//! A line of the audit log. Its fields are documented in `docs/reference/audit.md`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::request_facts::{ClientKind, Facts, RequestFacts};
use super::{Recorder, is_refusal};
use crate::limits::client_address;
use crate::problem::Code;
use gristmill_core::job::{Name, WorkerId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::{TokenHash, TokenId, TokenText};
use gristmill_runner::LineKind;

/// Bytes of a part of a path; what is longer is cut.
const PART_BYTES: usize = 256;

/// What a line says. It has no body, no header and no query of the request, and no text of a token.
#[derive(Debug, Serialize)]
pub struct AuditLine {
    /// `None`: there is no log to write it to.
    worker: Option<WorkerId>,
    pub(super) at_ms: Timestamp,
    request: Option<String>,
    pub(super) client: ClientKind,
    pub(super) token: Option<TokenId>,
    pub(super) tenant: Option<Name>,
    pub(super) account: Option<String>,
    peer: IpAddr,
    pub(super) method: String,
    pub(super) route: Option<String>,
    pub(super) object: BTreeMap<String, String>,
    pub(super) made: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) problem: Option<Code>,
    omitted: u64,
    /// Who ran a command that no server has seen.
    actor: Option<String>,
}

impl AuditLine {
    /// A command that has changed a store without a server: what it is called, and what it was about. `is_done`: it has succeeded, wholly.
    pub fn of_command(
        worker: WorkerId,
        actor: String,
        command: String,
        about: BTreeMap<String, String>,
        is_done: bool,
    ) -> Self {
        Self {
            worker: Some(worker),
            at_ms: Timestamp::now(),
            request: None,
            client: ClientKind::Command,
            token: None,
            tenant: None,
            account: None,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            method: "COMMAND".into(),
            route: Some(command),
            object: about.into_iter().map(|(name, text)| (name.clone(), part(None, &name, &text))).collect(),
            made: None,
            status: is_done.then_some(200),
            problem: None,
            omitted: 0,
            actor: Some(actor),
        }
    }
}

impl LineKind for AuditLine {
    const FILE: &'static str = "audit log";
    const SECTION: &'static str = "audit";
    const SUBJECTS: &'static str = "changes and refusals";
    const MODE: u32 = 0o600;
}

/// A request that has begun. Its line is written when this is dropped.
pub(super) struct PendingLine {
    recorder: Arc<Recorder>,
    facts: RequestFacts,
    at: Timestamp,
    peer: IpAddr,
    method: Method,
    route: Option<MatchedPath>,
    parts: Option<RawPathParams>,
    answer: Option<SentAnswer>,
}

struct SentAnswer {
    request: Option<String>,
    status: StatusCode,
    problem: Option<Code>,
}

impl PendingLine {
    /// Reads what a line may need of the request.
    pub(super) async fn of(recorder: Arc<Recorder>, request: Request) -> (Request, Self) {
        let (mut head, body) = request.into_parts();
        let parts = RawPathParams::from_request_parts(&mut head, &()).await.ok();
        let pending = Self {
            recorder,
            facts: RequestFacts::begin(),
            at: Timestamp::now(),
            peer: client_address(&head.extensions),
            method: head.method.clone(),
            route: head.extensions.get().cloned(),
            parts,
            answer: None,
        };
        (Request::from_parts(head, body), pending)
    }

    pub(super) fn facts(&self) -> RequestFacts {
        self.facts.clone()
    }

    pub(super) fn answered(mut self, response: &Response) {
        let request = response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let problem = response.extensions().get::<Code>().copied();
        self.answer = Some(SentAnswer { request, status: response.status(), problem });
    }

    fn line(&mut self, facts: Facts, omitted: u64) -> AuditLine {
        let Facts { client, token, tenant, account, made, actor: _, administers: _ } = facts;
        let (request, status, problem) = match self.answer.take() {
            Some(SentAnswer { request, status, problem }) => (request, Some(status.as_u16()), problem),
            None => (None, None, None),
        };
        let route = self.route.as_ref().map(|route| route.as_str().to_owned());
        let parts = self.parts.iter().flatten();
        let object = parts.map(|(name, text)| (name.to_owned(), part(route.as_deref(), name, text))).collect();
        AuditLine {
            worker: self.recorder.log.as_ref().map(|log| log.worker().clone()),
            at_ms: self.at,
            request,
            client,
            token,
            tenant,
            account,
            peer: self.peer,
            method: self.method.to_string(),
            route,
            object,
            made,
            status,
            problem,
            omitted,
            actor: None,
        }
    }
}

impl Drop for PendingLine {
    fn drop(&mut self) {
        let mut facts = self.facts.snapshot();
        let omitted = match &self.answer {
            Some(answer) if is_refusal(answer.status) => self.recorder.admit_refusal(self.peer),
            _ if facts.administers && !self.method.is_safe() => Some(self.recorder.take_omitted()),
            _ => None,
        };
        if let Some(omitted) = omitted {
            let actor = std::mem::take(&mut facts.actor);
            let line = self.line(facts, omitted);
            self.recorder.write(line, actor);
        }
    }
}

/// A part of a path as the log shows it. Where it may be the text of a token, it is that token's id.
fn part(route: Option<&str>, name: &str, text: &str) -> String {
    let names_token = name == "token" || (name == "id" && route.is_some_and(|route| route.contains("/tokens/")));
    if names_token || text.contains(TokenText::MARK) {
        // lmstfy's clients may write a pool before it.
        let text = text.split_once(':').map_or(text, |(_, text)| text);
        let id: TokenId = text.parse().unwrap_or_else(|_| TokenHash::of(text).id());
        return id.to_string();
    }
    text.chars().take(PART_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_the_reference() {
        let line = AuditLine {
            worker: Some(WorkerId::new("mill-1")),
            at_ms: Timestamp::default(),
            request: None,
            client: ClientKind::Unknown,
            token: None,
            tenant: None,
            account: None,
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
            method: "GET".into(),
            route: None,
            object: BTreeMap::new(),
            made: None,
            status: None,
            problem: None,
            omitted: 0,
            actor: None,
        };
        let reference = include_str!("../../../../docs/reference/audit.md");
        for field in serde_json::to_value(line).unwrap().as_object().unwrap().keys() {
            assert!(reference.contains(&format!("| `{field}` |")), "docs/reference/audit.md has no row for `{field}`");
        }
    }

    #[test]
    fn the_text_of_a_token_is_never_shown() {
        let (id, text) = ("0123456789abcdef", "gm_secret");
        let hidden = TokenHash::of(text).id().to_string();
        for (route, name, given, shown) in [
            ("/v1/tokens/{id}", "id", id, id),
            ("/v1/tokens/{id}", "id", text, &hidden),
            ("/v1/tenants/{tenant}/tokens/{id}/limits", "id", text, &hidden),
            ("/token/{namespace}/{token}", "token", "default:gm_secret", &hidden),
            ("/v1/tenants/{tenant}/topics/{topic}", "topic", text, &hidden),
            ("/v1/tenants/{tenant}/topics/{topic}", "topic", "mail", "mail"),
            ("/v1/tenants/{tenant}/jobs/{id}", "id", "j-1", "j-1"),
        ] {
            assert_eq!(part(Some(route), name, given), shown, "{route} {given}");
        }
    }
}
