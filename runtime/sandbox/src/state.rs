//! What the host knows about one attempt while its guest runs.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use wasmtime::component::ResourceTable;

use super::attempt::{Attempt, LogLine, Version};
use super::guest_http::WasiHttpState;
use super::guest_log::GuestLog;
use super::guest_wasi::GuestWasi;
use super::host_memory::HostMemory;
use super::keyed_state::KeyedState;
use super::limiter::MemoryLimiter;
use super::meter::{Meter, bytes_per_call};
use super::outbound::{Egress, RequestKeys};
use super::placeholders::Placeholders;
use super::program_streams::ProgramStreams;
use super::recording::Record;
use super::tried::{Ports, Try};
use gristmill_core::admission::FollowUps;
use gristmill_core::job::TopicId;
use gristmill_core::outcome::StateChange;
use gristmill_core::time::Timestamp;

/// Resources (streams, pollables) that a guest may hold at once.
const RESOURCES_MAX: usize = 1_000;

/// The data of a store. Nothing of it outlives the attempt but what [`super::invoke`] takes out, and in an instance that
/// is kept what [`State::renew`] names.
pub(super) struct State {
    pub(super) attempt: Arc<Attempt>,
    /// Made when the guest first asks for it.
    keyed: Option<Box<KeyedState>>,
    pub(super) memory: MemoryLimiter,
    /// What the host keeps beside it.
    pub(super) host_memory: HostMemory,
    pub(super) follow_ups: FollowUps,
    /// Shared with the guest's standard output and error, which live inside `wasi`.
    pub(super) guest_log: Arc<Mutex<GuestLog>>,
    /// Its questions are recorded, or answered from a recording: see `recording::boundary`.
    pub(super) is_recorded: bool,
    /// Requests over HTTP that were made.
    pub(super) http_requests: u32,
    /// What the host adds to them, the placeholders of secrets too.
    pub(super) egress: Egress,
    pub(super) wasi_http: WasiHttpState,
    pub(super) meter: Meter,
    pub(super) resources: ResourceTable,
    /// While the attempt is tried without the component model.
    pub(super) tried: Option<Try>,
    /// What a program reads and writes; none if the guest is no program.
    pub(super) program: Option<Box<ProgramStreams>>,
    /// Made when the guest first calls WASI: many never do, and it costs more than everything else here together.
    pub(super) wasi: Option<GuestWasi>,
}

impl State {
    /// Of an attempt that started at this time, and whose time is over at `deadline`, by the store's clock.
    pub(super) fn new(attempt: &Arc<Attempt>, version: Version, started: Instant, deadline: Timestamp) -> Self {
        let mut resources = ResourceTable::new();
        resources.set_max_capacity(RESOURCES_MAX);
        let guest_log = Arc::new(Mutex::new(GuestLog::new(attempt, Some(version))));
        let egress = egress(attempt);
        Self {
            attempt: Arc::clone(attempt),
            keyed: None,
            memory: MemoryLimiter::new(attempt.limits.memory_bytes),
            host_memory: HostMemory::default(),
            follow_ups: FollowUps::default(),
            program: ProgramStreams::of(attempt, egress.placeholders.as_deref(), &guest_log, deadline),
            guest_log,
            is_recorded: !matches!(attempt.record, Record::Off),
            http_requests: 0,
            egress,
            wasi_http: WasiHttpState::default(),
            meter: Meter::new(started, attempt.cancellation.control.waited()),
            resources,
            tried: None,
            wasi: None,
        }
    }

    /// The same of a [try](super::direct): its log lines are held back, and nothing is recorded.
    pub(super) fn of_try(attempt: &Arc<Attempt>, version: Version, started: Instant, deadline: Timestamp) -> Self {
        let state = Self::new(attempt, version, started, deadline);
        state.guest_log().hold();
        Self { is_recorded: false, tried: Some(Try::default()), ..state }
    }

