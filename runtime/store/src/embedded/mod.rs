//! The embedded store: a SQLite file that belongs to one process, moved by one writer.
//!
//! All the rest builds upon `file`: the `.sql` files are what is in the file, and each SQL statement stands where it is used, under what it does. A call
//! becomes a `request`, the `writer` carries it out together with whatever else has queued up, and answers once that is
//! committed; the `reader` looks beside it. `place` says where in the table a job stands, `memory` is what the writer remembers of topics
//! and of what runs.
//!
//! What a store can do has a file or a folder of its name, as in `redis`: `path` has the steps of a job, `look` what changes no job.
//! `docs/internals/embedded-store.md` describes the file.

mod bill;
mod cancel;
mod change;
mod clock;
mod dead;
mod fault;
mod file;
mod identity;
mod keys;
mod limits;
mod links;
mod look;
mod memory;
mod path;
mod pause;
mod place;
mod recordings;
mod records;
mod results;
mod row;
mod schedules;
mod signals;
mod states;
mod store;
mod tokens;
mod transfer;
mod unique;
mod work;

#[cfg(test)]
mod tests;

pub use file::open::Durability;
pub use file::owner::{Announcement, Owner, owner};
pub use look::fsck::fsck_file;
pub use store::EmbeddedStore;
