//! Whether the store takes jobs, for `/readyz`.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problem::{Code, Problem};
use gristmill_core::job::Name;
use gristmill_store::{ClockOffset, Store, StoreError};

/// How long the store may take to answer; then it counts as unavailable.
const STORE_TIME: Duration = Duration::from_secs(5);

/// How long an answer of the store holds.
const HOLDS: Duration = Duration::from_secs(1);

/// The store's last answer on whether it takes jobs. Requests without a token ask for it, so the store is asked for all of
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
    let look = async { Ok::<_, StoreError>((store.unavailable().await?, store.clocks().await)) };
    match tokio::time::timeout(STORE_TIME, look).await {
        // Whatever the reason is: a load balancer must not send producers here.
        Ok(Err(error)) => Err(refused(error)),
        Ok(Ok((away, clocks))) => {
            let lines = away.iter().map(about_away).chain(clocks.into_iter().filter_map(about_clock));
            Ok(lines.fold("ready\n".to_owned(), |said, line| said + &line + "\n"))
        }
        Err(_) => {
            let detail = format!("the store gave no answer within {} s", STORE_TIME.as_secs());
            Err(Problem::new(Code::StoreUnavailable, detail))
        }
    }
}

fn refused(error: StoreError) -> Problem {
    let unconfirmed = match &error {
        StoreError::Unconfirmed { source, .. } => Some(format!("it confirms no push: {source:#}")),
        _ => None,
    };
    let refused = Problem::from(error);
    // The reader sees it behind the name of the server.
    let detail = format!("the store takes no jobs: {}", unconfirmed.unwrap_or(refused.detail));
    Problem { store: refused.store, ..Problem::new(Code::StoreUnavailable, detail) }
}

fn about_away(error: &StoreError) -> String {
    match error {
        StoreError::Unconfirmed { store, source } => format!("the store at {store} confirms no push: {source:#}"),
        other => other.to_string(),
    }
}

/// Jobs run all the same: by the store's clock.
fn about_clock((store, offset): (Option<Name>, ClockOffset)) -> Option<String> {
    let offset = offset.noticed()?;
    let whose = store.map_or_else(|| "the store's clock".into(), |store| format!("the clock of the store `{store}`"));
    Some(format!("{whose} is {offset} (it shows {}): what waits for a time waits for that of the store", offset.store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_confirms_no_push_is_not_ready_and_says_how_many_replicas_it_has() {
        let error = || StoreError::Unconfirmed {
            store: "here".into(),
            source: anyhow::anyhow!("0 of the 1 replicas have it after 1000 ms"),
        };
        let problem = refused(error());
        assert_eq!((problem.code, problem.store.as_deref()), (Code::StoreUnavailable, Some("here")));
        for said in [problem.detail, about_away(&error())] {
            assert!(said.contains("confirms no push: 0 of the 1 replicas"), "{said}");
        }
    }
}
