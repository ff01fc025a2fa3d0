//! The tokens that this door knows: asked of the store, and remembered for as long as the store tells of changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use gristmill_core::token::{Token, TokenHash, TokenId};
use gristmill_store::{FoundToken, Store, StoreError};

/// How long an answer counts at most, whatever is told of changes: a connection can be dead for a while unnoticed.
const FRESH: Duration = Duration::from_secs(3);

/// Tokens that are remembered; with one more, all are forgotten.
const REMEMBERED: usize = 10_000;

/// Tokens that are asked for at once. Who guesses must not keep the store from its work.
const QUESTIONS: usize = 16;

/// How long to leave a store alone that takes no subscription.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Finds tokens by their texts.
#[derive(Debug)]
pub(crate) struct TokenCache {
    store: Arc<dyn Store>,
    fresh: Duration,
    remembered: Mutex<Remembered>,
    had_none: AtomicBool,
    questions: Semaphore,
}

#[derive(Debug, Default)]
struct Remembered {
    /// The store tells of changes. Only then is anything remembered.
    listening: bool,
    /// Grows with every change: an answer to a question that was asked before it may be wrong.
    changes: u64,
    tokens: HashMap<TokenId, (Arc<Known>, Instant)>,
    any: Option<(bool, Instant)>,
}

