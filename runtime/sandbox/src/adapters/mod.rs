//! How a component is called: one file for each [`Adapter`].

mod command;
pub(super) mod handler;
mod proxy;

use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower};

use super::attempt::Attempt;
use super::classify::Stopped;
use super::error::LoadError;
use super::state::State;
use gristmill_core::outcome::Outcome;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Adapter;

/// The functions by which a component can be called; at least one.
#[derive(Debug)]
pub(super) struct EntryPoints {
    handler: Option<ComponentExportIndex>,
    command: Option<ComponentExportIndex>,
    proxy: Option<ComponentExportIndex>,
}

/// The function of an instance that its topic calls.
#[derive(Clone, Copy)]
pub(super) enum EntryPoint {
    Handler(handler::Function),
    Command(command::Function),
    Proxy(proxy::Function),
}

impl EntryPoints {
    /// Checks the exports by type; runs nothing of the guest.
    ///
    /// # Errors
    /// There is none of these functions, or one has another type.
    pub(super) fn find(pre: &InstancePre<State>) -> Result<Self, LoadError> {
        let found = Self { handler: handler::find(pre)?, command: command::find(pre)?, proxy: proxy::find(pre)? };
        match found {
            Self { handler: None, command: None, proxy: None } => {
                let [handler, others @ ..] = [handler::EXPORT, command::EXPORT, proxy::EXPORT];
                let problem = format!("the component exports neither `{handler}` nor `{}`", others.join("` nor `"));
                Err(LoadError::Exports { problem })
            }
            found => Ok(found),
        }
    }

    /// The function that this adapter calls.
    ///
    /// # Errors
    /// The component does not have it: its topic should not have been given this component.
    pub(super) fn of(
        &self,
        adapter: &Adapter,
        instance: &Instance,
        store: &mut Store<State>,
    ) -> wasmtime::Result<EntryPoint> {
        let index = match adapter {
            Adapter::Handler => &self.handler,
            Adapter::Command(_) => &self.command,
            Adapter::Proxy(_) => &self.proxy,
        };
        let missing = || wasmtime::Error::msg(format!("the component cannot be called as its topic says: {adapter:?}"));
        let index = index.as_ref().ok_or_else(missing)?;
        Ok(match adapter {
            Adapter::Handler => EntryPoint::Handler(instance.get_typed_func(store, index)?),
            Adapter::Command(_) => EntryPoint::Command(instance.get_typed_func(store, index)?),
            Adapter::Proxy(_) => EntryPoint::Proxy(instance.get_typed_func(store, index)?),
        })
    }
}

impl EntryPoint {
    /// Calls the function with the attempt's job, and reads its answer. The deadline is by the store's clock.
    pub(super) async fn call(
        self,
        store: &mut Store<State>,
        attempt: &Attempt,
        deadline: Timestamp,
    ) -> Result<Outcome, Stopped> {
        match self {
            Self::Handler(function) => handler::call(function, store, attempt, deadline).await,
            // In a box: the usual attempt does not carry the others around.
            Self::Command(function) => Box::pin(command::call(function, store)).await,
            Self::Proxy(function) => Box::pin(proxy::call(function, store, attempt, deadline)).await,
        }
    }
}

/// The function of an exported interface; none if the interface is not exported, an error if its type is another.
pub(super) fn export<P, R>(
    pre: &InstancePre<State>,
    interface: &str,
    function: &str,
) -> Result<Option<ComponentExportIndex>, LoadError>
where
    P: ComponentNamedList + Lower,
    R: ComponentNamedList + Lift,
{
    let component = pre.component();
    let Some((_, instance)) = component.get_export(None, interface) else { return Ok(None) };
    let wrong = |problem: String| LoadError::Exports { problem: format!("`{interface}` {problem}") };
    match component.get_export(Some(&instance), function) {
        Some((ComponentItem::ComponentFunc(found), index)) => {
            found
                .typecheck::<P, R>(&pre.instance_type())
                .map_err(|error| wrong(format!("has a `{function}` of another type: {error:#}")))?;
            Ok(Some(index))
        }
        _ => Err(wrong(format!("has no function `{function}`"))),
    }
}
