//! The tokens that this server knows: asked of the store, and remembered for as long as the store emits changes.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use gristmill_core::token::{Token, TokenHash, TokenId, TokenRequirement};
use gristmill_store::{FoundToken, Store, StoreError};

/// How long an answer counts at most, whatever the store emits: a connection can be dead for a while unnoticed.
const FRESH: Duration = Duration::from_secs(3);

/// Tokens that are remembered, and as many ids of none; with one more, all are forgotten.
const REMEMBERED: usize = 10_000;

/// Tokens that are asked for at once. A client that guesses must not keep the store from its work.
const QUESTIONS: usize = 16;

/// Tokens between a token and the operator, each made with the one before. A token further away is refused.
pub(crate) const MAKERS: usize = 8;

/// How often a token whose stream goes on is looked for, while the store emits changes.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// How long to leave a store alone that takes no subscription.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Finds tokens by their texts.
#[derive(Debug)]
pub(crate) struct TokenCache {
    store: Arc<dyn Store>,
    fresh: Duration,
    remembered: Mutex<Remembered>,
    /// Tokens that were valid when the store was last asked for them, whether or not it emits changes.
    valid_before: Mutex<HashSet<TokenId>>,
    /// Requests needed no token when the store last answered.
    was_open: AtomicBool,
    /// The store has answered that requests need a token, and not that the operator lifted that.
    required: AtomicBool,
    questions: Semaphore,
    /// Marked whenever a token may have changed.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Remembered {
    /// The store emits changes. Only then is anything remembered.
    listening: bool,
    /// Grows with every change: an answer to a question that was asked before it may be wrong.
    changes: u64,
    tokens: HashMap<TokenId, (Arc<KnownToken>, Instant)>,
    /// Ids of which the store has no token.
    unknown: HashMap<TokenId, Instant>,
    required: Option<(bool, Instant)>,
}

/// A valid token.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) token: Token,
    /// The token with which it was made, the one with which that was made, and so on. All are valid.
    pub(crate) makers: Vec<Token>,
    hash: TokenHash,
    /// When it, or one of those, expires.
    ends: Option<Instant>,
}

