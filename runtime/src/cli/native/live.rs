//! The runner answers, whose job it is.

use serde_json::{Value, json};

use super::{Host, HostAnswer, Question, Request, bytes};
use gristmill_core::admission::NoFollowUp;
use gristmill_runner::native::{CheckpointError, LogLine, NativeJob, StateError};

impl Host for NativeJob {
    fn request(&self) -> Request<'_> {
        Request {
            job: self.job(),
            attempt: self.attempt(),
            max_attempts: self.max_attempts(),
            deadline_ms: self.deadline().as_millis(),
            now_ms: self.now().as_millis(),
            checkpoint: self.checkpoint().map(|state| bytes(state.to_vec())),
            config: self.settings(),
            secrets: self.secrets().into_iter().map(|(name, secret)| (name, bytes(secret.to_vec()))).collect(),
        }
    }

    fn log(&mut self, line: LogLine) {
        Self::log(self, line);
    }

    async fn answer(&mut self, question: Question) -> HostAnswer {
        match question {
            Question::IsCancelled => Ok(self.is_cancelled().into()),
            Question::Checkpoint { state } => {
                let saved = self.save_checkpoint(&state.data).await;
                let code = |error: &CheckpointError| match error {
                    CheckpointError::TooLarge(_) => "too-large",
                    CheckpointError::NotSaved(_) => "unavailable",
                };
                saved.map(|()| Value::Null).map_err(|error| (code(&error), error.to_string()))
            }
            Question::State => self.state().await.map(|state| json!(state.map(bytes))).map_err(state_error),
            Question::SetState { value } => {
                let set = self.set_state(value.as_ref().map(|value| value.data.as_slice()));
                set.map(|()| Value::Null).map_err(state_error)
            }
            Question::Enqueue { job: new } => {
                let new = serde_json::from_value(new).map_err(|error| ("refused", error.to_string()));
                let code = |refused: &NoFollowUp| match refused {
                    NoFollowUp::UnknownTopic(_) => "unknown-topic",
                    _ => "refused",
                };
                let id = new.and_then(|new| self.enqueue(new).map_err(|no| (code(&no), no.to_string())));
                id.map(|id| id.as_str().into())
            }
            Question::Config { name } => Ok(json!(self.settings().get(&name))),
            Question::Secret { name } => {
                Ok(json!(self.secrets().get(name.as_str()).map(|secret| bytes(secret.to_vec()))))
            }
            Question::Enabled { .. } => Ok(true.into()),
            Question::Time => {
                let now = self.now().as_millis();
                Ok(json!([now / 1000, now % 1000 * 1_000_000]))
            }
            Question::Http { .. } => Err(("denied", "a process that does jobs sends its requests itself".to_owned())),
        }
    }
}

fn state_error(error: StateError) -> (&'static str, String) {
    let code = match error {
        StateError::NoKey => "no-key",
        StateError::TooLarge(_) => "state-too-large",
        StateError::Unavailable(_) => "state-unavailable",
    };
    (code, error.to_string())
}
