//! `state`: what the jobs of a key leave for each other.

use serde_bytes::{ByteBuf, Bytes};
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::super::bindings::state::StateError as WitStateError;
use super::super::keyed_state::StateError;
use super::super::recording::answers::Fault;
use super::super::state::State;

/// Links the interface by hand, like `context`: the guest waits for the store while others go on.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut state = linker.instance("gristmill:job/state@0.1.0")?;
    state.func_wrap_async("get", |mut store: StoreContextMut<'_, State>, (): ()| {
        Box::new(async move {
            store.data_mut().charge(0)?;
            let found = read(store.data_mut(), "state.get").await?;
            store.data_mut().charge_bytes(found.as_ref().map_or(0, |state| state.as_ref().map_or(0, Vec::len)));
            Ok((found.map_err(answer),))
        })
    })?;
    state.func_wrap("set", |mut store: StoreContextMut<'_, State>, (value,): (Option<Vec<u8>>,)| {
        store.data_mut().charge(value.as_ref().map_or(0, Vec::len))?;
        Ok((set(store.data_mut(), value)?.map_err(answer),))
    })
}

/// The state of the job's key, for the call of this name.
pub(super) async fn read(
    state: &mut State,
    name: &'static str,
) -> wasmtime::Result<Result<Option<Vec<u8>>, StateError>> {
    type RecordedState = Result<Option<ByteBuf>, Fault>;
    let question = state.question(name, "", &());
    if let Some(answer) = state.recorded::<RecordedState>(&question)? {
        return Ok(answer.map(|found| found.map(ByteBuf::into_vec)).map_err(StateError::from));
    }
    let found = match state.keyed() {
        Some(keyed) => keyed.get().await,
        None => Err(StateError::not_granted()),
    };
    let answer = found.as_ref().map(|found| found.as_ref().map(|found| Bytes::new(found))).map_err(Fault::from);
    state.keep(&question, &answer);
    Ok(found)
}

/// Sets the state of the job's key, whichever function the guest called.
pub(super) fn set(state: &mut State, value: Option<Vec<u8>>) -> wasmtime::Result<Result<(), StateError>> {
    let question = state.question("state.set", "", &value.as_ref().map(|value| Bytes::new(value)));
    let answer = state.ask(&question, |state| {
        let keyed = state.keyed().ok_or_else(StateError::not_granted);
        Ok(keyed.and_then(|keyed| keyed.set(value)).map_err(|error| Fault::from(&error)))
    })?;
    Ok(answer.map_err(StateError::from))
}

fn answer(error: StateError) -> WitStateError {
    match error {
        StateError::NoKey => WitStateError::NoKey,
        StateError::TooLarge(limit) => WitStateError::TooLarge(limit),
        StateError::Unavailable(reason) => WitStateError::Unavailable(reason),
    }
}
