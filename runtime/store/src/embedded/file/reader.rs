//! Reading beside the writer: threads with a connection each, which see what was committed last and wait for no writer. One
//! of them answers short questions only, so that they wait for no long list.

use std::fmt;
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::threads::Queue;
use crate::embedded::clock::OwnClock;
use crate::embedded::fault::Done;

/// One question.
pub(in crate::embedded) struct Question(Box<QueryFn>);

type QueryFn = dyn FnOnce(&mut Connection, &OwnClock) + Send;

impl Question {
    pub(in crate::embedded) fn new(ask: impl FnOnce(&mut Connection, &OwnClock) + Send + 'static) -> Self {
        Self(Box::new(ask))
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").finish_non_exhaustive()
    }
}

/// How many steps of SQLite's machine pass between two looks at whether the answer is still wanted: about 0.1 ms. Then other
/// threads may have the processor: a long list must not keep the writer and the server's threads from it until the kernel ends
/// its slice.
const STEPS: i32 = 5_000;

/// Looks, until the answer is no longer wanted: then the statement under way ends with an error.
pub(in crate::embedded) fn while_wanted<T: Send + 'static>(
    connection: &mut Connection,
    reply: oneshot::Sender<Done<T>>,
    look: impl FnOnce(&Connection) -> Done<T>,
) {
    if reply.is_closed() {
        return;
    }
    let reply = Arc::new(reply);
    let wanted = Arc::downgrade(&reply);
    let is_unwanted = move || {
        thread::yield_now();
        wanted.upgrade().is_none_or(|reply| reply.is_closed())
    };
    // Without the handler, a question takes the time that it takes.
    let _ = connection.progress_handler(STEPS, Some(is_unwanted));
    let seen = look(connection);
    let _ = connection.progress_handler(0, None::<fn() -> bool>);
    if let Some(reply) = Arc::into_inner(reply) {
        // Fails if the caller waits no more: that is its right.
        let _ = reply.send(seen);
    }
}

/// Ends when no caller can ask any more.
pub(in crate::embedded) fn run(mut connection: Connection, clock: &OwnClock, questions: &Queue<Question>) {
    while let Some(Question(ask)) = questions.next() {
        ask(&mut connection, clock);
    }
}

/// Looks several times and sees one state.
pub(in crate::embedded) fn at_one_moment<T>(connection: &Connection, look: impl FnOnce() -> Done<T>) -> Done<T> {
    let transaction = connection.unchecked_transaction()?;
    let seen = look();
    transaction.commit()?;
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Never ends.
    const ENDLESS: &str =
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers";

    #[test]
    fn a_question_is_not_asked_once_its_answer_is_not_wanted() {
        let mut connection = Connection::open_in_memory().unwrap();
        let (reply, answer) = oneshot::channel::<Done<()>>();
        drop(answer);
        while_wanted(&mut connection, reply, |_| panic!("the client has given up"));
    }

    #[test]
    fn a_question_under_way_ends_once_its_answer_is_not_wanted() {
        let mut connection = Connection::open_in_memory().unwrap();
        let (reply, answer) = oneshot::channel();
        let (begun, begins) = std::sync::mpsc::channel();
        let client = thread::spawn(move || {
            begins.recv().unwrap();
            drop(answer);
        });
        while_wanted(&mut connection, reply, |connection| {
            begun.send(()).unwrap();
            let seen = connection.query_row(ENDLESS, [], |row| row.get::<_, i64>(0));
            assert!(seen.is_err(), "{seen:?}");
            Ok(seen?)
        });
        client.join().unwrap();
        let (reply, mut answer) = oneshot::channel();
        while_wanted(&mut connection, reply, |connection| {
            Ok(connection.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(answer.try_recv().unwrap().unwrap(), 7, "the next one is answered");
    }
}
