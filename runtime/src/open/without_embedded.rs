//! In place of the embedded store, which this program is built without.

use std::net::SocketAddr;
use std::path::Path;

use super::{One, not_built_in};
use gristmill_config::{Durability, StoreAddress};
use gristmill_store::{FsckReport, ServerName, StoreError};

/// There is none.
#[derive(Debug, Clone)]
pub(crate) enum EmbeddedStore {}

impl EmbeddedStore {
    pub(super) fn announce(&self, _: SocketAddr, _: &str, _: &ServerName) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) async fn presume_workers_dead(&self) -> Result<(), StoreError> {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub(crate) enum Announcement {}

impl Announcement {
    pub(super) fn of_memory(_: &Path) -> Result<Self, StoreError> {
        Err(not_built_in(StoreAddress::Memory, "embedded"))
    }

    pub(crate) fn announce(&self, _: SocketAddr, _: &str, _: &ServerName) -> Result<(), StoreError> {
        match *self {}
    }
}

pub(super) async fn open(path: &Path, _: Durability) -> Result<One, StoreError> {
    Err(not_built_in(StoreAddress::File(path.to_owned()), "embedded"))
}

pub(super) async fn in_memory() -> Result<One, StoreError> {
    Err(not_built_in(StoreAddress::Memory, "embedded"))
}

pub(super) async fn fsck(path: &Path) -> Result<FsckReport, StoreError> {
    Err(not_built_in(StoreAddress::File(path.to_owned()), "embedded"))
}

pub(super) fn is_served(_: &Path) -> bool {
    false
}
