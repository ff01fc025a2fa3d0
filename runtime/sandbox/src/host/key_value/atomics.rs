//! `wasi:keyvalue/atomics`. Jobs of a key run one at a time, so only the attempt itself can come between.

use sha2::{Digest, Sha256};
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource, ResourceType};

use super::{Bucket, Error, Key, Store, Value, Values, change, keep, read};
use crate::state::State;

/// Of the key of a handle: the host keeps it, for each of the handles that a guest may hold.
const KEY_BYTES_MAX: usize = 1 << 10;

/// A number is kept as its decimal digits.
pub(super) fn add_increment<N>(
    instance: &mut LinkerInstance<'_, State>,
    add: fn(N, N) -> Option<N>,
) -> wasmtime::Result<()>
where
    N: ComponentType + Lower + Lift + Default + Copy + Send + Sync + ToString + std::str::FromStr + 'static,
{
    instance.func_wrap_async(
        "increment",
        move |mut store: Store<'_>, (_, key, delta): (Resource<Bucket>, String, N)| {
            Box::new(async move {
                change(&mut store, key.len(), |values| {
                    let before = match values.get(&key) {
                        None => Some(N::default()),
                        Some(Value::Text(digits)) => digits.parse().ok(),
                        Some(Value::Bytes { .. }) => None,
                    };
                    let no_number = || Error::Other(format!("`{key}` is no number, or the sum is too large"));
                    let after = before.and_then(|before| add(before, delta)).ok_or_else(no_number)?;
                    values.insert(key, Value::Text(after.to_string()));
                    Ok(after)
                })
                .await
            })
        },
    )
}

/// A handle: a key, and what its value was.
struct Cas {
    key: String,
    seen: Option<[u8; 32]>,
}

impl Cas {
    fn of(key: String, values: &Values) -> Self {
        let seen = values.get(&key).map(|value| Sha256::digest(Vec::from(value)).into());
        Self { key, seen }
    }
}

#[derive(ComponentType, Lower)]
#[component(variant)]
enum CasError {
    #[component(name = "store-error")]
    Store(Error),
    #[component(name = "cas-failed")]
    Failed(Resource<Cas>),
}

pub(super) fn add_cas(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    instance.resource("cas", ResourceType::host::<Cas>(), |mut store, handle| {
        store.data_mut().resources.delete(Resource::<Cas>::new_own(handle))?;
        Ok(())
    })?;
    instance.func_wrap_async("[static]cas.new", |mut store: Store<'_>, (_, key): Key| {
        Box::new(async move {
            let values = read(&mut store, key.len()).await?;
            let cas = values.and_then(|values| match key.len() {
                ..=KEY_BYTES_MAX => Ok(Cas::of(key, &values)),
                _ => Err(Error::Other(format!("a key to compare and swap has at most {KEY_BYTES_MAX} bytes"))),
            });
            Ok((match cas {
                Ok(cas) => Ok(store.data_mut().resources.push(cas)?),
                Err(error) => Err(error),
            },))
        })
    })?;
    instance.func_wrap_async("[method]cas.current", |mut store: Store<'_>, (cas,): (Resource<Cas>,)| {
        Box::new(async move {
            let values = read(&mut store, 0).await?;
            let Cas { key, .. } = store.data().resources.get(&cas)?;
            Ok((values.map(|values| values.get(key).map(Vec::from)),))
        })
    })?;
    instance.func_wrap_async("swap", |mut store: Store<'_>, (cas, value): (Resource<Cas>, Vec<u8>)| {
        Box::new(async move { Ok((swap(&mut store, cas, value).await?,)) })
    })
}

async fn swap(store: &mut Store<'_>, cas: Resource<Cas>, value: Vec<u8>) -> wasmtime::Result<Result<(), CasError>> {
    let values = read(store, value.len()).await?;
    let state = store.data_mut();
    let Cas { key, seen } = state.resources.delete(cas)?;
    let mut values = match values {
        Ok(values) => values,
        Err(error) => return Ok(Err(CasError::Store(error))),
    };
    let now = Cas::of(key, &values);
    if now.seen != seen {
        return Ok(Err(CasError::Failed(state.resources.push(now)?)));
    }
    values.insert(now.key, value.into());
    Ok(keep(state, &values)?.map_err(CasError::Store))
}
