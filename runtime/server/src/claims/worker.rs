//! The names by which clients claim: `client:number:topic`, as the store knows them.
//!
//! The store settles a job only under the worker that claimed it. So the holder of a lease can change neither the claim
//! that it belongs to, which the number tells from all others, nor the topic whose limits hold for it.

use gristmill_core::job::{Name, WorkerId};

/// The worker of one claim of a topic. `client`: a name for people.
pub(super) fn worker(client: &str, number: u64, topic: &Name) -> WorkerId {
    WorkerId::pull(&format!("{client}:{number:016x}:{topic}"))
}

/// The topic whose job the worker claimed, by its [name](WorkerId::pull_name).
pub(crate) fn topic_of(worker: &str) -> Option<Name> {
    worker.rsplit_once(':')?.1.parse().ok()
}

/// Whether the client claimed as this worker.
pub(crate) fn is_worker_of(worker: &WorkerId, client: &str) -> bool {
    let claim = worker.pull_name().and_then(|name| name.strip_prefix(client)?.strip_prefix(':'));
    claim.is_some_and(|claim| claim.split(':').count() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_by_its_client_and_its_topic() {
        let mail: Name = "mail".parse().unwrap();
        for client in ["press", "lmstfy-::1-0123abcd"] {
            let press = worker(client, 7, &mail);
            assert!(press.is_pull() && is_worker_of(&press, client), "{press}");
            assert_eq!(topic_of(press.pull_name().unwrap()), Some(mail.clone()));
            for other in ["pres", "press:", "lmstfy-", "lmstfy-:", ""] {
                assert!(!is_worker_of(&press, other), "{press} of {other}");
            }
        }
        assert!(!is_worker_of(&WorkerId::new("press:0000000000000007:mail"), "press"), "a runner");
    }
}
