//! `http`: requests to what the topic is granted.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::super::bindings::http::{HttpError, Request, Response};
use super::super::outbound::{Outbound, Sent};
use super::super::recording::answers::{Fault, HttpReply, about_request, answered, request_question, response};
use super::super::state::State;
use gristmill_core::http_grant::HttpGrant;

/// Links the interface by hand, like `context`: the guest waits while others go on.
///
/// It is always linked, so that a component which imports it loads. Without a grant, each request is denied.
pub(super) fn add_to_linker(linker: &mut Linker<State>, outbound: &Outbound) -> wasmtime::Result<()> {
    let outbound = outbound.clone();
    let mut http = linker.instance("gristmill:job/http@0.1.0")?;
    http.func_wrap_async("send", move |mut store: StoreContextMut<'_, State>, (request,): (Request,)| {
        let outbound = outbound.clone();
        Box::new(async move {
            let headers = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            let body = request.body.as_ref().map_or(0, Vec::len);
            store.data_mut().charge(request.url.len() + headers + body)?;
            let answer = send(store.data_mut(), &outbound, request).await?;
            store.data_mut().charge_bytes(answer.as_ref().map_or(0, |response| response.body.len()));
            Ok((answer,))
        })
    })
}

async fn send(
    state: &mut State,
    outbound: &Outbound,
    request: Request,
) -> wasmtime::Result<Result<Response, HttpError>> {
    let Request { method, url, headers, body, timeout, redirects } = &request;
    let about = about_request(method, url);
    let question = state.question(
        "http.send",
        &about,
        &request_question(method, url, headers, body.as_deref(), *timeout, *redirects),
    );
    if let Some((answer, requests)) = state.recorded::<HttpReply>(&question)? {
        state.http_requests += requests;
        return Ok(answer.map(response).map_err(HttpError::from));
    }
    let sent = match allowance(state) {
        Ok((grant, remaining)) => outbound.send(state.topic(), &grant, request, remaining, state.egress.clone()).await,
        Err(error) => Sent { answer: Err(error), requests: 0 },
    };
    state.http_requests += sent.requests;
    if state.is_recorded {
        let answer: HttpReply = (sent.answer.as_ref().map(answered).map_err(Fault::from), sent.requests);
        state.keep(&question, &answer);
    }
    Ok(sent.answer)
}

/// What the topic may reach, and how many requests the attempt may still send: at least one.
///
/// # Errors
/// It may send none.
pub(super) fn allowance(state: &State) -> Result<(Arc<HttpGrant>, u32), HttpError> {
    let Some(grant) = state.attempt.grants.http.as_ref().map(Arc::clone) else {
        return Err(HttpError::Denied("this topic may send no requests: grant it [topics.NAME.http]".to_owned()));
    };
    match grant.requests.saturating_sub(state.http_requests) {
        0 => Err(HttpError::TooMany(grant.requests)),
        remaining => Ok((grant, remaining)),
    }
}
