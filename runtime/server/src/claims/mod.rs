//! The claim service: every client that claims jobs over HTTP claims them here, whatever API it speaks.
//!
//! ```text
//! claim ─► poll ─► jobs? ─► Claimed ─► answer ─► delivered, or given back
//!           ▲       │ none
//!           └─ woken, in the order of arrival (waiting)
//! ```
//!
//! A client has no heartbeat: what it holds comes back when its lease runs out. Each claim is a worker of its own to the
//! store, so that the jobs of a claim that lost its reply can be distinguished from all others.

mod answer;
mod guard;
mod poll;
mod running;
mod service;
mod waiting;
mod worker;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::problem::Problem;
use crate::state::AppState;
use gristmill_core::job::{Name, TopicId};

pub(crate) use guard::{ClaimGuard, Claimed};
pub(crate) use running::{attempts_max, running};
pub(crate) use service::ClaimService;
pub(crate) use worker::{client_of, topic_of};

/// The longest lease. A worker that needs more extends it.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct ClaimRequest {
    pub(crate) tenant: Name,
    /// Topics of the tenant. All jobs of the first one come before those of the next.
    pub(crate) topics: Vec<TopicId>,
    /// The most jobs.
    pub(crate) max: usize,
    pub(crate) lease: Duration,
    /// How long to wait for the first job. Zero: not at all.
    pub(crate) wait: Duration,
    /// The name of the client, for people.
    pub(crate) client: String,
    /// The tenant of the client's token. `None`: all tenants.
    pub(crate) share_of: Option<Name>,
    /// Whether topics that the manifest does not name may be claimed from. Topics with a handler never are.
    pub(crate) unknown_topics: bool,
}

/// Claims jobs: now, or within [`ClaimRequest::wait`] as soon as there are some. Returns none if the time is over or the
/// server ends first. Cancel-safe: what was claimed is given back.
///
/// # Errors
/// [`Code::NotExternal`](crate::problem::Code::NotExternal), [`Code::Busy`](crate::problem::Code::Busy) if too many claims wait, and what the store answers.
pub(crate) async fn claim(state: &AppState, request: ClaimRequest) -> Result<Claimed, Problem> {
    let (deadline, request) = (Instant::now() + request.wait, Arc::new(request));
    let claimed = poll::poll(state, &request).await?;
    if !claimed.is_empty() || request.wait.is_zero() {
        return Ok(claimed);
    }
    let _kept = state.request_limiter.keep_waiting(request.share_of.as_ref())?;
    let _permit = state.claims.permit_to_wait(request.share_of.as_ref())?;
    let line = &state.claims.waiting_line;
    let mut waiter = line.join(&state.signal_hub, state.topic_changes(), &request.tenant, &request.topics).await?;
    loop {
        waiter.begin_look();
        let claimed = poll::poll(state, &request).await;
        waiter.end_look(claimed.as_ref().is_ok_and(|claimed| !claimed.is_empty()));
        let claimed = claimed?;
        if !claimed.is_empty() {
            return Ok(claimed);
        }
        tokio::select! {
            () = waiter.woken() => {}
            () = tokio::time::sleep_until(deadline) => return Ok(claimed),
            () = state.stop.cancelled() => return Ok(claimed),
        }
    }
}
