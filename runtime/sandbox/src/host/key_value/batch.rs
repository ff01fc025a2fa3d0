//! `wasi:keyvalue/batch`: several keys of the bucket with one call, which changes all of them or none.

use wasmtime::component::{LinkerInstance, Resource};

use super::{Bucket, Error, HostResult, Store, Values, change, read};
use crate::state::State;

type Keys = (Resource<Bucket>, Vec<String>);
type Pairs = (Resource<Bucket>, Vec<Pair>);
/// A key and its value.
type Pair = (String, Vec<u8>);

pub(super) fn add_to_linker(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    instance.func_wrap_async("get-many", |mut store: Store<'_>, (_, keys): Keys| {
        Box::new(async move { get_many(&mut store, keys).await })
    })?;
    instance.func_wrap_async("set-many", |mut store: Store<'_>, (_, pairs): Pairs| {
        Box::new(async move {
            let bytes = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
            change(&mut store, bytes, |values| {
                values.extend(pairs.into_iter().map(|(key, value)| (key, value.into())));
                Ok(())
            })
            .await
        })
    })?;
    instance.func_wrap_async("delete-many", |mut store: Store<'_>, (_, keys): Keys| {
        Box::new(async move {
            change(&mut store, bytes(&keys), |values| {
                keys.iter().for_each(|key| drop(values.remove(key)));
                Ok(())
            })
            .await
        })
    })
}

/// Refuses an answer that is larger than a whole state may be: a key that is asked for often would otherwise take memory of the host.
async fn get_many(store: &mut Store<'_>, keys: Vec<String>) -> HostResult<Vec<Option<Pair>>> {
    let values = read(store, bytes(&keys)).await?;
    let limit = store.data().attempt.limits.state_bytes;
    Ok((values.and_then(|values| found(&values, keys, limit)),))
}

fn found(values: &Values, keys: Vec<String>, limit: u64) -> Result<Vec<Option<Pair>>, Error> {
    let mut bytes = 0;
    let pair = |key: String| {
        let Some(value) = values.get(&key) else { return Ok(None) };
        bytes += value.len() as u64;
        if bytes > limit {
            return Err(Error::Other(format!("`get-many` asks for more than {limit} bytes: name each key once")));
        }
        Ok(Some((key, value.into())))
    };
    keys.into_iter().map(pair).collect()
}

fn bytes(keys: &[String]) -> usize {
    keys.iter().map(String::len).sum()
}
