//! Who asked for a change: the server that takes a request knows it, and the events of the change name it.

tokio::task_local! {
    static ACTOR: String;
}

/// Does some work for an actor: the events that it emits say who that is, and so does a topic that it pauses. Work that it spawns does not.
pub async fn as_actor<F: Future>(actor: String, work: F) -> F::Output {
    ACTOR.scope(actor, work).await
}

/// The actor for whom this runs. `None`: no client asked, or it is no change that an operator asks for.
pub fn actor() -> Option<String> {
    ACTOR.try_with(Clone::clone).ok()
}
