//! What tenants may have in the store.

pub(crate) mod full;
pub(crate) mod storage;