    /// Makes the state of a used instance another attempt's. The guest goes on with what it holds: its memories, and its
    /// handles to streams and clocks. Whatever is not named here is as in [`State::new`].
    pub(super) fn renew(&mut self, attempt: &Arc<Attempt>, version: Version, started: Instant, deadline: Timestamp) {
        let used = mem::replace(self, Self::new(attempt, version, started, deadline));
        // The streams lead to the old guest_log's place: the new content moves in there.
        mem::swap(&mut *self.guest_log(), &mut *used.guest_log());
        self.guest_log = used.guest_log;
        self.memory = MemoryLimiter::new(attempt.limits.memory_bytes).holding(&used.memory);
        self.resources = used.resources;
        if used.egress.placeholders.as_ref().is_some_and(|known| known.are_of(&self.attempt.grants)) {
            // The guest may have kept them, and its environment has them.
            self.egress.placeholders = used.egress.placeholders;
        }
        self.wasi = used.wasi.inspect(|world| world.set_clock(attempt.clock_offset_ms));
    }

    /// The instance could not be made, and will be made again.
    pub(super) fn forget_memories(&mut self) {
        self.memory = MemoryLimiter::new(self.attempt.limits.memory_bytes);
    }

    pub(super) fn topic(&self) -> &TopicId {
        &self.attempt.job.spec.topic
    }

    /// The state of the job's key; none if the topic keeps no states.
    pub(super) fn keyed(&mut self) -> Option<&mut KeyedState> {
        if self.keyed.is_none() {
            self.keyed = KeyedState::of(&self.attempt).map(Box::new);
        }
        self.keyed.as_deref_mut()
    }

    /// What becomes of it.
    pub(super) fn take_state_change(&mut self) -> Option<StateChange> {
        self.keyed.as_mut()?.take_change()
    }

    pub(super) fn placeholders(&self) -> Option<&Placeholders> {
        self.egress.placeholders.as_deref()
    }

    /// The store's clock.
    pub(super) fn now(&self) -> Timestamp {
        self.attempt.now()
    }

    pub(super) fn log(&self, line: LogLine) {
        self.guest_log().write(line);
    }

    /// A function is called that may make a handle lead to more. The meter ends the guest if that is too much.
    pub(super) fn note_handles(&mut self) {
        let per_call = bytes_per_call(&self.attempt.limits, &self.attempt.grants);
        let entries = self.host_memory.note_call(&mut self.resources, per_call);
        self.charge_bytes(entries);
    }

    /// Bytes that the guest's handles lead to.
    pub(super) fn held_by_handles(&mut self) -> usize {
        self.host_memory.bytes(&mut self.resources)
    }

    /// What the attempt has while it is tried.
    ///
    /// # Errors
    /// It is not a try.
    pub(super) fn tried(&mut self) -> wasmtime::Result<&mut Try> {
        self.tried.as_mut().ok_or_else(|| wasmtime::Error::msg("this is no try"))
    }

    pub(super) fn ports(&self) -> wasmtime::Result<&Ports> {
        let ports = self.tried.as_ref().and_then(|tried| tried.ports.as_ref());
        ports.ok_or_else(|| wasmtime::Error::msg("the guest calls the host while it is instantiated"))
    }

    /// Bytes that passed through the guest's standard streams, and the bodies of its requests, since the last time.
    pub(super) fn take_passed(&self) -> u64 {
        // Only WASI has streams, and only requests have bodies.
        if self.wasi.is_some() || self.http_requests > 0 { mem::take(&mut self.guest_log().passed) } else { 0 }
    }

    pub(super) fn guest_log(&self) -> MutexGuard<'_, GuestLog> {
        self.guest_log.lock()
    }
}

