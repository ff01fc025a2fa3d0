//! A fresh instance for every job, as the product makes it, but with what bounds it left to the variant.

use std::pin::pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wasmtime::component::{Component, ComponentExportIndex, HasSelf, InstancePre, Linker};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder};

use crate::guest::Guest;
use crate::variant::{FUEL, TICK, Variant};

mod bindings {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "job-handler",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
        exports: { default: async },
    });
}
use bindings::gristmill::job::types::{self, Failure, Job, Outcome, PayloadParam};
use bindings::gristmill::job::{config, log};

type Answer = Result<Outcome, Failure>;

pub(crate) struct Sandbox {
    variant: Variant,
    pre: InstancePre<State>,
    /// None in a component that exports nothing.
    handle: Option<ComponentExportIndex>,
}

struct State {
    limits: StoreLimits,
    lines: u64,
}

impl types::Host for State {}

impl log::Host for State {
    fn emit(&mut self, _level: log::Level, _message: String, _fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.lines += 1;
        Ok(())
    }

    fn enabled(&mut self, _level: log::Level) -> wasmtime::Result<bool> {
        Ok(true)
    }
}

impl config::Host for State {
    fn get(&mut self, _name: String) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }

    fn secret(&mut self, _name: String) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

impl Sandbox {
    pub(crate) fn new(variant: &Variant, guest: &Guest) -> Self {
        let engine = variant.engine();
        let component = Component::from_binary(&engine, &guest.wasm).unwrap();
        let mut linker = Linker::new(&engine);
        types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).unwrap();
        log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).unwrap();
        config::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state).unwrap();
        // What a guest imports and never calls costs nothing, whatever is behind it.
        linker.define_unknown_imports_as_traps(&component).unwrap();
        let handle = component
            .get_export(None, "gristmill:job/handler@0.1.0")
            .and_then(|(_, handler)| component.get_export(Some(&handler), "handle"))
            .map(|(_, handle)| handle);
        Self { variant: *variant, pre: linker.instantiate_pre(&component).unwrap(), handle }
    }

    /// From a new store to its end.
    pub(crate) async fn run(&self, guest: &Guest, timeout: Duration) -> Ended {
        let mut store = self.store();
        let mut held = Vec::new();
        let begun = Instant::now();
        let answer = {
            let mut call = pin!(self.call(&mut store, &guest.body));
            let watched = std::future::poll_fn(|context| {
                let polled = Instant::now();
                let answer = call.as_mut().poll(context);
                held.push(polled.elapsed());
                answer
            });
            tokio::time::timeout(timeout, watched).await
        };
        let took = begun.elapsed();
        if let Ok(answer) = answer {
            assert!(!matches!(answer, Some(Err(_))), "{}: the guest fails", guest.name);
        }
        Ended { held, late: took.saturating_sub(timeout) }
    }

    async fn call(&self, store: &mut Store<State>, body: &[u8]) -> Option<Answer> {
        let instance = self.pre.instantiate_async(&mut *store).await.unwrap();
        let handle = instance.get_typed_func::<(Job<'_>,), (Answer,)>(&mut *store, self.handle.as_ref()?).unwrap();
        Some(handle.call_async(store, (job(body),)).await.unwrap().0)
    }

    fn store(&self) -> Store<State> {
        let state = State { limits: StoreLimitsBuilder::new().memory_size(64 << 20).build(), lines: 0 };
        let mut store = Store::new(self.pre.engine(), state);
        store.limiter(|state| &mut state.limits);
        if let Some(interval) = self.variant.fuel {
            store.set_fuel(FUEL).unwrap();
            store.fuel_async_yield_interval(interval).unwrap();
        }
        if self.variant.epoch {
            store.set_epoch_deadline(1);
            store.epoch_deadline_async_yield_and_update(1);
        }
        store
    }

    /// Lets time pass for guests that are bounded by epochs, until it is dropped.
    pub(crate) fn clock(&self) -> Option<Clock> {
        self.variant.epoch.then(|| Clock::start(self.pre.engine().clone()))
    }
}

/// What became of a job.
pub(crate) struct Ended {
    /// How long the guest kept its thread, each time.
    pub(crate) held: Vec<Duration>,
    /// After its deadline.
    pub(crate) late: Duration,
}

/// A thread that raises an engine's epoch at every tick.
pub(crate) struct Clock {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    fn start(engine: Engine) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn job(body: &[u8]) -> Job<'_> {
    Job {
        id: "01KAGW5Z8Q0000000000000000",
        tenant: "default",
        topic: "bench",
        body: PayloadParam { data: body, content_type: None },
        metadata: &[],
        key: None,
        attempt: 1,
        max_attempts: 5,
        enqueued_at: 1_795_176_245_006,
        due_at: 1_795_176_245_006,
        deadline: 1_795_176_275_006,
        checkpoint: None,
    }
}
