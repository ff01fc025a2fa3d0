//! `log`: structured lines of the guest.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList, WasmStr};

use super::super::attempt::LogLine;
use super::super::bindings::log::Level;
use super::super::guest_log::FIELD_BYTES;
use super::super::state::State;

/// What the guest passes to `emit`, not read yet.
type EmitParameters = (Level, WasmStr, WasmList<(WasmStr, WasmStr)>);

/// Links the interface by hand: the generated form would read all fields of a line that is dropped.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut log = linker.instance("gristmill:job/log@0.1.0")?;
    log.func_wrap("emit", emit)?;
    log.func_wrap("enabled", |mut store: StoreContextMut<'_, State>, (level,): (Level,)| {
        store.data_mut().charge(0)?;
        let level: tracing::Level = level.into();
        let question = store.data().question("log.enabled", level.as_str(), &level.as_str());
        Ok((store.data_mut().ask(&question, |state| Ok(state.guest_log().keeps(level)))?,))
    })
}

fn emit(mut store: StoreContextMut<'_, State>, (level, message, fields): EmitParameters) -> wasmtime::Result<()> {
    let (level, source) = (level.into(), "log");
    store.data_mut().charge(fields.len().saturating_mul(FIELD_BYTES))?;
    let guest_log = Arc::clone(&store.data().guest_log);
    let text = message.to_str(&store)?;
    let bytes = text.len();
    if !guest_log.lock().may_fit(bytes, fields.len()) {
        guest_log.lock().drop_line(level, source, &text);
        store.data_mut().charge_bytes(bytes);
        return Ok(());
    }
    let message = text.into_owned();
    let pairs = fields.iter(&mut store)?.collect::<wasmtime::Result<Vec<_>>>()?;
    let owned =
        |(name, value): (WasmStr, WasmStr)| Ok((name.to_str(&store)?.into_owned(), value.to_str(&store)?.into_owned()));
    let fields = pairs.into_iter().map(owned).collect::<wasmtime::Result<Vec<_>>>()?;
    let passed = fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    store.data_mut().charge_bytes(bytes + passed);
    guest_log.lock().write(LogLine { level, source, message, fields });
    Ok(())
}

impl From<Level> for tracing::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::TRACE,
            Level::Debug => Self::DEBUG,
            Level::Info => Self::INFO,
            Level::Warn => Self::WARN,
            Level::Error => Self::ERROR,
        }
    }
}
