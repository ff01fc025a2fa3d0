//! `gristmill:preview1/program`: arguments and environment for the adapter of WASI preview 1 (`core_module/preview1.wat`), in the shape in
//! which preview 1 has them. It says nothing that `wasi:cli/environment` does not.

use std::collections::BTreeMap;

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::super::placeholders::Placeholders;
use super::super::state::State;

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut program = linker.instance("gristmill:preview1/program")?;
    program.func_wrap("arguments-size", |store: StoreContextMut<'_, State>, (): ()| size(store, arguments))?;
    program.func_wrap("arguments", |store: StoreContextMut<'_, State>, (): ()| texts(store, arguments))?;
    program.func_wrap("environment-size", |store: StoreContextMut<'_, State>, (): ()| size(store, environment))?;
    program.func_wrap("environment", |store: StoreContextMut<'_, State>, (): ()| texts(store, environment))
}

/// Texts with a zero after each, and how many.
type Texts = (Vec<u8>, u64);

fn size(mut store: StoreContextMut<'_, State>, of: fn(&State) -> Texts) -> wasmtime::Result<(u64,)> {
    let (bytes, count) = of(store.data());
    store.data_mut().charge(bytes.len())?;
    let size = (count << 32) | bytes.len() as u64;
    let question = store.data().question("program.size", "", &());
    Ok((store.data_mut().ask_sealed(&question, |_| Ok(size))?,))
}

fn texts(mut store: StoreContextMut<'_, State>, of: fn(&State) -> Texts) -> wasmtime::Result<(Vec<u8>,)> {
    let (bytes, _) = of(store.data());
    store.data_mut().charge(bytes.len())?;
    let question = store.data().question("program.texts", "", &());
    Ok((store.data_mut().ask_sealed(&question, |_| Ok(bytes))?,))
}

fn arguments(state: &State) -> Texts {
    joined(state.program.iter().flat_map(|program| program.arguments()).map(|argument| vec![argument]))
}

fn environment(state: &State) -> Texts {
    let variable = |(name, value)| vec![name, "=", value];
    match &state.program {
        Some(program) => joined(texts_of(program.environment()).map(variable)),
        None => {
            let placeholders = state.placeholders().into_iter().flat_map(Placeholders::variables);
            joined(texts_of(&state.attempt.grants.env).chain(placeholders).map(variable))
        }
    }
}

fn texts_of(variables: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A text ends at its first zero, so that none has another inside.
fn joined<'a>(texts: impl Iterator<Item = Vec<&'a str>>) -> Texts {
    let (mut bytes, mut count) = (Vec::new(), 0);
    for text in texts {
        bytes.extend(text.into_iter().flat_map(str::bytes).filter(|byte| *byte != 0));
        bytes.push(0);
        count += 1;
    }
    (bytes, count)
}
