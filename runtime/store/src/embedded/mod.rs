//! The embedded store: a SQLite file that belongs to one process, moved by one writer.
//!
//! `schema.sql` is what is in the file, and each SQL statement stands where it is used, under what it does. A call becomes a
//! `request`, the `writer` carries it out together with whatever else has queued up, and answers once that is
//! committed; the `reader` looks beside it. `place` says where in the table a job stands, `running` remembers what runs.
//! `docs/internals/embedded-store.md` describes the file.

mod bill;
mod cancel;
mod change;
mod checkpoint;
mod claim;
mod clock;
mod dead;
mod ended;
mod ends;
mod fault;
mod finish;
mod fsck;
mod health;
mod identity;
mod inspect;
mod kept;
mod key_rates;
mod keys;
mod lease;
mod limits;
mod links;
mod list;
mod migrate;
mod open;
mod owner;
mod place;
mod progress;
mod push;
mod reader;
mod recordings;
mod records;
mod request;
mod result;
mod row;
mod running;
mod schedules;
mod schema;
mod set_clock;
mod settle;
mod signals;
mod start;
mod statements;
mod states;
mod store;
mod tenant;
mod tokens;
mod topic;
mod topics;
mod transfer;
mod unique;
mod usage;
mod windows;
mod work;
mod writer;

#[cfg(test)]
mod tests;

pub use fsck::fsck_file;
pub use owner::{Announcement, Owner, owner};
pub use store::{Durability, EmbeddedStore};
