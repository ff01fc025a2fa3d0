//! Unique values that are held, by way of the server.

use async_trait::async_trait;

use super::exchange::Question;
use super::store::{RemoteStore, path_of, topic_path};
use crate::wire;
use gristmill_core::job::TopicId;
use gristmill_store::{StoreError, UniqueHold, Uniques};

#[async_trait]
impl Uniques for RemoteStore {
    async fn unique_hold(&self, topic: &TopicId, value: &str) -> Result<Option<UniqueHold>, StoreError> {
        let question = Question::get(path_of(topic, "unique", value), "look up a unique value");
        let wire::UniqueHold { holder, until } = self.server.ask(question).await?;
        Ok(holder.map(|holder| UniqueHold { holder, until }))
    }

    async fn free_unique(&self, topic: &TopicId, value: &str) -> Result<bool, StoreError> {
        let question = Question::delete(path_of(topic, "unique", value), "free a unique value");
        let wire::Changed { changed } = self.server.ask(question).await?;
        Ok(changed)
    }

    async fn free_windows(&self, topic: &TopicId) -> Result<u64, StoreError> {
        let question = Question::delete(format!("{}/unique", topic_path(topic)), "free unique values");
        let wire::Freed { freed } = self.server.ask(question).await?;
        Ok(freed)
    }
}
