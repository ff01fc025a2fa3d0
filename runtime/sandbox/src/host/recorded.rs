//! The functions of WASI whose answers do not follow from a job: clocks, random numbers, and what is ready when. They are linked over those of
//! wasmtime and do as these do, but their answers are recorded, and a replay takes them from there.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::io::poll;
use wasmtime_wasi::p2::bindings::io::streams::{self, HostInputStream as _, HostOutputStream as _};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, Pollable as _};
use wasmtime_wasi::random::WasiRandomView as _;
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::body::HostFutureTrailers;
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostIncomingResponse};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::state::State;

type Store<'a> = StoreContextMut<'a, State>;
type GotTrailers = Option<Result<Result<Option<Resource<types::Trailers>>, ErrorCode>, ()>>;
type Got = Option<Result<Result<Resource<HostIncomingResponse>, ErrorCode>, ()>>;

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    add_numbers(linker)?;
    add_readiness(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// An answer of a function of WASI, which charges for its call by itself; without it, the call is charged here.
fn ask<A: Serialize + DeserializeOwned>(
    mut store: Store<'_>,
    name: &'static str,
    question: &impl Serialize,
    live: impl FnOnce(&mut State) -> wasmtime::Result<A>,
) -> wasmtime::Result<(A,)> {
    let state = store.data_mut();
    let question = state.question(name, "", question);
    if let Some(answer) = state.recorded(&question)? {
        state.charge(0).ok();
        return Ok((answer,));
    }
    // No answer to replay: this is no replay, or the call ended the guest.
    let answer = live(state);
    state.keep_or_note_end(&question, &answer);
    Ok((answer?,))
}

fn add_numbers(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut secure = linker.instance("wasi:random/random@0.2.12")?;
    secure.func_wrap("get-random-bytes", |store: Store<'_>, (length,): (u64,)| {
        ask(store, "random.bytes", &length, |state| random::Host::get_random_bytes(state.random(), length))
    })?;
    secure.func_wrap("get-random-u64", |store: Store<'_>, (): ()| {
        ask(store, "random.u64", &(), |state| random::Host::get_random_u64(state.random()))
    })?;
    let mut fast = linker.instance("wasi:random/insecure@0.2.12")?;
    fast.func_wrap("get-insecure-random-bytes", |store: Store<'_>, (length,): (u64,)| {
        ask(store, "insecure.bytes", &length, |state| insecure::Host::get_insecure_random_bytes(state.random(), length))
    })?;
    fast.func_wrap("get-insecure-random-u64", |store: Store<'_>, (): ()| {
        ask(store, "insecure.u64", &(), |state| insecure::Host::get_insecure_random_u64(state.random()))
    })?;
    linker.instance("wasi:random/insecure-seed@0.2.12")?.func_wrap("insecure-seed", |store: Store<'_>, (): ()| {
        ask(store, "insecure-seed", &(), |state| insecure_seed::Host::insecure_seed(state.random()))
    })?;
    linker.instance("wasi:clocks/wall-clock@0.2.12")?.func_wrap("now", |store: Store<'_>, (): ()| {
        let now = |state: &mut State| {
            let now = wall_clock::Host::now(&mut state.clocks())?;
            Ok((now.seconds, now.nanoseconds))
        };
        let ((seconds, nanoseconds),) = ask(store, "wall-clock.now", &(), now)?;
        Ok((wall_clock::Datetime { seconds, nanoseconds },))
    })?;
    let mut monotonic = linker.instance("wasi:clocks/monotonic-clock@0.2.12")?;
    monotonic.func_wrap("now", |store: Store<'_>, (): ()| {
        ask(store, "monotonic-clock.now", &(), |state| monotonic_clock::Host::now(&mut state.clocks()))
    })?;
    monotonic.func_wrap("resolution", |store: Store<'_>, (): ()| {
        ask(store, "monotonic-clock.resolution", &(), |state| monotonic_clock::Host::resolution(&mut state.clocks()))
    })
}

/// A replay waits for nothing but the parts of an answer, which are at hand: what was ready then is ready now.
fn add_readiness(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut polls = linker.instance("wasi:io/poll@0.2.12")?;
    polls.func_wrap_async("poll", |mut store: Store<'_>, (pollables,): (Vec<Resource<DynPollable>>,)| {
        Box::new(async move {
            let question = store.data().question("poll", "", &(pollables.len() as u64));
            if let Some(ready) = store.data_mut().recorded::<Vec<u32>>(&question)? {
                store.data_mut().charge(0).ok();
                return Ok((ready,));
            }
            let ready = poll::Host::poll(store.data_mut().ctx().table, pollables).await;
            store.data_mut().keep_or_note_end(&question, &ready);
            Ok((ready?,))
        })
    })?;
    polls.func_wrap_async(
        "[method]pollable.ready",
        |mut store: Store<'_>, (pollable,): (Resource<DynPollable>,)| {
            Box::new(async move {
                let question = store.data().question("pollable.ready", "", &());
                if let Some(ready) = store.data_mut().recorded::<bool>(&question)? {
                    store.data_mut().charge(0).ok();
                    return Ok((ready,));
                }
                let ready = poll::HostPollable::ready(store.data_mut().ctx().table, pollable).await?;
                store.data_mut().keep(&question, &ready);
                Ok((ready,))
            })
        },
    )?;
    polls.func_wrap_async(
        "[method]pollable.block",
        |mut store: Store<'_>, (pollable,): (Resource<DynPollable>,)| {
            Box::new(async move {
                let question = store.data().question("pollable.block", "", &());
                if store.data_mut().recorded::<()>(&question)?.is_some() {
                    store.data_mut().charge(0).ok();
                    return Ok(());
                }
                poll::HostPollable::block(store.data_mut().ctx().table, pollable).await?;
                store.data_mut().keep(&question, &());
                Ok(())
            })
        },
    )?;
    let mut streams = linker.instance("wasi:io/streams@0.2.12")?;
    streams.func_wrap_async(
        "[method]input-stream.read",
        |mut store: Store<'_>, from: (Resource<DynInputStream>, u64)| {
            Box::new(async move { Ok((read(&mut store, from).await?,)) })
        },
    )?;
    streams.func_wrap_async(
        "[method]output-stream.check-write",
        |mut store: Store<'_>, to: (Resource<DynOutputStream>,)| {
            Box::new(async move { Ok((check_write(&mut store, to.0).await?,)) })
        },
    )?;
    let mut http = linker.instance("wasi:http/types@0.2.12")?;
    http.func_wrap_async(
        "[method]future-incoming-response.get",
        |mut store: Store<'_>, (future,): (Resource<HostFutureIncomingResponse>,)| {
            Box::new(async move { Ok((get(&mut store, future).await?,)) })
        },
    )?;
    http.func_wrap_async(
        "[method]future-trailers.get",
        |mut store: Store<'_>, (future,): (Resource<HostFutureTrailers>,)| {
            Box::new(async move { Ok((get_trailers(&mut store, future).await?,)) })
        },
    )
}