impl TokenCache {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self::that_remembers_for(FRESH, store)
    }

    fn that_remembers_for(fresh: Duration, store: Arc<dyn Store>) -> Self {
        Self {
            store,
            fresh,
            remembered: Mutex::default(),
            valid_before: Mutex::default(),
            was_open: AtomicBool::default(),
            required: AtomicBool::default(),
            questions: Semaphore::new(QUESTIONS),
            changed: watch::Sender::new(()),
        }
    }

    /// The token with this text, if it is valid.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(crate) async fn find(&self, hash: &TokenHash) -> Result<Option<Arc<KnownToken>>, StoreError> {
        let id = hash.id();
        let known = match self.recall(&id) {
            Some(known) => known,
            None => self.ask(id).await?,
        };
        Ok(known.filter(|known| known.hash.is(hash)))
    }

    /// Whether the store need not be asked for the token, or the token was valid when it was last asked.
    pub(crate) fn is_familiar(&self, hash: &TokenHash) -> bool {
        let id = hash.id();
        self.recall(&id).is_some() || self.valid_before.lock().contains(&id)
    }

    /// Whether the token is still valid. While the store is unavailable it counts as valid until it expires.
    pub(crate) async fn is_valid(&self, known: &KnownToken) -> bool {
        let expired = known.ends.is_some_and(|ends| ends <= Instant::now());
        !expired && !matches!(self.find(&known.hash).await, Ok(None))
    }

    /// Waits until the token is not valid any more. While the store is unavailable it counts as valid until it expires.
    pub(crate) async fn ended(&self, known: &KnownToken) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if !self.is_valid(known).await {
                return;
            }
            let pause = if self.remembered.lock().listening { LOOK_AGAIN } else { self.fresh };
            let look_again = Instant::now() + pause;
            tokio::select! {
                _ = changed.changed() => {}
                () = sleep_until(known.ends.map_or(look_again, |ends| ends.min(look_again))) => {}
            }
        }
    }

    /// Whether requests need a token. Once they do, a store that has lost its tokens changes nothing: only the operator
    /// lifts the requirement.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(crate) async fn is_required(&self) -> Result<bool, StoreError> {
        let (changes, required) = {
            let remembered = self.remembered.lock();
            (remembered.changes, remembered.required)
        };
        if let Some((required, until)) = required
            && Instant::now() < until
        {
            return Ok(required);
        }
        let required = self.note_requirement(self.store.token_requirement().await?).await;
        self.remember(changes, self.fresh, |remembered, until| remembered.required = Some((required, until)));
        Ok(required)
    }

    /// Waits until requests need a token.
    pub(crate) async fn required(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if matches!(self.is_required().await, Ok(true)) {
                return;
            }
            // An error of the watch means that nothing changes any more.
            drop(timeout(LOOK_AGAIN, changed.changed()).await);
        }
    }

    /// Takes the store's answer, and logs what changes with it. A store that has lost what it knew of tokens (`FLUSHALL`, an older copy) is made
    /// to require them again: else a server that starts on it later would be open.
    async fn note_requirement(&self, said: TokenRequirement) -> bool {
        let (before, was_open) = (self.required.load(Ordering::Relaxed), self.was_open());
        let required = match said {
            TokenRequirement::Required => true,
            TokenRequirement::NeverSet => before,
            TokenRequirement::Lifted => false,
        };
        self.required.store(required, Ordering::Relaxed);
        self.was_open.store(!required, Ordering::Relaxed);
        match (before, required) {
            (false, true) if was_open => tracing::warn!("requests need a token from now on: the first one was made"),
            (true, false) => tracing::warn!("the store requires no tokens any more: `gristmill token disable` was run"),
            (true, true) if said == TokenRequirement::NeverSet => {
                tracing::warn!("the store has lost its tokens: requests still need one; restore them or make new ones");
                if let Err(error) = self.store.require_tokens().await {
                    tracing::debug!(%error, "the store does not know yet that requests need a token");
                }
            }
            _ => {}
        }
        required
    }

    /// Whether requests needed no token when the store was last asked with success.
    pub(crate) fn was_open(&self) -> bool {
        self.was_open.load(Ordering::Relaxed)
    }

    /// The token is no longer what it was, and neither are those that were made with it. The store also emits that, but the
    /// request that has changed it need not wait.
    pub(crate) fn forget(&self, id: &TokenId) {
        let mut remembered = self.remembered.lock();
        remembered.changes += 1;
        remembered.unknown.remove(id);
        remembered.tokens.retain(|other, (known, _)| other != id && known.makers.iter().all(|maker| maker.id != *id));
        remembered.required = None;
        self.changed.send_replace(());
    }

    /// The operator lifted the requirement of tokens.
    pub(crate) fn forget_requirement(&self) {
        let mut remembered = self.remembered.lock();
        remembered.changes += 1;
        remembered.required = None;
    }

    /// Listens to what the store emits, until `stop`.
    pub(crate) async fn listen(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.listen_once() => {}
            }
            self.start_anew(false);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }

    /// Listens until the store emits no more changes.
    async fn listen_once(&self) {
        match self.store.token_changes().await {
            Ok(mut changes) => {
                self.start_anew(true);
                // So that it is known, should the store be unavailable when the first request comes.
                if let Ok(said) = self.store.token_requirement().await {
                    self.note_requirement(said).await;
                }
                // Also while no request comes, so that the log says what changes, and a store that was emptied knows it for the next server.
                loop {
                    match timeout(FRESH, changes.recv()).await {
                        Ok(Some(id)) => self.forget(&id),
                        Ok(None) => break,
                        Err(_) => {}
                    }
                    self.is_required().await.ok();
                }
                tracing::warn!("the server receives no changes of tokens at the moment: every request asks the store");
            }
            Err(error) => tracing::debug!(%error, "no subscription to changes of tokens yet"),
        }
    }

    fn start_anew(&self, listening: bool) {
        let mut remembered = self.remembered.lock();
        *remembered = Remembered { listening, changes: remembered.changes + 1, ..Remembered::default() };
        self.changed.send_replace(());
    }

    /// What is remembered of the token, also that there is none.
    fn recall(&self, id: &TokenId) -> Option<Option<Arc<KnownToken>>> {
        let (remembered, now) = (self.remembered.lock(), Instant::now());
        match remembered.tokens.get(id) {
            Some((known, until)) => (now < *until).then(|| Some(known.clone())),
            None => remembered.unknown.get(id).filter(|until| now < **until).map(|_| None),
        }
    }

    async fn ask(&self, id: TokenId) -> Result<Option<Arc<KnownToken>>, StoreError> {
        // The semaphore is never closed.
        let _permit = self.questions.acquire().await;
        let changes = self.remembered.lock().changes;
        let known = self.ask_with_makers(&id).await?.map(Arc::new);
        self.note_valid(&id, known.is_some());
        let Some(known) = known else {
            self.remember(changes, self.fresh, |remembered, until| {
                remembered.tokens.remove(&id);
                insert(&mut remembered.unknown, id, until);
            });
            return Ok(None);
        };
        let remaining = known.ends.map_or(Duration::MAX, |ends| ends.saturating_duration_since(Instant::now()));
        self.remember(changes, remaining.min(self.fresh), |remembered, until| {
            insert(&mut remembered.tokens, id, (known.clone(), until));
        });
        Ok(Some(known))
    }

    fn note_valid(&self, id: &TokenId, is_valid: bool) {
        let mut valid_before = self.valid_before.lock();
        if !is_valid {
            valid_before.remove(id);
        } else if !valid_before.contains(id) {
            if valid_before.len() >= REMEMBERED {
                valid_before.clear();
            }
            valid_before.insert(id.clone());
        }
    }

    /// Returns `None` if there is no such token, or if one of those with which it was made is gone.
    async fn ask_with_makers(&self, id: &TokenId) -> Result<Option<KnownToken>, StoreError> {
        let ends =
            |expires_in: Option<Duration>| expires_in.and_then(|remaining| Instant::now().checked_add(remaining));
        let Some(FoundToken { token, hash, expires_in }) = self.store.find_token(id).await? else { return Ok(None) };
        let mut known = KnownToken { makers: Vec::new(), hash, ends: ends(expires_in), token };
        let mut next = known.token.made_by.clone();
        while let Some(maker) = next {
            let found = if known.makers.len() < MAKERS { self.store.find_token(&maker).await? } else { None };
            let Some(FoundToken { token, expires_in, .. }) = found else { return Ok(None) };
            known.ends = known.ends.into_iter().chain(ends(expires_in)).min();
            next = token.made_by.clone();
            known.makers.push(token);
        }
        Ok(Some(known))
    }

    /// Keeps an answer, unless something has changed since it was asked for.
    fn remember(&self, changes: u64, fresh: Duration, keep: impl FnOnce(&mut Remembered, Instant)) {
        let mut remembered = self.remembered.lock();
        if remembered.listening && remembered.changes == changes {
            keep(&mut remembered, Instant::now() + fresh);
        }
    }
}

/// Keeps at most [`REMEMBERED`].
fn insert<T>(remembered: &mut HashMap<TokenId, T>, id: TokenId, what: T) {
    if remembered.len() >= REMEMBERED {
        remembered.clear();
    }
    remembered.insert(id, what);
}
