//! Reading beside the writer: a thread with a connection of its own, which sees what was committed last and waits for
//! nobody.

use std::fmt;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::clock::OwnClock;
use super::fault::Done;

/// One question.
pub(super) struct Question(Box<Look>);

type Look = dyn FnOnce(&Connection, &OwnClock) + Send;

impl Question {
    pub(super) fn new(ask: impl FnOnce(&Connection, &OwnClock) + Send + 'static) -> Self {
        Self(Box::new(ask))
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").finish_non_exhaustive()
    }
}

/// Ends when nobody can ask any more.
pub(super) fn run(connection: &Connection, clock: &Arc<OwnClock>, mut questions: mpsc::Receiver<Question>) {
    while let Some(Question(ask)) = questions.blocking_recv() {
        ask(connection, clock);
    }
}

/// Looks several times and sees one state.
pub(super) fn at_one_moment<T>(connection: &Connection, look: impl FnOnce() -> Done<T>) -> Done<T> {
    let transaction = connection.unchecked_transaction()?;
    let seen = look();
    transaction.commit()?;
    seen
}
