//! Which component does which topic's jobs, kept true while files change.
//!
//! Files are the truth, events are hints: whatever the watcher says, [`Folder`] compares what is there with what it
//! loaded. A component that was compiled before serves at once; others wait in the [`Backlog`] for the compiler, those first whose jobs wait.
//! A version that fails any step is refused with the reason, and the last good one keeps serving, also after a restart. A deleted
//! file stops its topics and keeps their jobs. The manifest reloads the same way: validated whole, swapped whole.
//!
//! What comes out is a [`HandlerRegistry`], an immutable snapshot; a running attempt keeps the one it began with.

mod available;
mod backlog;
mod changes;
mod deployed;
mod folder;
mod handler;
mod last_good;
mod listing;
mod load;
mod records;
mod registry;
mod reload;
mod seen;
mod stamp;
mod trial;
mod uploads;
mod watch;

pub use available::Available;
pub use backlog::Backlog;
pub use changes::Refusal;
pub use folder::Folder;
pub use handler::{Candidate, Code, Handler, TopicHandler};
pub use last_good::KeptVersions;
pub use records::DeploymentRecords;
pub use registry::HandlerRegistry;
pub use reload::Reloader;
pub use seen::SeenVersion;
pub use stamp::file_at;
pub use trial::Trial;
pub use uploads::{ComponentUploads, UploadError};
pub use watch::Hints;
