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
mod how;
mod identity;
mod insert;
mod inspect;
mod kept_answers;
mod key_rates;
mod keys;
mod lease;
mod limits;
mod links;
mod list;
mod migrate;
mod open;
mod owner;
mod pause;
mod place;
mod probe;
mod progress;
mod push;
mod reader;
mod reap;
mod recordings;
mod records;
mod remaining;
mod request;
mod results;
mod row;
mod running;
mod schedules;
mod schema;
mod set_clock;
mod settle;
mod signals;
mod slot;
mod start;
mod statements;
mod states;
mod store;
mod sweep;
mod tenant;
mod tenant_runs;
mod threads;
mod tokens;
mod topic;
mod topics;
mod transfer;
mod unique;
mod unique_holds;
mod usage;
mod windows;
mod work;
mod writer;

#[cfg(test)]
mod tests;

pub use fsck::fsck_file;
pub use open::Durability;
pub use owner::{Announcement, Owner, owner};
pub use store::EmbeddedStore;
