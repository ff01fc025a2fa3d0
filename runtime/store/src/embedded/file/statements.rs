//! The statements of one transaction: looked up once, however often they are carried out in it.

use std::fmt;

use rusqlite::{CachedStatement, Connection};

/// A handful, so that going through them costs less than hashing the text of one.
pub(in crate::embedded) struct Statements<'a> {
    connection: &'a Connection,
    held: Vec<(&'static str, CachedStatement<'a>)>,
}

impl fmt::Debug for Statements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.held.iter().map(|(sql, _)| sql)).finish()
    }
}

impl<'a> Statements<'a> {
    pub(in crate::embedded) fn on(connection: &'a Connection) -> Self {
        Self { connection, held: Vec::new() }
    }

    /// The statement, ready to be carried out. Its values are bound until the transaction ends: for statements that end
    /// before the next one begins.
    pub(in crate::embedded) fn get(&mut self, sql: &'static str) -> rusqlite::Result<&mut CachedStatement<'a>> {
        // By where the text is and not by what it says: a text that is in two places is prepared twice, and no more.
        let place = match self.held.iter().position(|(held, _)| std::ptr::eq(*held, sql)) {
            Some(place) => place,
            None => {
                self.held.push((sql, self.connection.prepare_cached(sql)?));
                self.held.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "it was found or put there just now")]
        Ok(&mut self.held[place].1)
    }
}
