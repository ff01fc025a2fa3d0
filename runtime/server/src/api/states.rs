//! What the jobs of a key leave for each other: look at it, delete it.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use serde_json::json;

use crate::auth::allowed::{Allowed, scope};
use crate::openapi::{Argument, Operation};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::wire;
use gristmill_core::job::{Name, TopicId};
use gristmill_store::StateDeleted;

const KEY: &str = "Write the bytes of the key that are no letters, digits, `-`, `_` or `.` as `%2F`.";
const DELETE: &str = "A job of the key that is running may set the state again. Write the bytes of the key that are no letters, digits, \
    `-`, `_` or `.` as `%2F`.";

/// What the path names: a tenant, a topic, and a key.
type InPath = (Name, Name, String);

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/topics/{topic}/state/{key}";
    Routes::of("topics")
        .get(path, show, "Look at the state of a key")
        .description(KEY)
        .header("ETag", "The version in quotation marks, if there is a state.")
        .delete(path, delete, "Delete the state of a key")
        .description(DELETE)
        .problems(&[Code::OtherVersion])
}

async fn show(
    Allowed { over: (tenant, topic, key), identity, state, .. }: Allowed<scope::Read, InPath>,
) -> Result<(HeaderMap, Json<wire::KeyState>), Problem> {
    state.may_see_payloads(&identity, &tenant)?;
    let found = state.store.state(&TopicId { tenant, topic }, &key).await?;
    let version = found.as_ref().map(|state| state.version);
    let tag = version.and_then(|version| HeaderValue::try_from(format!("\"{version}\"")).ok());
    let headers = tag.map(|tag| (header::ETAG, tag)).into_iter().collect();
    Ok((headers, Json(wire::KeyState { state: found.map(|state| wire::Base64(state.value)), version })))
}

async fn delete(
    Allowed { over: (tenant, topic, key), state, .. }: Allowed<scope::Admin, InPath>,
    IfMatch(version): IfMatch,
) -> Result<Json<wire::Changed>, Problem> {
    match state.store.delete_state(&TopicId { tenant, topic }, &key, version).await? {
        StateDeleted::Deleted => Ok(Json(wire::Changed { changed: true })),
        StateDeleted::Missing => Ok(Json(wire::Changed { changed: false })),
        StateDeleted::OtherVersion => {
            let detail =
                "the state of the key has changed since, so it was not deleted: look at it again for its version";
            Err(Problem::new(Code::OtherVersion, detail))
        }
    }
}

/// The version that `If-Match` names; any if there is no such header.
struct IfMatch(Option<u64>);

impl IfMatch {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut tags = headers.get_all(header::IF_MATCH).iter();
        let version = match (tags.next(), tags.next()) {
            (None, _) => return Ok(Self(None)),
            (Some(tag), None) => tag.to_str().ok().and_then(|tag| tag.trim().strip_prefix('"')?.strip_suffix('"')),
            (Some(_), Some(_)) => None,
        };
        let rule = || Problem::new(Code::BadRequest, "`If-Match` names one version, as `ETag` has it: `\"7\"`");
        version.and_then(|version| version.parse().ok()).map(|version| Self(Some(version))).ok_or_else(rule)
    }
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers)
    }
}

impl Argument for IfMatch {
    fn describe(operation: &mut Operation<'_>) {
        let description =
            "Deletes this version only, as `ETag` has it; any other stays, and the answer is `other-version`.";
        operation.in_header("If-Match", description, json!({ "type": "string", "pattern": "^\"[0-9]+\"$" }));
        operation.fails(Code::BadRequest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_names_one_version() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_static(value));
            }
            IfMatch::of(&headers).map(|IfMatch(version)| version).map_err(|problem| problem.code)
        };
        assert_eq!((read(&[]), read(&["\"7\""])), (Ok(None), Ok(Some(7))));
        for wrong in [&["7"][..], &["\"7"], &["W/\"7\""], &["*"], &["\"7\", \"8\""], &["\"7\"", "\"8\""], &["\"\""]] {
            assert_eq!(read(wrong), Err(Code::BadRequest), "{wrong:?}");
        }
    }
}
