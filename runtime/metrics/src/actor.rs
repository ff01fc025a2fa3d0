//! Who asked for what happens: known to the server that takes a request, and said by the events of what it does.

tokio::task_local! {
    static ACTOR: String;
}

/// Does some work for an actor: the events that it emits say who that is, and so does a topic that it pauses. Work that it spawns does not.
pub async fn as_actor<F: Future>(actor: String, work: F) -> F::Output {
    ACTOR.scope(actor, work).await
}

/// The actor for whom this runs. `None`: it is nobody's request, or no change that an operator asks for.
pub fn actor() -> Option<String> {
    ACTOR.try_with(Clone::clone).ok()
}
