//! Which versions of handlers do topics' jobs, by the server.

use std::time::Duration;

use super::exchange::Question;
use super::store::{RemoteStore, topic_path};
use crate::problem::Code;
use crate::wire;
use crate::wire::handler::HandlerSeen;
use gristmill_core::job::TopicId;
use gristmill_store::StoreError;
use url::form_urlencoded;

/// Longer than a server may take to check, compile and start it.
const TAKE_IN: Duration = Duration::from_secs(200);

impl RemoteStore {
    /// Which versions of the topic's component the server has met. `None`: it knows no such topic.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn handler_versions(&self, topic: &TopicId) -> Result<Option<HandlerSeen>, StoreError> {
        let path = format!("{}/handler", topic_path(topic));
        self.server.ask_about(Question::get(path, "ask for the versions of a handler"), &[Code::TopicUnknown]).await
    }

    /// The bytes of a version of the topic's component, by the digits of its SHA-256. `None`: the server has no such topic or
    /// version, or runs no jobs.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn component(&self, topic: &TopicId, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let question = Question::get(format!("{}/handler/versions/{digest}", topic_path(topic)), "ask for a component");
        let unknown = [Code::TopicUnknown, Code::HandlerUnknown, Code::Starting];
        let found: Option<wire::Component> = self.server.ask_about(question, &unknown).await?;
        Ok(found.map(|found| found.component.0))
    }

    /// Brings the topic's component, to do this share of its jobs at first, as the API takes it. Returns the version's first digits once it serves.
    ///
    /// # Errors
    /// The server is unavailable, or refuses the component; the text says why.
    pub async fn deploy(&self, topic: &TopicId, wasm: Vec<u8>, share: &str) -> Result<String, StoreError> {
        let share: String = form_urlencoded::byte_serialize(share.as_bytes()).collect();
        let path = format!("{}/handler?share={share}", topic_path(topic));
        let question = Question::put_component(path, wasm, TAKE_IN, "deploy a handler");
        let served: wire::Served = self.server.ask(question).await?;
        Ok(served.version.unwrap_or_default())
    }

    /// Goes back to an earlier version of the topic's component, on all runners: the last one that served before, or the one whose
    /// SHA-256 begins so. Returns the first digits of the one that serves.
    ///
    /// # Errors
    /// The server is unavailable, or refuses: it has no such version, for instance.
    pub async fn roll_back(&self, topic: &TopicId, to: Option<&str>) -> Result<String, StoreError> {
        let asked = wire::RollBack { to: to.map(str::to_owned) };
        let path = format!("{}/handler/rollback", topic_path(topic));
        let served: wire::Served = self.server.ask(Question::post(path, &asked, "roll back a handler")).await?;
        Ok(served.version.unwrap_or_default())
    }

    /// Lets the version of the topic's component that is being tried do all jobs. Returns its first digits.
    ///
    /// # Errors
    /// The server is unavailable, or refuses: none is being tried, for instance.
    pub async fn promote(&self, topic: &TopicId) -> Result<String, StoreError> {
        let path = format!("{}/handler/promote", topic_path(topic));
        let served: wire::Served =
            self.server.ask(Question::post(path, &wire::Nothing {}, "promote a handler")).await?;
        Ok(served.version.unwrap_or_default())
    }
}
