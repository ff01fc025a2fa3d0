//! Stores by their address: opened by this process, or reached through the one that owns them.

mod open;
mod reach;

pub(super) use open::{Layout, Opened, open};
pub(super) use reach::{NoStoreYet, Reached, Way};
