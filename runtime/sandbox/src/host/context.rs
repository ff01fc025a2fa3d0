//! `context`: what the attempt may still use, and what it wants to remember.

use serde_bytes::Bytes;
use tracing::Level;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::super::attempt::{CheckpointSender, LogLine};
use super::super::bindings::context::CheckpointError;
use super::super::state::State;
use gristmill_core::job::Progress;

/// Links the interface by hand: `fuel-remaining` has to see the store, and the generated form of that needs the
/// component model's async, which is not compiled in. The types are checked like those of every import, when a
/// component is loaded.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut context = linker.instance("gristmill:job/context@0.1.0")?;
    context.func_wrap("fuel-remaining", |mut store: StoreContextMut<'_, State>, (): ()| {
        store.data_mut().charge(0)?;
        let remaining = store.get_fuel()?;
        let question = store.data().question("context.fuel-remaining", "", &());
        Ok((store.data_mut().ask(&question, |_| Ok(remaining))?,))
    })?;
    context.func_wrap("now", |mut store: StoreContextMut<'_, State>, (): ()| {
        store.data_mut().charge(0)?;
        let question = store.data().question("context.now", "", &());
        Ok((store.data_mut().ask(&question, |state| Ok(state.now().as_millis()))?,))
    })?;
    context.func_wrap("is-cancelled", |mut store: StoreContextMut<'_, State>, (): ()| {
        store.data_mut().charge(0)?;
        let question = store.data().question("context.is-cancelled", "", &());
        Ok((store.data_mut().ask(&question, |state| Ok(state.attempt.cancellation.is_cancelled()))?,))
    })?;
    context.func_wrap_async("checkpoint", |mut store: StoreContextMut<'_, State>, (state,): (Vec<u8>,)| {
        Box::new(async move {
            store.data_mut().charge(state.len())?;
            let limit = store.data().attempt.limits.checkpoint_bytes;
            if state.len() as u64 > limit {
                return Ok((Err(CheckpointError::TooLarge(limit)),));
            }
            let question = store.data().question("context.checkpoint", "", &Bytes::new(&state));
            let saved = match store.data_mut().recorded::<Result<(), String>>(&question)? {
                Some(saved) => saved,
                None => {
                    let saved = checkpoint(state, store.data().attempt.checkpoints.as_ref()).await;
                    store.data_mut().keep(&question, &saved);
                    saved
                }
            };
            Ok((saved.map_err(CheckpointError::Unavailable),))
        })
    })?;
    context.func_wrap("progress", |mut store: StoreContextMut<'_, State>, progress: (u32, Option<String>)| {
        let reported = Progress::reported(progress.0, progress.1.as_deref().unwrap_or_default());
        let line = progress_line(progress);
        store.data_mut().charge(line.bytes())?;
        store.data().attempt.cancellation.control.report(reported);
        store.data().log(line);
        Ok(())
    })
}

/// Waits until the state is durable, or is known not to be.
async fn checkpoint(state: Vec<u8>, sender: Option<&CheckpointSender>) -> Result<(), String> {
    let sender = sender.ok_or_else(|| "nothing keeps checkpoints here".to_owned())?;
    sender.save(state).await
}

fn progress_line((basis_points, note): (u32, Option<String>)) -> LogLine {
    LogLine {
        level: Level::INFO,
        source: "progress",
        message: note.unwrap_or_default(),
        fields: vec![("basis-points".to_owned(), basis_points.min(10_000).to_string())],
    }
}
