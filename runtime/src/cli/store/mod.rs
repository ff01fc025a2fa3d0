//! Stores by their address: opened by this process, or reached through the one that owns them.

mod reach;

pub(super) use reach::{NoStoreYet, Reached, Served, Way, has_opened, note_opened};
