//! The tenants and topics that lmstfy's namespaces and queues are.
//!
//! A name is the same on both sides, unless it begins with `-` or `_`: then `0.` stands before it here. lmstfy allows no dot
//! in names, so no two names become one. A topic that has a dot otherwise cannot be named here.

use super::refusal::Refusal;
use gristmill_core::job::{Name, TopicId};

/// The prefix of a name that begins with a character that no name here begins with.
const ESCAPE: &str = "0.";
/// lmstfy's own limit, in bytes. Ours is lower.
const LONGEST: usize = 255;

const TOO_LONG: Refusal = Refusal::bad("namespace or queue name too long");
const BAD_NAMESPACE: Refusal = Refusal::bad("namespace name contains forbidden characters");
const BAD_QUEUE: Refusal = Refusal::bad("queue name contains forbidden characters");

/// A queue as its client names it, and its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) topic: TopicId,
}

/// The queue of a path, with its tenant.
///
/// # Errors
/// Those of lmstfy; and names over 128 bytes are too long.
pub(super) fn one(namespace: &str, queue: &str) -> Result<Queue, Refusal> {
    if namespace.len() > LONGEST || queue.len() > LONGEST {
        return Err(TOO_LONG);
    }
    let tenant = tenant(namespace)?;
    // lmstfy keeps such names for itself.
    if queue.starts_with('_') || !fits(queue) {
        return Err(BAD_QUEUE);
    }
    Ok(Queue { name: queue.into(), topic: TopicId { tenant, topic: inward(queue)? } })
}

/// The queues of a path that names several, in order. Empty names are skipped, so there may be no queue. A queue that is
/// named twice counts once.
///
/// # Errors
/// Those of [`one`], but a queue's name may begin with `_`, as in lmstfy.
pub(super) fn several(namespace: &str, queues: &str) -> Result<(Name, Vec<Queue>), Refusal> {
    let tenant = tenant(namespace)?;
    if !fits(&queues.replace(',', "-")) {
        return Err(BAD_QUEUE);
    }
    let mut list: Vec<Queue> = Vec::new();
    for name in queues.split(',').filter(|name| !name.is_empty()) {
        if list.iter().all(|queue| queue.name != name) {
            let topic = TopicId { tenant: tenant.clone(), topic: inward(name)? };
            list.push(Queue { name: name.into(), topic });
        }
    }
    Ok((tenant, list))
}

/// The tenant that a namespace is.
///
/// # Errors
/// lmstfy's: it has characters that it may not have, or is too long.
pub(super) fn tenant(namespace: &str) -> Result<Name, Refusal> {
    if fits(namespace) { inward(namespace) } else { Err(BAD_NAMESPACE) }
}

/// The name of a tenant or a topic in lmstfy. A name that lmstfy cannot have is shown as it is.
pub(super) fn outward(name: &Name) -> &str {
    let name = name.as_str();
    name.strip_prefix(ESCAPE).filter(|rest| fits(rest) && rest.starts_with(['-', '_'])).unwrap_or(name)
}

/// `^[-_[:alnum:]]+$`
fn fits(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// The name here of a name that [fits](fits).
fn inward(name: &str) -> Result<Name, Refusal> {
    let escape = if name.starts_with(['-', '_']) { ESCAPE } else { "" };
    [escape, name].concat().parse().map_err(|_| TOO_LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> String {
        match answer.unwrap_err() {
            Refusal::Because(_, error) => error.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_are_the_same_there_and_back() {
        let long = "q".repeat(128);
        for name in ["q", "0", "a-b_c", "-q", "-", "--", &long, &format!("-{}", "q".repeat(125))] {
            let queue = one("ns", name).unwrap();
            assert_eq!(outward(&queue.topic.topic), name);
        }
        let (tenant, _) = several("_ns", "q").unwrap();
        assert_eq!((tenant.as_str(), outward(&tenant)), ("0._ns", "_ns"));
        assert_eq!(outward(&"0.x".parse().unwrap()), "0.x");
        assert_eq!(outward(&"a.b".parse().unwrap()), "a.b");
    }

    #[test]
    fn names_that_lmstfy_refuses_are_refused_in_its_words() {
        let long = "q".repeat(129);
        for (namespace, queue, error) in [
            ("n.s", "q", "namespace name contains forbidden characters"),
            ("", "q", "namespace name contains forbidden characters"),
            ("ns", "q.1", "queue name contains forbidden characters"),
            ("ns", "_q", "queue name contains forbidden characters"),
            ("ns", "q1,q2", "queue name contains forbidden characters"),
            ("ns", "ä", "queue name contains forbidden characters"),
            ("ns", long.as_str(), "namespace or queue name too long"),
            ("n".repeat(256).as_str(), "q", "namespace or queue name too long"),
            (format!("-{}", "n".repeat(126)).as_str(), "q", "namespace or queue name too long"),
        ] {
            assert_eq!(refusal(one(namespace, queue)), error, "{namespace}/{queue}");
        }
        assert_eq!(refusal(several("ns", "a,b.c")), "queue name contains forbidden characters");
        assert_eq!(refusal(several("ns", "")), "queue name contains forbidden characters");
    }

    #[test]
    fn empty_names_between_commas_are_skipped() {
        let names =
            |queues| -> Vec<String> { several("ns", queues).unwrap().1.into_iter().map(|queue| queue.name).collect() };
        assert_eq!(names(",b,,a,_c,b,"), ["b", "a", "_c"]);
        assert!(names(",,").is_empty());
    }
}
