//! In place of Redis, which this program is built without.

use std::collections::BTreeMap;

use super::{One, not_built_in};
use gristmill_config::{RedisSettings, StoreAddress};
use gristmill_core::job::TopicId;
use gristmill_store::StoreError;

/// There is none.
#[derive(Debug, Clone)]
pub(super) enum RedisStore {}

impl RedisStore {
    pub(super) async fn warn_of_risks(&self) {
        match *self {}
    }

    pub(super) async fn spread(&self, _: &BTreeMap<TopicId, u32>) -> Result<(), StoreError> {
        match *self {}
    }
}

pub(super) async fn open(url: &str, _: &RedisSettings, _: bool) -> Result<One, StoreError> {
    Err(not_built_in(StoreAddress::Redis(url.to_owned()), "redis"))
}
