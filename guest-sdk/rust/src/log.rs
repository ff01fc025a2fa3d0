//! Log lines of the job. The host adds tenant, topic, job, attempt, the handler's version and the trace.
//!
//! Lines over the topic's log limit are dropped and counted; the handler runs on.
//!
//! ```
//! # use gristmill_guest::log;
//! log::info("resized", &[("width", &640), ("format", &"png")]);
//! ```

use std::fmt::Display;

pub use crate::bindings::gristmill::job::log::Level;
use crate::host::log as host;

/// Names and values that go with a line. A value's `Display` is taken.
pub type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

/// For the handler's author.
pub fn trace(message: &str, fields: Fields<'_>) {
    emit_if_enabled(Level::Trace, message, fields);
}

/// For the handler's author.
pub fn debug(message: &str, fields: Fields<'_>) {
    emit_if_enabled(Level::Debug, message, fields);
}

/// What happened, in the normal course of things.
pub fn info(message: &str, fields: Fields<'_>) {
    emit(Level::Info, message, fields);
}

/// Something was wrong, and the handler went on.
pub fn warn(message: &str, fields: Fields<'_>) {
    emit(Level::Warn, message, fields);
}

/// Someone must act.
pub fn error(message: &str, fields: Fields<'_>) {
    emit(Level::Error, message, fields);
}

/// Whether lines of this level are kept: lets a handler skip the work of building one.
pub fn enabled(level: Level) -> bool {
    host::enabled(level)
}

/// Fine lines are usually off: asking first is cheaper than building them. From `info` on, asking would only be one
/// more call into the host.
fn emit_if_enabled(level: Level, message: &str, fields: Fields<'_>) {
    if enabled(level) {
        emit(level, message, fields);
    }
}

fn emit(level: Level, message: &str, fields: Fields<'_>) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    host::emit(level, message, &fields);
}
