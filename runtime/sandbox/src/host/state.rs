//! `state`: what the jobs of a key leave for each other.

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::super::bindings::state::StateError as Answer;
use super::super::keyed_state::StateError;
use super::super::state::State;

/// Links the interface by hand, like `context`: the guest waits for the store while others go on.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut state = linker.instance("gristmill:job/state@0.1.0")?;
    state.func_wrap_async("get", |mut store: StoreContextMut<'_, State>, (): ()| {
        Box::new(async move {
            store.data_mut().charge(0)?;
            let found = match store.data_mut().keyed.as_mut() {
                Some(keyed) => keyed.get().await,
                None => Err(StateError::not_granted()),
            };
            store.data_mut().charge_bytes(found.as_ref().map_or(0, |state| state.as_ref().map_or(0, Vec::len)));
            Ok((found.map_err(answer),))
        })
    })?;
    state.func_wrap("set", |mut store: StoreContextMut<'_, State>, (value,): (Option<Vec<u8>>,)| {
        store.data_mut().charge(value.as_ref().map_or(0, Vec::len))?;
        let keyed = store.data_mut().keyed.as_mut();
        let set = keyed.map_or_else(|| Err(StateError::not_granted()), |keyed| keyed.set(value));
        Ok((set.map_err(answer),))
    })
}

fn answer(error: StateError) -> Answer {
    match error {
        StateError::NoKey => Answer::NoKey,
        StateError::TooLarge(limit) => Answer::TooLarge(limit),
        StateError::Unavailable(reason) => Answer::Unavailable(reason),
    }
}