/// Whether there is an answer yet. The answer itself is recorded where it comes from.
async fn get(store: &mut Store<'_>, future: Resource<HostFutureIncomingResponse>) -> wasmtime::Result<Got> {
    let question = store.data().question("future-incoming-response.get", "", &());
    match store.data_mut().recorded::<bool>(&question)? {
        Some(false) => {
            _ = store.data_mut().http();
            Ok(None)
        }
        Some(true) => {
            store.data_mut().resources.get_mut(&future)?.ready().await;
            types::HostFutureIncomingResponse::get(&mut store.data_mut().http(), future)
        }
        None => {
            let got = types::HostFutureIncomingResponse::get(&mut store.data_mut().http(), future)?;
            store.data_mut().keep(&question, &got.is_some());
            Ok(got)
        }
    }
}

/// The same for what comes after its body.
async fn get_trailers(store: &mut Store<'_>, future: Resource<HostFutureTrailers>) -> wasmtime::Result<GotTrailers> {
    let question = store.data().question("future-trailers.get", "", &());
    match store.data_mut().recorded::<bool>(&question)? {
        Some(false) => {
            _ = store.data_mut().http();
            Ok(None)
        }
        Some(true) => {
            store.data_mut().resources.get_mut(&future)?.ready().await;
            types::HostFutureTrailers::get(&mut store.data_mut().http(), future)
        }
        None => {
            let got = types::HostFutureTrailers::get(&mut store.data_mut().http(), future)?;
            store.data_mut().keep(&question, &got.is_some());
            Ok(got)
        }
    }
}

/// How much of an answer's body is here. Other streams have all there is at once.
async fn read(
    store: &mut Store<'_>,
    (stream, bytes_max): (Resource<DynInputStream>, u64),
) -> wasmtime::Result<Result<Vec<u8>, streams::StreamError>> {
    if store.data().http_requests == 0 {
        let table = store.data_mut().ctx().table;
        let read = table.read(stream, bytes_max);
        return typed(store, read);
    }
    let question = store.data().question("input-stream.read", "", &bytes_max);
    let read = match store.data_mut().recorded::<Option<u64>>(&question)? {
        Some(Some(0)) => {
            store.data_mut().charge(0).ok();
            return Ok(Ok(Vec::new()));
        }
        // An error, or the end, comes with the next part as bytes do.
        Some(answer) => store.data_mut().ctx().table.blocking_read(stream, answer.unwrap_or(bytes_max)).await,
        None => {
            let read = store.data_mut().ctx().table.read(stream, bytes_max);
            let bytes = read.as_ref().ok().map(|bytes| bytes.len() as u64);
            store.data_mut().keep(&question, &bytes);
            read
        }
    };
    typed(store, read)
}

/// How much of a body can be written at once. Standard output takes the same always.
async fn check_write(
    store: &mut Store<'_>,
    stream: Resource<DynOutputStream>,
) -> wasmtime::Result<Result<u64, streams::StreamError>> {
    if !store.data().wasi_http.is_used() {
        let permitted = store.data_mut().ctx().table.check_write(stream);
        return typed(store, permitted);
    }
    let question = store.data().question("output-stream.check-write", "", &());
    match store.data_mut().recorded::<Option<u64>>(&question)? {
        Some(Some(permitted)) => {
            store.data_mut().charge(0).ok();
            if permitted > 0 {
                store.data_mut().resources.get_mut(&stream)?.write_ready().await.ok();
            }
            Ok(Ok(permitted))
        }
        answer => {
            let permitted = store.data_mut().ctx().table.check_write(stream);
            if answer.is_none() {
                store.data_mut().keep(&question, &permitted.as_ref().ok().copied());
            }
            typed(store, permitted)
        }
    }
}

fn typed<T>(
    store: &mut Store<'_>,
    result: wasmtime_wasi::p2::StreamResult<T>,
) -> wasmtime::Result<Result<T, streams::StreamError>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => streams::Host::convert_stream_error(&mut store.data_mut().resources, error).map(Err),
    }
}
