//! What the writer is asked: work to be done inside a transaction, and the caller that waits for the answer.

use std::fmt;

use tokio::sync::oneshot;

use crate::Clock;
pub(in crate::embedded) use crate::batch::Weight;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::work::Work;

/// One request. What it asks for may be carried out more than once, if the transaction is lost under it.
pub(in crate::embedded) struct Request {
    pub(in crate::embedded) clock: Clock,
    pub(in crate::embedded) weight: Weight,
    task: Box<dyn Task>,
}

impl Request {
    pub(in crate::embedded) fn new<T: Send + 'static>(
        clock: Clock,
        weight: Weight,
        work: impl Fn(&mut Work<'_>) -> Done<T> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Done<T>>) {
        let (reply, answer) = oneshot::channel();
        (Self { clock, weight, task: Box::new(Ask { work, outcome: Err(Fault::Closed), reply }) }, answer)
    }

    /// True: what was asked is done, provided that the transaction is committed.
    pub(in crate::embedded) fn run(&mut self, work: &mut Work<'_>) -> bool {
        self.task.run(work)
    }

    /// Sends the answer that the request was not carried out.
    pub(in crate::embedded) fn refuse(self, fault: Fault) {
        self.task.refuse(fault);
    }

    /// Sends the answer: what came of the work, if it was committed.
    pub(in crate::embedded) fn answer(self, commit: Done<()>) {
        self.task.answer(commit);
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("weight", &self.weight).finish_non_exhaustive()
    }
}

trait Task: Send {
    fn run(&mut self, work: &mut Work<'_>) -> bool;
    fn answer(self: Box<Self>, commit: Done<()>);
    fn refuse(self: Box<Self>, fault: Fault);
}

struct Ask<T, F> {
    work: F,
    outcome: Done<T>,
    reply: oneshot::Sender<Done<T>>,
}

impl<T: Send, F: Fn(&mut Work<'_>) -> Done<T> + Send> Task for Ask<T, F> {
    fn run(&mut self, work: &mut Work<'_>) -> bool {
        self.outcome = (self.work)(work);
        self.outcome.is_ok()
    }

    fn answer(self: Box<Self>, commit: Done<()>) {
        // A request that failed says why; that the transaction also failed is no news to it.
        let outcome = self.outcome.and_then(|done| commit.map(|()| done));
        // Fails if the caller waits no more: that is its right.
        let _ = self.reply.send(outcome);
    }

    fn refuse(self: Box<Self>, fault: Fault) {
        let _ = self.reply.send(Err(fault));
    }
}
