//! The recording of an attempt answers, and nothing is asked of the world.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Host, HostAnswer, Question, Request, bytes};
use gristmill_runner::native::LogLine;
use gristmill_sandbox::{NativeReplay, Refusal};

static NO_SETTINGS: BTreeMap<String, String> = BTreeMap::new();

impl Host for NativeReplay {
    fn request(&self) -> Request<'_> {
        let attempt = self.attempt();
        Request {
            job: &attempt.job,
            attempt: attempt.attempt,
            max_attempts: attempt.max_attempts,
            deadline_ms: self.deadline().as_millis(),
            now_ms: self.began().as_millis(),
            checkpoint: attempt.checkpoint.clone().map(bytes),
            // It asks for them, one by one.
            config: &NO_SETTINGS,
            secrets: BTreeMap::new(),
        }
    }

    fn log(&mut self, line: LogLine) {
        Self::log(self, line);
    }

    async fn answer(&mut self, question: Question) -> HostAnswer {
        answered(self, question).map_err(|Refusal { code, message }| (code, message))
    }
}

fn answered(replay: &mut NativeReplay, question: Question) -> Result<Value, Refusal> {
    Ok(match question {
        Question::IsCancelled => replay.is_cancelled()?.into(),
        Question::Checkpoint { state } => replay.save_checkpoint(&state.data).map(|()| Value::Null)?,
        Question::State => json!(replay.state()?.map(bytes)),
        Question::SetState { value } => {
            replay.set_state(value.as_ref().map(|value| value.data.as_slice())).map(|()| Value::Null)?
        }
        Question::Enqueue { job: new } => {
            let refused = |error: serde_json::Error| Refusal { code: "refused", message: error.to_string() };
            replay.enqueue(&serde_json::from_value(new).map_err(refused)?)?.into()
        }
        Question::Config { name } => json!(replay.setting(&name)?),
        Question::Secret { name } => json!(replay.secret(&name)?.map(bytes)),
        Question::Enabled { level } => replay.is_enabled(&level)?.into(),
        Question::Time => json!(replay.time()),
        Question::Http { request } => json!(replay.send(&request)?),
    })
}
