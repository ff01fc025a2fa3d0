//! `/healthz`: the process lives. `/readyz`: it can do its work.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::State;

use crate::auth::allowed::Public;
use crate::auth::identity::{Identity, Scope};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::settings::Phase;
use crate::state::AppState;
use gristmill_core::job::Name;
use gristmill_runner::handlers::HandlerRegistry;

/// Of handlers, at most.
const LINES: usize = 20;

pub(crate) fn routes() -> Routes {
    Routes::of("health")
        .get("/healthz", async |_: Public| "ok\n", "Whether the process lives")
        .get("/readyz", ready, "Whether it runs jobs and its store takes jobs")
        .answer(
            "It does. Stores that take no jobs are named, a line each, and clocks of stores that are more than two seconds from the server's. Handlers whose files were refused are counted, and named to a client \
             that may read everything; handlers that are not compiled yet are counted.",
        )
        .problems(&[Code::Starting, Code::Ending, Code::StoreUnavailable])
}

/// Ready while any part of the store takes jobs; those that do not are named.
async fn ready(
    _: Public,
    identity: Option<Extension<Identity>>,
    State(state): State<AppState>,
) -> Result<String, Problem> {
    match state.phase() {
        Phase::Starting => return Err(Problem::new(Code::Starting, "the runner is starting")),
        Phase::Ending => return Err(Problem::new(Code::Ending, "the runner is ending")),
        Phase::Ready => {}
    }
    let ready = state.readiness.ask(&*state.store).await?;
    let sees_names = identity.is_some_and(|Extension(identity)| identity.may_everywhere(Scope::Read).is_ok());
    let handlers = state.registry().map(|registry| not_served(&registry, sees_names)).unwrap_or_default();
    Ok(handlers.into_iter().fold(ready, |said, line| said + &line + "\n"))
}

fn not_served(registry: &HandlerRegistry, sees_names: bool) -> Vec<String> {
    let uncompiled = match registry.to_compile() {
        0 => None,
        1 => Some("1 handler is not compiled yet".to_owned()),
        count => Some(format!("{count} handlers are not compiled yet")),
    };
    let refused = "the manifest was refused, and the one before is in force: the log and `gristmill check` say why";
    let manifest = registry.is_manifest_refused().then(|| refused.to_owned());
    manifest.into_iter().chain(uncompiled).chain(not_taken(registry, sees_names)).collect()
}

/// A line for each handler whose file is refused or lacks a grant, not why. A client that may not read everything learns how many they are.
fn not_taken(registry: &HandlerRegistry, sees_names: bool) -> Vec<String> {
    let lacking = registry.entries().filter(|entry| !entry.lacking.is_empty()).map(|entry| &entry.topic.handler);
    let names: BTreeSet<&Name> = registry.refusals().keys().chain(lacking).collect();
    if !sees_names {
        let count = match names.len() {
            0 => None,
            1 => Some("the file of 1 handler was refused: its name takes a token".to_owned()),
            count => Some(format!("the files of {count} handlers were refused: their names take a token")),
        };
        return count.into_iter().collect();
    }
    let line = |name: &Name| {
        let topics = registry.entries().filter(|entry| entry.topic.handler == *name && !entry.topic.external);
        let served: Vec<bool> = topics.map(|entry| entry.handler.is_some()).collect();
        let all_served = !served.is_empty() && served.iter().all(|served| *served);
        let so = if all_served { "the version before serves" } else { "jobs wait" };
        format!("handler {name}: its file was refused, {so}")
    };
    let (shown, all) = (names.iter().take(LINES).map(|name| line(name)), names.len());
    shown.chain((all > LINES).then(|| format!("and {} more handlers", all - LINES))).collect()
}
