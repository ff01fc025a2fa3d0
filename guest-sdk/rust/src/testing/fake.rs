//! The host functions outside a component: same names and types as the generated ones, over a thread's [`State`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::bindings::http::gristmill::job::http::{HttpError, Response};
use crate::testing::host::NOW;
use crate::testing::{EnqueuedJob, LogLine, SentRequest};

thread_local! {
    // There is always one, so that a handler may also be called without `Host::run`.
    static STATE: RefCell<State> = RefCell::default();
}

/// What the fake knows and refuses, and what was done to it.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) secrets: BTreeMap<String, Vec<u8>>,
    pub(crate) now: u64,
    pub(crate) fuel: u64,
    pub(crate) cancelled: bool,
    pub(crate) denied: BTreeSet<String>,
    pub(crate) follow_ups_max: u32,
    pub(crate) checkpoints_fail: bool,
    /// The job that runs has a key.
    pub(crate) has_key: bool,
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) state_limit: u64,
    pub(crate) states_fail: bool,
    /// The first is the next.
    pub(crate) answers: VecDeque<Result<Response, HttpError>>,

    pub(crate) enqueued: Vec<EnqueuedJob>,
    pub(crate) requests: Vec<SentRequest>,
    pub(crate) logs: Vec<LogLine>,
    pub(crate) checkpoint: Option<Vec<u8>>,
    pub(crate) progress: Vec<(u32, Option<String>)>,
    /// What the handler said last, if anything.
    pub(crate) new_state: Option<Option<Vec<u8>>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            config: BTreeMap::new(),
            secrets: BTreeMap::new(),
            now: NOW,
            fuel: 1_000_000_000_000,
            cancelled: false,
            denied: BTreeSet::new(),
            follow_ups_max: 100,
            checkpoints_fail: false,
            has_key: false,
            state: None,
            state_limit: 64 << 10,
            states_fail: false,
            answers: VecDeque::new(),
            enqueued: Vec::new(),
            requests: Vec::new(),
            logs: Vec::new(),
            checkpoint: None,
            progress: Vec::new(),
            new_state: None,
        }
    }
}

/// Runs `work` with this state as the thread's, and returns it as `work` left it.
///
/// A panic leaves the state behind; the next call replaces it whole.
pub(crate) fn with<T>(state: State, work: impl FnOnce() -> T) -> (T, State) {
    STATE.set(state);
    let value = work();
    (value, STATE.take())
}

fn state<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

pub(crate) mod context {
    use super::state;
    use crate::bindings::gristmill::job::context::CheckpointError;

    pub(crate) fn fuel_remaining() -> u64 {
        state(|host| host.fuel)
    }

    pub(crate) fn now() -> u64 {
        state(|host| host.now)
    }

    pub(crate) fn is_cancelled() -> bool {
        state(|host| host.cancelled)
    }

    pub(crate) fn checkpoint(bytes: &[u8]) -> Result<(), CheckpointError> {
        state(|host| {
            if host.checkpoints_fail {
                return Err(CheckpointError::Unavailable("the fake host was told to refuse".into()));
            }
            host.checkpoint = Some(bytes.to_vec());
            Ok(())
        })
    }

    pub(crate) fn progress(basis_points: u32, note: Option<&str>) {
        state(|host| host.progress.push((basis_points.min(10_000), note.map(str::to_owned))));
    }
}

pub(crate) mod queue {
    use super::state;
    use crate::bindings::gristmill::job::queue::{LinkedError, Links, NewJob};
    use crate::testing::EnqueuedJob;

    pub(crate) fn enqueue_linked(job: &NewJob, links: &Links) -> Result<String, LinkedError> {
        state(|host| {
            if host.denied.contains(&job.topic) {
                return Err(LinkedError::Denied);
            }
            if host.enqueued.len() >= host.follow_ups_max as usize {
                return Err(LinkedError::TooMany(host.follow_ups_max));
            }
            let id = format!("01K1{:022}", host.enqueued.len() + 1);
            host.enqueued.push(EnqueuedJob { id: id.clone(), links: links.clone(), job: job.clone() });
            Ok(id)
        })
    }
}

pub(crate) mod http {
    use super::state;
    use crate::bindings::http::gristmill::job::http::{HttpError, Request, Response};

    pub(crate) fn send(request: &Request) -> Result<Response, HttpError> {
        state(|host| {
            host.requests.push(request.clone());
            let denied = || Err(HttpError::Denied("the fake host has no answer left: queue one".into()));
            host.answers.pop_front().unwrap_or_else(denied)
        })
    }
}

pub(crate) mod state {
    use super::State;
    use crate::bindings::state::gristmill::job::state::StateError;

    pub(crate) fn get() -> Result<Option<Vec<u8>>, StateError> {
        super::state(|host| {
            check(host)?;
            Ok(host.new_state.clone().unwrap_or_else(|| host.state.clone()))
        })
    }

    pub(crate) fn set(value: Option<&[u8]>) -> Result<(), StateError> {
        super::state(|host| {
            check(host)?;
            if value.is_some_and(|value| value.len() as u64 > host.state_limit) {
                return Err(StateError::TooLarge(host.state_limit));
            }
            host.new_state = Some(value.map(<[u8]>::to_vec));
            Ok(())
        })
    }

    fn check(host: &State) -> Result<(), StateError> {
        if host.states_fail {
            return Err(StateError::Unavailable("the fake host was told to refuse".into()));
        }
        if host.has_key { Ok(()) } else { Err(StateError::NoKey) }
    }
}

pub(crate) mod log {
    use super::state;
    use crate::bindings::gristmill::job::log::Level;
    use crate::testing::LogLine;

    pub(crate) fn emit(level: Level, message: &str, fields: &[(String, String)]) {
        state(|host| host.logs.push(LogLine { level, message: message.into(), fields: fields.to_vec() }));
    }

    /// A test wants to see every line.
    pub(crate) fn enabled(_level: Level) -> bool {
        true
    }
}

pub(crate) mod config {
    use super::state;

    pub(crate) fn get(name: &str) -> Option<String> {
        state(|host| host.config.get(name).cloned())
    }

    pub(crate) fn secret(name: &str) -> Option<Vec<u8>> {
        state(|host| host.secrets.get(name).cloned())
    }
}
