//! How host functions ask for what a recording has: the one way of every answer that does not follow from the job.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::recording::boundary::Question;
use super::state::State;

impl State {
    /// A question of the guest whose answer does not follow from its job: the name of the call, what a person may read of it, and all of it.
    pub(super) fn question<'a>(&self, name: &'static str, about: &'a str, question: &impl Serialize) -> Question<'a> {
        Question::new(name, about, self.is_recorded.then_some(question))
    }

    /// Has `live` answer a question, unless this is a replay, and writes the answer down if the attempt is recorded.
    ///
    /// # Errors
    /// Those of `live`; or it is a replay, and something else was asked when it was recorded.
    pub(super) fn ask<A: Serialize + DeserializeOwned>(
        &mut self,
        question: &Question<'_>,
        live: impl FnOnce(&mut Self) -> wasmtime::Result<A>,
    ) -> wasmtime::Result<A> {
        if let Some(answer) = self.recorded(question)? {
            return Ok(answer);
        }
        let answer = live(self);
        self.keep_or_note_end(question, &answer);
        answer
    }

    /// The same for a secret: the answer is always `live`, and its digest is recorded.
    pub(super) fn ask_sealed<A: Serialize>(
        &mut self,
        question: &Question<'_>,
        live: impl FnOnce(&mut Self) -> wasmtime::Result<A>,
    ) -> wasmtime::Result<A> {
        let answer = live(self)?;
        if self.is_recorded
            && let Some(log) = self.guest_log().boundary.log()
        {
            log.seal(question, &answer)?;
        }
        Ok(answer)
    }

    /// For functions that wait: the answer, if this is a replay. Else [`Self::keep`] is to be called with it.
    ///
    /// # Errors
    /// Something else was asked when it was recorded.
    pub(super) fn recorded<A: DeserializeOwned>(&mut self, question: &Question<'_>) -> wasmtime::Result<Option<A>> {
        if !self.is_recorded {
            return Ok(None);
        }
        let mut guest_log = self.guest_log();
        let Some(log) = guest_log.boundary.log() else { return Ok(None) };
        Ok(log.answer(question)?)
    }

    /// Writes down how a question was answered.
    pub(super) fn keep(&mut self, question: &Question<'_>, answer: &impl Serialize) {
        if self.is_recorded
            && let Some(log) = self.guest_log().boundary.log()
        {
            log.keep(question, answer);
        }
    }

    /// The same, or that the call ended the guest.
    pub(super) fn keep_or_note_end<A: Serialize>(&mut self, question: &Question<'_>, answer: &wasmtime::Result<A>) {
        match answer {
            Ok(answer) => self.keep(question, answer),
            Err(_) if self.is_recorded => {
                if let Some(log) = self.guest_log().boundary.log() {
                    log.note_end(question);
                }
            }
            Err(_) => {}
        }
    }
}
