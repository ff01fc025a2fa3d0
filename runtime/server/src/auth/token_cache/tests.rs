use std::net::IpAddr;

use super::*;
use crate::auth::Auth;
use crate::problem::Code;
use crate::settings::HttpServerSettings;
use gristmill_core::token::{NewToken, TokenLimits};
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::{TokenAdded, TokenLookup, Tokens};

const LONG: Duration = Duration::from_secs(3600);

async fn token_cache() -> (EmbeddedStore, Arc<TokenCache>) {
    let store = EmbeddedStore::in_memory().await.unwrap();
    let token_cache = TokenCache::that_remembers_for(LONG, Arc::new(store.clone()));
    (store, Arc::new(token_cache))
}

async fn add(store: &EmbeddedStore, text: &str) -> TokenId {
    add_by(store, text, None).await
}

async fn add_by(store: &EmbeddedStore, text: &str, made_by: Option<TokenId>) -> TokenId {
    let new = new(text, made_by);
    assert!(matches!(store.add_token(&new).await.unwrap(), TokenAdded::Added(_)));
    new.hash.id()
}

fn new(text: &str, made_by: Option<TokenId>) -> NewToken {
    let (hash, description, limits) = (TokenHash::of(text), String::new(), TokenLimits::default());
    NewToken { hash, tenant: None, scopes: [].into(), description, limits, expires_in: None, made_by }
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
async fn nothing_is_remembered_while_the_store_emits_no_changes() {
    let (store, token_cache) = token_cache().await;
    let id = add(&store, "a").await;
    assert!(knows(&token_cache, "a").await && token_cache.is_required().await.unwrap());
    store.revoke_token(&id).await.unwrap();
    assert!(!knows(&token_cache, "a").await && token_cache.is_required().await.unwrap());
    assert!(store.lift_token_requirement().await.unwrap());
    assert!(!token_cache.is_required().await.unwrap());
}

#[tokio::test]
async fn what_is_remembered_is_forgotten_with_the_change() {
    let (store, token_cache) = token_cache().await;
    let stop = CancellationToken::new();
    let listening = tokio::spawn(token_cache.clone().listen(stop.clone()));
    until("the cache to listen", async || token_cache.remembered.lock().listening).await;
    assert!(!knows(&token_cache, "a").await && !token_cache.is_required().await.unwrap());
    let id = add(&store, "a").await;
    until("the token to be known", async || knows(&token_cache, "a").await && token_cache.is_required().await.unwrap())
        .await;
    // For an hour. If the change was received in between, the next call remembers it.
    let remembered = async || knows(&token_cache, "a").await && token_cache.remembered.lock().tokens.contains_key(&id);
    until("the token to be remembered", remembered).await;
    store.revoke_token(&id).await.unwrap();
    until("the token to be gone", async || !knows(&token_cache, "a").await).await;
    assert!(token_cache.is_required().await.unwrap(), "the end of the last token opens no server");
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
    token_cache.remember(before, LONG, |remembered, until| remembered.required = Some((true, until)));
    assert!(token_cache.remembered.lock().required.is_none());
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

#[tokio::test]
async fn a_store_that_lost_its_tokens_opens_no_server() {
    use TokenRequirement::{Lifted, NeverSet, Required};
    let store = Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let token_cache = TokenCache::new(store.clone());
    for (stored, required) in
        [(NeverSet, false), (Required, true), (NeverSet, true), (Lifted, false), (NeverSet, false)]
    {
        assert_eq!(token_cache.note_requirement(stored).await, required, "{stored:?}");
        assert_eq!(token_cache.was_open(), !required, "{stored:?}");
        if (stored, required) == (NeverSet, true) {
            assert_eq!(
                store.token_requirement().await.unwrap(),
                Required,
                "the requirement is sent to the store again"
            );
        }
    }
}

#[tokio::test]
async fn a_token_ends_with_each_of_those_with_which_it_was_made() {
    for revoked in ["operator", "maker", "child"] {
        let (store, token_cache) = token_cache().await;
        let operator = add(&store, "operator").await;
        let maker = add_by(&store, "maker", Some(operator)).await;
        add_by(&store, "child", Some(maker)).await;
        token_cache.start_anew(true);
        let known = token_cache.find(&TokenHash::of("child")).await.unwrap().unwrap();
        assert_eq!(known.makers.len(), 2);
        let id = TokenHash::of(revoked).id();
        store.revoke_token(&id).await.unwrap();
        token_cache.forget(&id);
        assert!(!knows(&token_cache, "child").await, "{revoked}");
        tokio::time::timeout(Duration::from_secs(30), token_cache.ended(&known)).await.expect(revoked);
    }
}

#[tokio::test]
async fn what_goes_on_ends_when_its_token_expires() {
    let (store, token_cache) = token_cache().await;
    let expires_in = Some(Duration::from_millis(50));
    let new = NewToken { expires_in, ..new("a", None) };
    assert!(matches!(store.add_token(&new).await.unwrap(), TokenAdded::Added(_)));
    token_cache.start_anew(true);
    // It may have expired already.
    if let Some(known) = token_cache.find(&TokenHash::of("a")).await.unwrap() {
        tokio::time::timeout(Duration::from_secs(30), token_cache.ended(&known)).await.expect("the end");
    }
}

#[tokio::test]
async fn an_address_that_guesses_has_to_wait_and_valid_tokens_from_it_do_not() {
    let (store, _) = token_cache().await;
    add(&store, "valid").await;
    let settings = HttpServerSettings::default();
    let auth = Auth::new(Arc::new(store.clone()), TokenHash::of("secret"), true, &settings);
    let ask = async |text: &str, from: IpAddr| auth.find_token(&TokenHash::of(text), from).await;
    let (here, there) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    assert!(ask("valid", here).await.unwrap().is_some());
    let mut wrong = 0;
    let refused = loop {
        match ask(&wrong.to_string(), here).await {
            Ok(found) => assert!(found.is_none()),
            Err(problem) => break problem,
        }
        wrong += 1;
        assert!(wrong < 100_000, "the address has not to wait");
    };
    assert!(wrong >= 100 && refused.code == Code::RateLimited && refused.retry_after.is_some(), "{wrong}");
    assert!(ask("valid", here).await.unwrap().is_some(), "a proxy asks for others, too");
    assert!(ask("wrong", there).await.unwrap().is_none(), "another address does not wait");
}

#[tokio::test]
async fn a_wrong_token_that_comes_again_and_again_asks_the_store_once_and_is_no_guess() {
    let (store, _) = token_cache().await;
    let settings = HttpServerSettings::default();
    let mut auth = Auth::new(Arc::new(store.clone()), TokenHash::of("secret"), true, &settings);
    auth.token_cache = Arc::new(TokenCache::that_remembers_for(LONG, Arc::new(store.clone())));
    let stop = CancellationToken::new();
    let listening = tokio::spawn(auth.token_cache.clone().listen(stop.clone()));
    until("the subscription", async || auth.token_cache.remembered.lock().listening).await;
    let (hash, here) = (TokenHash::of("revoked"), IpAddr::from([192, 0, 2, 1]));
    for _ in 0..1000 {
        assert!(auth.find_token(&hash, here).await.unwrap().is_none());
    }
    assert!(auth.token_cache.is_familiar(&hash));
    add(&store, "revoked").await;
    until("the new token to be known", async || auth.find_token(&hash, here).await.unwrap().is_some()).await;
    stop.cancel();
    listening.await.unwrap();
}
