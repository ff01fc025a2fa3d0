//! `wasi:keyvalue`: the state of the job's key as a bucket of keys and values, for guests that know the proposed standard and not
//! Gristmill. Like [`super::state`] it is one value of the store, read where it is needed, and written in the step that acknowledges the job.

mod atomics;
mod batch;

use std::collections::BTreeMap;

use gristmill_core::json::Base64;
use serde::{Deserialize, Serialize};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType};

use crate::keyed_state::StateError;
use crate::state::State;

/// The drafts that are in use. They differ in the type of a cursor and of a number, and only the second has handles for compare-and-swap.
const FIRST: &str = "0.2.0-draft";
const SECOND: &str = "0.2.0-draft2";
/// The one bucket, and what a guest calls it that does not care.
const NAMES: [&str; 2] = ["default", ""];

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for version in [FIRST, SECOND] {
        let mut store = linker.instance(&format!("wasi:keyvalue/store@{version}"))?;
        add_bucket(&mut store)?;
        if version == FIRST {
            add_list_keys::<u64>(&mut store)?;
        } else {
            add_list_keys::<String>(&mut store)?;
        }
        batch::add_to_linker(&mut linker.instance(&format!("wasi:keyvalue/batch@{version}"))?)?;
        let mut atomics = linker.instance(&format!("wasi:keyvalue/atomics@{version}"))?;
        if version == FIRST {
            atomics::add_increment::<u64>(&mut atomics, u64::checked_add)?;
        } else {
            atomics::add_increment::<i64>(&mut atomics, i64::checked_add)?;
            atomics::add_cas(&mut atomics)?;
        }
    }
    Ok(())
}

/// Has nothing of its own: there is one.
struct Bucket;

#[derive(ComponentType, Lower, Lift)]
#[component(variant)]
enum Error {
    #[component(name = "no-such-store")]
    NoSuchStore,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "other")]
    Other(String),
}

/// Keys and values, as the state of a key holds them: a JSON object.
type Values = BTreeMap<String, Value>;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Bytes {
        #[serde(with = "Base64")]
        base64: Vec<u8>,
    },
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes { base64: error.into_bytes() }, Self::Text)
    }
}

impl From<&Value> for Vec<u8> {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => text.clone().into_bytes(),
            Value::Bytes { base64 } => base64.clone(),
        }
    }
}

impl Value {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes { base64 } => base64.len(),
        }
    }
}

type Store<'a> = StoreContextMut<'a, State>;
type HostResult<T> = wasmtime::Result<(Result<T, Error>,)>;
/// A key of the bucket, as a guest passes it.
type Key = (Resource<Bucket>, String);

fn add_bucket(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    instance.resource("bucket", ResourceType::host::<Bucket>(), |_, _| Ok(()))?;
    instance.func_wrap("open", |mut store: Store<'_>, (name,): (String,)| {
        store.data_mut().charge(name.len())?;
        let is_known = NAMES.contains(&name.as_str());
        Ok((if is_known { Ok(Resource::<Bucket>::new_own(0)) } else { Err(Error::NoSuchStore) },))
    })?;
    instance.func_wrap_async("[method]bucket.get", |mut store: Store<'_>, (_, key): Key| {
        Box::new(async move {
            let values = read(&mut store, key.len()).await?;
            Ok((values.map(|values| values.get(&key).map(Vec::from)),))
        })
    })?;
    instance.func_wrap_async("[method]bucket.exists", |mut store: Store<'_>, (_, key): Key| {
        Box::new(async move { Ok((read(&mut store, key.len()).await?.map(|values| values.contains_key(&key)),)) })
    })?;
    type Pair = (Resource<Bucket>, String, Vec<u8>);
    instance.func_wrap_async("[method]bucket.set", |mut store: Store<'_>, (_, key, value): Pair| {
        Box::new(async move {
            change(&mut store, key.len() + value.len(), |values| {
                values.insert(key, value.into());
                Ok(())
            })
            .await
        })
    })?;
    instance.func_wrap_async("[method]bucket.delete", |mut store: Store<'_>, (_, key): Key| {
        Box::new(async move {
            change(&mut store, key.len(), |values| {
                values.remove(&key);
                Ok(())
            })
            .await
        })
    })
}

#[derive(ComponentType, Lower, Lift)]
#[component(record)]
struct Keys<C> {
    keys: Vec<String>,
    /// None: these are all.
    cursor: Option<C>,
}

fn add_list_keys<C>(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()>
where
    C: ComponentType + Lower + Lift + Send + Sync + 'static,
{
    instance.func_wrap_async(
        "[method]bucket.list-keys",
        |mut store: Store<'_>, (_, _): (Resource<Bucket>, Option<C>)| {
            Box::new(async move {
                let values = read(&mut store, 0).await?;
                Ok((values.map(|values| Keys::<C> { keys: values.into_keys().collect(), cursor: None }),))
            })
        },
    )
}

/// What the job's key has, after a call that passes so many bytes.
async fn read(store: &mut Store<'_>, bytes: usize) -> wasmtime::Result<Result<Values, Error>> {
    store.data_mut().charge(bytes)?;
    let found = super::state::read(store.data_mut(), "keyvalue.read").await?;
    store.data_mut().charge_bytes(found.as_ref().map_or(0, |state| state.as_ref().map_or(0, Vec::len)));
    Ok(found.map_err(other).and_then(|state| match state {
        None => Ok(Values::new()),
        Some(state) => serde_json::from_slice(&state).map_err(|_| {
            let problem = "the state of this key is no JSON object of texts, so `wasi:keyvalue` did not write it";
            Error::Other(problem.to_owned())
        }),
    }))
}

async fn change<T>(
    store: &mut Store<'_>,
    bytes: usize,
    change: impl FnOnce(&mut Values) -> Result<T, Error>,
) -> HostResult<T> {
    let changed = read(store, bytes).await?.and_then(|mut values| change(&mut values).map(|answer| (values, answer)));
    Ok((match changed {
        Ok((values, answer)) => keep(store.data_mut(), &values)?.map(|()| answer),
        Err(error) => Err(error),
    },))
}

fn keep(state: &mut State, values: &Values) -> wasmtime::Result<Result<(), Error>> {
    let bytes = match serde_json::to_vec(values) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(Error::Other(error.to_string()))),
    };
    state.charge_bytes(bytes.len());
    Ok(super::state::set(state, (!values.is_empty()).then_some(bytes))?.map_err(other))
}

fn other(error: StateError) -> Error {
    Error::Other(error.to_string())
}
