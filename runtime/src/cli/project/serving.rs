//! Whether the runner of this machine does jobs with what was built.

use std::time::Duration;

use tokio::time::Instant;

use super::super::exit::Exit;
use super::super::screen;
use super::super::store::Way;
use gristmill_core::job::TopicId;
use gristmill_server::{RemoteStore, TopicSeen};
use gristmill_store::StoreError;

const PAUSE: Duration = Duration::from_millis(200);

/// A server of the project, before the new component was put into its folder.
#[derive(Debug)]
pub(super) struct LocalServer {
    server: RemoteStore,
    /// That the component will do the jobs of.
    topics: Vec<TopicId>,
    /// Why it does not use the file that is there, by topic.
    refused_before: Vec<Option<String>>,
}

/// What became of the component.
#[derive(Debug)]
pub(super) enum Serving {
    /// No server of the project answers, or it is not asked.
    Unknown,
    /// The next jobs run it.
    Served,
    Refused(String),
    /// The wait is over: what the server says of a topic.
    NotYet(TopicId, Option<Box<TopicSeen>>),
}

impl LocalServer {
    /// `None`: no server answers, or no topic is the component's.
    ///
    /// # Errors
    /// A server answers, and refuses to say what it does.
    pub(super) async fn find(way: &Way, topics: Vec<TopicId>) -> Result<Option<Self>, StoreError> {
        let Some(server) = way.find_server().await?.filter(|_| !topics.is_empty()) else { return Ok(None) };
        let mut refused_before = Vec::with_capacity(topics.len());
        for topic in &topics {
            refused_before.push(server.topic_serving(topic).await?.and_then(|serving| serving.refused));
        }
        Ok(Some(Self { server, topics, refused_before }))
    }

    /// The file in the folder was the same before: its refusal is reported again for the new one.
    pub(super) fn forget_refusals(&mut self) {
        self.refused_before.fill(None);
    }

    /// Waits until all topics have this version, or the server refuses it.
    ///
    /// # Errors
    /// The server refuses to say what it does.
    pub(super) async fn wait_for(&self, version: &str, patience: Duration) -> Result<Serving, StoreError> {
        let until = Instant::now() + patience;
        for (topic, refused_before) in self.topics.iter().zip(&self.refused_before) {
            loop {
                let serving = match self.server.topic_serving(topic).await {
                    // It may be starting anew.
                    Err(error) if error.is_unavailable() && Instant::now() < until => None,
                    serving => serving?,
                };
                if serving.as_ref().is_some_and(|serving| serving.version.as_deref() == Some(version)) {
                    break;
                }
                let refused = serving.as_ref().and_then(|serving| serving.refused.as_ref());
                let is_over = Instant::now() >= until;
                if let Some(reason) = refused.filter(|_| is_over || refused != refused_before.as_ref()) {
                    return Ok(Serving::Refused(reason.clone()));
                }
                if is_over {
                    return Ok(Serving::NotYet(topic.clone(), serving.map(Box::new)));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(Serving::Served)
    }
}

impl Serving {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Unknown | Self::Served => Exit::Done,
            Self::Refused(_) => Exit::Failed,
            Self::NotYet(..) => Exit::TimedOut,
        }
    }

    /// `None`: unknown.
    pub(super) fn is_served(&self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Served => Some(true),
            Self::Refused(_) | Self::NotYet(..) => Some(false),
        }
    }

    /// Why the server refused it.
    pub(super) fn refused(&self) -> Option<&str> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// For people.
    pub(super) fn note(&self) {
        let text = match self {
            Self::Unknown => return,
            Self::Served => "the running server serves it".into(),
            Self::Refused(reason) => {
                format!("error: the running server refused it, and goes on with the version before, if any: {reason}")
            }
            Self::NotYet(topic, serving) => {
                let version = serving.as_ref().and_then(|serving| serving.version.as_deref());
                let lacking = serving.as_ref().map(|serving| serving.lacking.join(", ")).unwrap_or_default();
                let now = match (version, lacking) {
                    (_, lacking) if !lacking.is_empty() => format!("its manifest does not grant {lacking}"),
                    (Some(version), _) => format!("it serves version {version}"),
                    (None, _) => "it has no component".into(),
                };
                format!(
                    "error: the running server does not serve it yet: of topic `{topic}` {now}\nWait longer with \
                     --wait-timeout, or see its log; does it read the same manifest?"
                )
            }
        };
        text.lines().for_each(|line| screen::note(&screen::clean(line)));
    }
}
