//! Opens a store by its address.

use std::sync::Arc;

use crate::store::redis::RedisStore;
use crate::store::{Store, StoreError};

/// Opens the store at `url`, whose scheme names its kind.
///
/// # Errors
/// No such kind of store, or it is away.
pub(super) async fn open(url: &str, prefix: &str) -> anyhow::Result<Arc<dyn Store>> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("redis" | "redis+unix") => Ok(Arc::new(RedisStore::connect(url, prefix).await?)),
        Some(scheme) => {
            Err(bad_address(url, &format!("`{scheme}` is no kind of store; there are `redis://` and `redis+unix://`")))
        }
        None => Err(bad_address(url, "it must begin with a scheme, as in redis://127.0.0.1:6379/0")),
    }
}

fn bad_address(url: &str, problem: &str) -> anyhow::Error {
    // Without the user's name and password.
    let (head, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let address = if head.is_empty() { host.to_owned() } else { format!("{head}://{host}") };
    StoreError::BadAddress { address, problem: problem.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_kind_of_store_is_refused_without_showing_its_password() {
        for url in ["postgres://me:hunter2@db/jobs", "me:hunter2@db:6379"] {
            let Err(error) = open(url, "gm").await else { panic!("{url} was opened") };
            let text = format!("{error:#}");
            assert!(text.contains("redis://") && text.contains("db") && !text.contains("hunter2"), "{text}");
        }
    }
}
