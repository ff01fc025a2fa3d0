//! What holds the store up: the file, whose it is and whether it is sound, the one thread that writes, and those that read beside it.

mod checkpoint;
pub(super) mod health;
pub(super) mod open;
pub(super) mod owner;
pub(super) mod reader;
pub(super) mod request;
pub(super) mod schema;
pub(super) mod start;
pub(super) mod statements;
pub(super) mod threads;
mod writer;
