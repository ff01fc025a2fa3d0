//! A handler that does what its payload says, good or evil: the guest of the end-to-end and hostile tests.
//!
//! The payload is a [`Script`] in JSON: steps, carried out in order, and an ending. Tests write it with the same types:
//!
//! ```
//! use puppet::{End, Script, Step};
//!
//! let script = Script::new([Step::Log("hello".into()), Step::End(End::Text("done".into()))]);
//! assert_eq!(script.to_json(), br#"{"do":[{"log":"hello"},{"end":{"text":"done"}}]}"#);
//! ```

#![allow(missing_docs, reason = "the tests are its only callers, and the names say what the fields are")]

mod act;
mod evil;
mod report;
mod script;
mod version;

pub use report::Report;
pub use script::{Cause, Count, End, Enqueue, Script, Step};
pub use version::{MARKER, version};

gristmill_guest::handler!(act::play);
gristmill_guest::self_test!(version::check);

#[cfg(test)]
mod tests;