fn egress(attempt: &Attempt) -> Egress {
    let placeholders = match &attempt.record {
        Record::Replay(recording) => Placeholders::recorded(recording.placeholders()),
        Record::Off | Record::Failures | Record::All => Placeholders::new(&attempt.grants),
    };
    let wants_keys = attempt.grants.http.as_ref().is_some_and(|grant| grant.idempotency);
    let keys = wants_keys.then(|| Arc::new(RequestKeys::of(&attempt.job.spec)));
    Egress { trace: attempt.requests.clone(), placeholders, keys }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter;

    use super::super::attempt::LogSink;
    use super::super::tests::attempt;
    use super::*;
    use gristmill_core::admission::{FollowUpRules, Rules, Targets};
    use gristmill_core::job::{Due, NewJob};
    use gristmill_core::trace::TraceContext;

    /// No field is omitted here: the author of a new field states what becomes of it when an instance is used again.
    #[test]
    fn a_renewed_state_is_the_new_attempts_but_for_what_the_guest_holds() {
        let version = Version([1; 32]);
        let mut state = spoilt(version);
        let guest_log = Arc::clone(&state.guest_log);

        let mut next = attempt("next");
        let lines = Arc::default();
        next.logs = LogSink::Collect(Arc::clone(&lines));
        Arc::make_mut(&mut next.job).spec.topic = "other".parse().unwrap();
        Arc::make_mut(&mut next.grants).config.insert("a".into(), "new".into());
        next.clock_offset_ms = 7;
        next.limits.host_calls = 1;
        let next = Arc::new(next);
        state.renew(&next, version, Instant::now(), next.now());

        assert!(state.charge(0).is_ok() && state.charge(0).is_err());
        state.log(line("to the new attempt"));
        let State {
            attempt,
            keyed,
            memory,
            host_memory,
            follow_ups,
            guest_log: renewed,
            is_recorded,
            http_requests,
            egress,
            wasi_http: _,
            meter,
            resources,
            tried,
            program,
            wasi,
        } = state;
        assert!(Arc::ptr_eq(&attempt, &next) && keyed.is_none());
        assert_eq!((memory.in_use(), memory.peak(), memory.denied()), (10, 10, false));
        assert_eq!((host_memory.peak(), is_recorded, tried.is_none()), (0, false, true));
        assert_eq!((follow_ups.is_empty(), http_requests, egress.trace.is_none()), (true, 0, true));
        assert!(Arc::ptr_eq(&renewed, &guest_log), "the guest's streams lead there");
        assert_eq!(lines.lock().len(), 1);
        assert_eq!(guest_log.lock().close(), 0);
        assert_eq!((resources.is_empty(), wasi.is_none()), (false, true));
        assert!(program.is_none(), "an instance of a program is never used again");
        assert!(meter.owed() > 0, "what the next calls cost");
    }

    /// The state of an attempt that has used everything up.
    fn spoilt(version: Version) -> State {
        let mut first = attempt("first");
        (first.limits.log_bytes, first.limits.host_calls, first.limits.memory_bytes) = (0, 0, 10);
        let first = granted(first);
        let mut state = State::new(&first, version, Instant::now(), first.now());
        state.log(line("dropped"));
        assert!(state.charge(0).is_err() && state.keyed().is_some());
        assert!(state.memory.memory_growing(0, 10, None).unwrap());
        assert!(!state.memory.memory_growing(10, 11, None).unwrap());
        let follow_up = NewJob { spec: first.job.spec.clone(), due: Due::Now };
        let targets = Targets::from([(first.job.spec.topic.topic.clone(), Rules::default())]);
        let tenant = &first.job.spec.topic.tenant;
        let rules = FollowUpRules { tenant, grants: &first.grants, targets: &targets, count: 1, near: None };
        state.follow_ups.add(follow_up, &rules).unwrap();
        state.http_requests = 3;
        let context = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        state.egress.trace = context.map(crate::RequestTrace::new);
        state.resources.push(()).unwrap();
        assert!(state.held_by_handles() > 0 && state.host_memory.peak() > 0);
        state
    }

    fn granted(mut attempt: Attempt) -> Arc<Attempt> {
        Arc::make_mut(&mut attempt.grants).switches.insert(gristmill_core::topic::Capability::State);
        Arc::new(attempt)
    }

    fn line(message: &str) -> LogLine {
        LogLine { level: tracing::Level::INFO, source: "log", message: message.into(), fields: Vec::new() }
    }
}
