//! Where tenants live.

use serde::{Deserialize, Serialize};

use super::TopicCounts;
use gristmill_core::job::Name;
use gristmill_store::sharded;

/// `GET /v1/residences`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Residences {
    pub(crate) residences: Vec<Residence>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Residence {
    tenant: Name,
    store: Name,
    from: Option<Name>,
    formerly: Vec<Name>,
    left: Vec<TopicCounts>,
    away: Vec<Name>,
}

/// `POST /v1/tenants/{tenant}/move`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Move {
    pub(crate) to: Name,
}

impl From<sharded::TenantPlacement> for Residence {
    fn from(residence: sharded::TenantPlacement) -> Self {
        let sharded::TenantPlacement { tenant, store, from, formerly, left, away } = residence;
        Self { tenant, store, from, formerly, left: left.into_iter().map(Into::into).collect(), away }
    }
}

impl From<Residence> for sharded::TenantPlacement {
    fn from(residence: Residence) -> Self {
        let Residence { tenant, store, from, formerly, left, away } = residence;
        Self { tenant, store, from, formerly, left: left.into_iter().map(Into::into).collect(), away }
    }
}
