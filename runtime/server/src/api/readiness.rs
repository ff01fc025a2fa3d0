//! Whether the store takes jobs, for `/readyz`.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problem::{Code, Problem};
use gristmill_store::Store;

/// How long the store may take to answer; then it counts as unavailable.
const STORE_TIME: Duration = Duration::from_secs(5);

/// How long an answer of the store holds.
const HOLDS: Duration = Duration::from_secs(1);

/// What the store said last of whether it takes jobs. Requests without a token ask for it, so the store is asked for all of
/// them together, and once in [`HOLDS`] at most.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<String, Problem>)>>);

impl Readiness {
    pub(crate) async fn ask(&self, store: &dyn Store) -> Result<String, Problem> {
        let mut last = self.0.lock().await;
        if let Some((at, said)) = &*last
            && at.elapsed() < HOLDS
        {
            return said.clone();
        }
        let said = ask(store).await;
        *last = Some((Instant::now(), said.clone()));
        said
    }
}

async fn ask(store: &dyn Store) -> Result<String, Problem> {
    match tokio::time::timeout(STORE_TIME, store.unavailable()).await {
        // Whatever the reason is: a load balancer must not send producers here.
        Ok(Err(error)) => {
            let refused = Problem::from(error);
            Err(Problem { store: refused.store, ..Problem::new(Code::StoreUnavailable, refused.detail) })
        }
        Ok(Ok(away)) => Ok(away.into_iter().fold("ready\n".to_owned(), |said, away| said + &format!("{away}\n"))),
        Err(_) => Err(Problem::new(Code::StoreUnavailable, format!("no answer within {} s", STORE_TIME.as_secs()))),
    }
}
