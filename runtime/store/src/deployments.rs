//! Which versions of handlers do the jobs of topics, where that was decided: records of the installation, in the primary store.

use std::collections::BTreeMap;

use super::error::StoreError;
use super::operations::operations;
use gristmill_core::deployment::Deployment;
use gristmill_core::job::TopicId;

operations! {
    primary shard:
    /// Decisions about versions of handlers.
    pub trait Deployments {
        /// Every record, by topic. There is one for each topic for which something was decided, ever.
        async fn deployments(&self) -> Result<BTreeMap<TopicId, Deployment>, StoreError>;

        /// Writes a record over the one of the generation before it; over none, if it is the first, and signals it to all runners
        /// ([`Signal::Deployed`](crate::Signal::Deployed)). False: another process has written meanwhile, and nothing was changed.
        async fn write_deployment(&self, topic: &TopicId, deployment: &Deployment) -> Result<bool, StoreError>;
    }
}