#[derive(Debug)]
struct Known {
    token: Arc<Token>,
    hash: TokenHash,
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
            had_none: AtomicBool::default(),
            questions: Semaphore::new(QUESTIONS),
        }
    }

    /// The token with this text, if it lets anybody in.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(crate) async fn find(&self, hash: &TokenHash) -> Result<Option<Arc<Token>>, StoreError> {
        let id = hash.id();
        let known = match self.recall(&id) {
            Some(known) => Some(known),
            None => self.ask(id).await?,
        };
        Ok(known.filter(|known| known.hash.is(hash)).map(|known| known.token.clone()))
    }

    /// Whether there is any token.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(crate) async fn has_any(&self) -> Result<bool, StoreError> {
        let (changes, any) = {
            let remembered = self.remembered.lock();
            (remembered.changes, remembered.any)
        };
        if let Some((any, until)) = any
            && Instant::now() < until
        {
            return Ok(any);
        }
        let any = self.store.has_tokens().await?;
        self.had_none.store(!any, Ordering::Relaxed);
        self.remember(changes, self.fresh, |remembered, until| remembered.any = Some((any, until)));
        Ok(any)
    }

    /// Whether there were no tokens when the store was last asked with success.
    pub(crate) fn had_none(&self) -> bool {
        self.had_none.load(Ordering::Relaxed)
    }

    /// The token is no longer what it was. The store tells of that too, but whoever has changed it need not wait.
    pub(crate) fn forget(&self, id: &TokenId) {
        let mut remembered = self.remembered.lock();
        remembered.changes += 1;
        remembered.tokens.remove(id);
        remembered.any = None;
    }

    /// Listens to what the store tells, until `stop`.
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

    /// Until the store is not heard any more.
    async fn listen_once(&self) {
        match self.store.token_changes().await {
            Ok(mut changes) => {
                self.start_anew(true);
                // So that it is known, should the store be away by the time that somebody asks.
                if let Ok(any) = self.store.has_tokens().await {
                    self.had_none.store(!any, Ordering::Relaxed);
                }
                while let Some(id) = changes.recv().await {
                    self.forget(&id);
                }
                tracing::warn!("changes of tokens are not heard for the moment: every request asks the store");
            }
            Err(error) => tracing::debug!(%error, "no subscription to changes of tokens yet"),
        }
    }

    fn start_anew(&self, listening: bool) {
        let mut remembered = self.remembered.lock();
        *remembered = Remembered { listening, changes: remembered.changes + 1, ..Remembered::default() };
    }

    fn recall(&self, id: &TokenId) -> Option<Arc<Known>> {
        let remembered = self.remembered.lock();
        let (known, until) = remembered.tokens.get(id)?;
        (Instant::now() < *until).then(|| known.clone())
    }

    async fn ask(&self, id: TokenId) -> Result<Option<Arc<Known>>, StoreError> {
        // Nobody closes it.
        let _turn = self.questions.acquire().await;
        let changes = self.remembered.lock().changes;
        let Some(FoundToken { token, hash, expires_in }) = self.store.find_token(&id).await? else { return Ok(None) };
        let known = Arc::new(Known { token: Arc::new(token), hash });
        let fresh = expires_in.unwrap_or(Duration::MAX).min(self.fresh);
        self.remember(changes, fresh, |remembered, until| {
            if remembered.tokens.len() >= REMEMBERED {
                remembered.tokens.clear();
            }
            remembered.tokens.insert(id, (known.clone(), until));
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::token::{NewToken, TokenLimits};
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::{TokenAdded, Tokens};

    const LONG: Duration = Duration::from_secs(3600);

    async fn token_cache() -> (EmbeddedStore, Arc<TokenCache>) {
        let store = EmbeddedStore::in_memory().await.unwrap();
        let token_cache = TokenCache::that_remembers_for(LONG, Arc::new(store.clone()));
        (store, Arc::new(token_cache))
    }

    async fn add(store: &EmbeddedStore, text: &str) -> TokenId {
        let hash = TokenHash::of(text);
        let (description, limits) = (String::new(), TokenLimits::default());
        let new = NewToken { hash, tenant: None, scopes: [].into(), description, limits, expires_in: None };
        assert!(matches!(store.add_token(&new).await.unwrap(), TokenAdded::Added(_)));
        hash.id()
    }

    async fn until(what: &str, mut probe: impl AsyncFnMut() -> bool) {
        let wait = async {
            while !probe().await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect(what);
    }

    async fn knows(token_cache: &TokenCache, text: &str) -> bool {
        token_cache.find(&TokenHash::of(text)).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn nothing_is_remembered_while_nobody_tells_of_changes() {
        let (store, token_cache) = token_cache().await;
        let id = add(&store, "a").await;
        assert!(knows(&token_cache, "a").await && token_cache.has_any().await.unwrap());
        store.revoke_token(&id).await.unwrap();
        assert!(!knows(&token_cache, "a").await && !token_cache.has_any().await.unwrap());
    }

    #[tokio::test]
    async fn what_is_remembered_is_forgotten_with_the_change() {
        let (store, token_cache) = token_cache().await;
        let stop = CancellationToken::new();
        let listening = tokio::spawn(token_cache.clone().listen(stop.clone()));
        until("somebody to listen", async || token_cache.remembered.lock().listening).await;
        assert!(!knows(&token_cache, "a").await && !token_cache.has_any().await.unwrap());
        let id = add(&store, "a").await;
        until("the token to be known", async || knows(&token_cache, "a").await && token_cache.has_any().await.unwrap())
            .await;
        // For an hour; unless the change was heard of in between, and then the next time.
        let remembered =
            async || knows(&token_cache, "a").await && token_cache.remembered.lock().tokens.contains_key(&id);
        until("the token to be remembered", remembered).await;
        store.revoke_token(&id).await.unwrap();
        until("the token to be gone", async || {
            !knows(&token_cache, "a").await && !token_cache.has_any().await.unwrap()
        })
        .await;
        stop.cancel();
        listening.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_that_a_change_overtook_is_not_remembered() {
        let (store, token_cache) = token_cache().await;
        let id = add(&store, "a").await;
        token_cache.start_anew(true);
        let before = token_cache.remembered.lock().changes;
        token_cache.forget(&id);
        token_cache.remember(before, LONG, |remembered, until| remembered.any = Some((true, until)));
        assert!(token_cache.remembered.lock().any.is_none());
    }

    #[tokio::test]
    async fn the_end_of_the_subscription_empties_the_memory() {
        let (store, token_cache) = token_cache().await;
        add(&store, "a").await;
        token_cache.start_anew(true);
        assert!(knows(&token_cache, "a").await && token_cache.remembered.lock().tokens.len() == 1);
        token_cache.start_anew(false);
        assert!(token_cache.remembered.lock().tokens.is_empty());
        assert!(knows(&token_cache, "a").await && token_cache.remembered.lock().tokens.is_empty());
    }

    #[tokio::test]
    async fn another_text_with_the_same_id_is_not_let_in() {
        let (store, token_cache) = token_cache().await;
        add(&store, "a").await;
        let mut bytes = *TokenHash::of("a").as_bytes();
        bytes[31] ^= 1;
        let forged = TokenHash::from_bytes(&bytes).unwrap();
        assert_eq!(forged.id(), TokenHash::of("a").id());
        assert!(token_cache.find(&forged).await.unwrap().is_none());
    }
}
