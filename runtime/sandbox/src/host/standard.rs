//! Settings and log lines of guests that know the proposed standards `wasi:config` and `wasi:logging` and not Gristmill. A version that is a
//! draft matches no other, so that each one that is in use has its name here.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use super::super::attempt::LogLine;
use super::super::state::State;

const CONFIG: [&str; 2] = ["wasi:config/store@0.2.0-rc.1", "wasi:config/store@0.2.0-draft"];
const LOGGING: [&str; 2] = ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for name in CONFIG {
        let mut config = linker.instance(name)?;
        config.func_wrap("get", get)?;
        config.func_wrap("get-all", get_all)?;
    }
    for name in LOGGING {
        linker.instance(name)?.func_wrap("log", log)?;
    }
    Ok(())
}

/// Why a setting cannot be read: none of these happens here.
#[derive(ComponentType, Lower, Lift)]
#[component(variant)]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

type HostResult<T> = wasmtime::Result<(Result<T, ConfigError>,)>;

/// The settings of the topic, as `gristmill:job/config` has them; its secrets are there only.
fn get(mut store: StoreContextMut<'_, State>, (name,): (String,)) -> HostResult<Option<String>> {
    store.data_mut().charge(name.len())?;
    let question = store.data().question("config.get", &name, &name);
    let value = store.data_mut().ask(&question, |state| Ok(state.attempt.grants.config.get(&name).cloned()))?;
    store.data_mut().charge_bytes(value.as_ref().map_or(0, String::len));
    Ok((Ok(value),))
}

fn get_all(mut store: StoreContextMut<'_, State>, (): ()) -> HostResult<Vec<(String, String)>> {
    let all = |state: &mut State| Ok(state.attempt.grants.config.clone().into_iter().collect());
    let question = store.data().question("config.get-all", "", &());
    let settings: Vec<(String, String)> = store.data_mut().ask(&question, all)?;
    store.data_mut().charge(settings.iter().map(|(name, value)| name.len() + value.len()).sum())?;
    Ok((Ok(settings),))
}

#[derive(Clone, Copy, ComponentType, Lower, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "guests make them")]
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

fn log(
    mut store: StoreContextMut<'_, State>,
    (level, context, message): (Level, String, String),
) -> wasmtime::Result<()> {
    store.data_mut().charge(context.len() + message.len())?;
    let level = match level {
        Level::Trace => tracing::Level::TRACE,
        Level::Debug => tracing::Level::DEBUG,
        Level::Info => tracing::Level::INFO,
        Level::Warn => tracing::Level::WARN,
        Level::Error | Level::Critical => tracing::Level::ERROR,
    };
    let fields = if context.is_empty() { Vec::new() } else { vec![("context".to_owned(), context)] };
    store.data().log(LogLine { level, source: "log", message, fields });
    Ok(())
}
