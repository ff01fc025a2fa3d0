//! The names by which clients claim: `client:number:topic`, as the store knows them.
//!
//! The store settles a job only under the worker that claimed it. So the holder of a lease can change neither the claim
//! that it belongs to (the number distinguishes it from all others) nor the topic whose limits hold for it.

use gristmill_core::job::{Name, WorkerId};

/// The worker of one claim of a topic. `client`: a name for people.
pub(super) fn worker(client: &str, number: u64, topic: &Name) -> WorkerId {
    WorkerId::pull(&format!("{client}:{number:016x}:{topic}"))
}

/// The topic whose job the worker claimed, by its [name](WorkerId::pull_name).
pub(crate) fn topic_of(worker: &str) -> Option<Name> {
    worker.rsplit_once(':')?.1.parse().ok()
}

/// The client that claimed as this worker. `None` for a runner.
pub(crate) fn client_of(worker: &WorkerId) -> Option<&str> {
    // The number and the topic come after it; the client's name may have colons.
    let (claim, _topic) = worker.pull_name()?.rsplit_once(':')?;
    Some(claim.rsplit_once(':')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_by_its_client_and_its_topic() {
        let mail: Name = "mail".parse().unwrap();
        for client in ["press", "lmstfy-::1-0123abcd"] {
            let press = worker(client, 7, &mail);
            assert!(press.is_pull());
            assert_eq!(client_of(&press), Some(client), "{press}");
            assert_eq!(topic_of(press.pull_name().unwrap()), Some(mail.clone()));
        }
        assert_eq!(client_of(&WorkerId::new("press:0000000000000007:mail")), None, "a runner");
    }
}
