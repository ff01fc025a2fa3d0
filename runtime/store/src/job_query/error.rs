//! What is wrong with a query.

/// A query that cannot be read: where, why, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the query at character {at}, `{term}`: {problem}")]
pub struct QueryError {
    /// Where the condition begins; the first character is 1.
    pub at: usize,
    /// The condition as it was written.
    pub term: String,
    /// What is wrong with it, and what to write.
    pub problem: String,
}
