//! Tokens: who may come in.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::time::Duration;

use gristmill_core::job::Name;
use gristmill_core::token::{
    NewToken, Rate, Scope, TOKENS_PER_TENANT, Throttle, Token, TokenHash, TokenLimits, TokenRequirement,
};
use gristmill_store::{FoundToken, TokenAdded};
use gristmill_store_tests::test_store::{TestStore, tenant};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

super::cases![
    a_token_is_found_as_it_was_added,
    adding_a_token_twice_changes_nothing,
    an_unknown_token_is_not_found,
    a_revoked_token_is_gone,
    tokens_can_be_required_where_there_is_none,
    a_tenants_tokens_are_listed_without_those_of_others,
    a_tenant_named_like_something_of_ours_has_tokens_of_its_own,
    tokens_are_listed_in_the_order_in_which_they_were_made,
    a_token_is_valid_until_the_moment_it_expires,
    an_expired_token_is_listed_and_counts_until_it_is_revoked,
    tokens_are_required_after_the_last_one_is_revoked,
    a_token_is_revoked_with_the_one_that_made_it,
    a_revoked_token_makes_no_token,
    limits_are_replaced_whole,
    limits_of_no_token_are_not_kept,
    the_event_stream_has_every_change,
    a_change_without_effect_emits_no_event,
    #[cfg(feature = "thorough")]
    a_slow_reader_of_events_sees_the_end,
    tokens_outlive_the_process,
    ; large:
    a_tenant_may_have_so_many_tokens_and_no_more,
];

fn other() -> Name {
    "other".parse().unwrap()
}

fn new(text: &str) -> NewToken {
    NewToken {
        hash: TokenHash::of(text),
        tenant: Some(tenant()),
        scopes: BTreeSet::from([Scope::Push, Scope::Read]),
        description: "for ü".into(),
        limits: TokenLimits::default(),
        expires_in: None,
        made_by: None,
    }
}

fn some(n: u32) -> NonZero<u32> {
    NonZero::new(n).unwrap()
}

fn limits() -> TokenLimits {
    let requests = Some(Rate { per_second: some(5), burst: some(7) });
    TokenLimits { requests, throttle: Some(Throttle { read: 1, write: 0, interval_s: some(60) }) }
}

async fn add(queue: &TestStore, token: &NewToken) -> Token {
    match queue.store.add_token(token).await.unwrap() {
        TokenAdded::Added(token) => token,
        answer => panic!("{answer:?}"),
    }
}

async fn find(queue: &TestStore, text: &str) -> Option<FoundToken> {
    queue.store.find_token(&TokenHash::of(text).id()).await.unwrap()
}

async fn listed(queue: &TestStore, tenant: Option<&Name>) -> Vec<Token> {
    queue.store.tokens(tenant).await.unwrap()
}

async fn a_token_is_found_as_it_was_added(queue: TestStore) {
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::NeverSet);
    let full = NewToken { limits: limits(), expires_in: Some(Duration::from_secs(60)), ..new("a") };
    let operator = NewToken { tenant: None, scopes: BTreeSet::new(), description: String::new(), ..new("b") };
    for (text, token) in [("a", &full), ("b", &operator)] {
        let added = add(&queue, token).await;
        assert_eq!(added, token.stored_at(queue.now()));
        let found = find(&queue, text).await.unwrap();
        assert_eq!(found.token, added);
        assert!(found.hash.is(&token.hash) && !found.hash.is(&TokenHash::of("c")));
        assert_eq!(found.expires_in, token.expires_in);
    }
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Required);
}

async fn adding_a_token_twice_changes_nothing(queue: TestStore) {
    let first = add(&queue, &new("a")).await;
    let again = NewToken { tenant: None, scopes: Scope::ALL.into(), limits: limits(), ..new("a") };
    assert_eq!(queue.store.add_token(&again).await.unwrap(), TokenAdded::Exists);
    assert_eq!(find(&queue, "a").await.unwrap().token, first);
    assert_eq!(listed(&queue, None).await, [first]);
}

async fn an_unknown_token_is_not_found(queue: TestStore) {
    add(&queue, &new("a")).await;
    for text in ["", "A", "b", "a "] {
        assert!(find(&queue, text).await.is_none(), "{text}");
    }
}

async fn tokens_can_be_required_where_there_is_none(queue: TestStore) {
    queue.store.require_tokens().await.unwrap();
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Required);
    assert!(queue.store.lift_token_requirement().await.unwrap());
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Lifted);
}

async fn a_revoked_token_is_gone(queue: TestStore) {
    let (a, b) = (add(&queue, &NewToken { limits: limits(), ..new("a") }).await, add(&queue, &new("b")).await);
    assert!(queue.store.revoke_token(&a.id).await.unwrap());
    assert!(!queue.store.revoke_token(&a.id).await.unwrap());
    assert!(find(&queue, "a").await.is_none());
    assert_eq!(listed(&queue, Some(&tenant())).await, std::slice::from_ref(&b));
    // The same text may become a token again, of which the old limits are not true.
    assert_eq!(add(&queue, &new("a")).await.limits, TokenLimits::default());
    assert!(queue.store.revoke_token(&a.id).await.unwrap() && queue.store.revoke_token(&b.id).await.unwrap());
    assert!(listed(&queue, None).await.is_empty());
}

async fn a_tenants_tokens_are_listed_without_those_of_others(queue: TestStore) {
    let mine = add(&queue, &new("a")).await;
    let theirs = add(&queue, &NewToken { tenant: Some(other()), ..new("b") }).await;
    let operators = add(&queue, &NewToken { tenant: None, ..new("c") }).await;
    assert_eq!(listed(&queue, Some(&tenant())).await, std::slice::from_ref(&mine));
    assert_eq!(listed(&queue, Some(&other())).await, std::slice::from_ref(&theirs));
    assert!(listed(&queue, Some(&"nobody".parse().unwrap())).await.is_empty());
    let mut all = [mine, theirs, operators];
    all.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(listed(&queue, None).await, all);
}

async fn a_tenant_named_like_something_of_ours_has_tokens_of_its_own(queue: TestStore) {
    add(&queue, &NewToken { tenant: None, ..new("a") }).await;
    for name in ["operators", "all", "limits", "tokens", "null"] {
        let tenant: Name = name.parse().unwrap();
        assert!(listed(&queue, Some(&tenant)).await.is_empty(), "{name}");
        let token = add(&queue, &NewToken { tenant: Some(tenant.clone()), ..new(name) }).await;
        assert_eq!(listed(&queue, Some(&tenant)).await, [token], "{name}");
    }
    assert!(queue.store.tenants().await.unwrap().is_empty(), "a token makes no tenant");
}

async fn tokens_are_listed_in_the_order_in_which_they_were_made(queue: TestStore) {
    let mut made = Vec::new();
    for n in 0..20 {
        made.push(add(&queue, &new(&format!("t{n}"))).await);
        queue.pass(1);
    }
    assert_eq!(listed(&queue, Some(&tenant())).await, made);
    assert_eq!(listed(&queue, None).await, made);
}

async fn a_token_is_valid_until_the_moment_it_expires(queue: TestStore) {
    add(&queue, &NewToken { expires_in: Some(Duration::from_millis(10)), ..new("a") }).await;
    queue.pass(9);
    assert_eq!(find(&queue, "a").await.unwrap().expires_in, Some(Duration::from_millis(1)));
    queue.pass(1);
    assert!(find(&queue, "a").await.is_none());
}

async fn an_expired_token_is_listed_and_counts_until_it_is_revoked(queue: TestStore) {
    let token = add(&queue, &NewToken { expires_in: Some(Duration::from_millis(10)), ..new("a") }).await;
    queue.pass(86_400_000);
    assert_eq!(listed(&queue, Some(&tenant())).await, std::slice::from_ref(&token));
    assert!(!queue.store.lift_token_requirement().await.unwrap());
    assert!(queue.store.revoke_token(&token.id).await.unwrap());
}

async fn tokens_are_required_after_the_last_one_is_revoked(mut queue: TestStore) {
    assert!(queue.store.lift_token_requirement().await.unwrap(), "of a store that never had one");
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Lifted);
    let token = add(&queue, &new("a")).await;
    assert!(!queue.store.lift_token_requirement().await.unwrap(), "not while there is one");
    assert!(queue.store.revoke_token(&token.id).await.unwrap());
    queue.reopen().await;
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Required);
    assert!(queue.store.lift_token_requirement().await.unwrap());
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Lifted);
    add(&queue, &new("b")).await;
    assert_eq!(queue.store.token_requirement().await.unwrap(), TokenRequirement::Required);
}

async fn a_token_is_revoked_with_the_one_that_made_it(queue: TestStore) {
    let made_by = |text: &str, maker: &Token| NewToken { made_by: Some(maker.id.clone()), ..new(text) };
    let operator = add(&queue, &NewToken { tenant: None, ..new("operator") }).await;
    let maker = add(&queue, &made_by("maker", &operator)).await;
    let child = add(&queue, &NewToken { tenant: Some(other()), ..made_by("child", &maker) }).await;
    let sibling = add(&queue, &made_by("sibling", &operator)).await;
    let unrelated = add(&queue, &new("unrelated")).await;
    assert_eq!(find(&queue, "child").await.unwrap().token.made_by, Some(maker.id.clone()));
    let mut changes = queue.token_changes().await;
    assert!(queue.store.revoke_token(&maker.id).await.unwrap());
    let mut heard = BTreeSet::new();
    while heard.len() < 2 {
        heard.insert(timeout(SOON, changes.recv()).await.unwrap().unwrap());
    }
    assert_eq!(heard, BTreeSet::from([maker.id, child.id]));
    assert!(find(&queue, "maker").await.is_none() && find(&queue, "child").await.is_none());
    assert!(listed(&queue, Some(&other())).await.is_empty());
    let mut left = [operator, sibling, unrelated];
    left.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(listed(&queue, None).await, left);
}

async fn a_revoked_token_makes_no_token(queue: TestStore) {
    let maker = add(&queue, &new("maker")).await;
    queue.store.revoke_token(&maker.id).await.unwrap();
    let child = NewToken { made_by: Some(maker.id), ..new("child") };
    assert_eq!(queue.store.add_token(&child).await.unwrap(), TokenAdded::MakerGone);
    assert!(find(&queue, "child").await.is_none());
}

async fn limits_are_replaced_whole(queue: TestStore) {
    let token = add(&queue, &NewToken { limits: limits(), ..new("a") }).await;
    let fewer = TokenLimits { throttle: None, ..limits() };
    for limits in [fewer, TokenLimits::default(), limits()] {
        assert!(queue.store.set_token_limits(&token.id, limits).await.unwrap());
        assert_eq!(find(&queue, "a").await.unwrap().token, Token { limits, ..token.clone() });
        assert_eq!(listed(&queue, None).await, [Token { limits, ..token.clone() }]);
    }
}

async fn limits_of_no_token_are_not_kept(queue: TestStore) {
    let id = TokenHash::of("a").id();
    assert!(!queue.store.set_token_limits(&id, limits()).await.unwrap());
    assert_eq!(add(&queue, &new("a")).await.limits, TokenLimits::default());
}

async fn a_tenant_may_have_so_many_tokens_and_no_more(queue: TestStore) {
    for n in 0..TOKENS_PER_TENANT {
        add(&queue, &new(&format!("t{n}"))).await;
    }
    assert_eq!(queue.store.add_token(&new("more")).await.unwrap(), TokenAdded::TooMany);
    assert_eq!(listed(&queue, Some(&tenant())).await.len(), TOKENS_PER_TENANT);
    assert!(find(&queue, "more").await.is_none());
    add(&queue, &NewToken { tenant: Some(other()), ..new("others") }).await;
    add(&queue, &NewToken { tenant: None, ..new("operator") }).await;
    assert_eq!(listed(&queue, None).await.len(), TOKENS_PER_TENANT + 2);
    assert!(queue.store.revoke_token(&TokenHash::of("t7").id()).await.unwrap());
    add(&queue, &new("more")).await;
}

async fn the_event_stream_has_every_change(queue: TestStore) {
    let mut listeners = [queue.token_changes().await, queue.token_changes().await];
    let (a, b) = (add(&queue, &new("a")).await, add(&queue, &NewToken { tenant: None, ..new("b") }).await);
    queue.store.set_token_limits(&b.id, limits()).await.unwrap();
    queue.store.revoke_token(&a.id).await.unwrap();
    for changes in &mut listeners {
        for id in [&a.id, &b.id, &b.id, &a.id] {
            assert_eq!(timeout(SOON, changes.recv()).await.unwrap().as_ref(), Some(id));
        }
    }
}

async fn a_change_without_effect_emits_no_event(queue: TestStore) {
    let a = add(&queue, &new("a")).await;
    let mut changes = queue.token_changes().await;
    queue.store.add_token(&new("a")).await.unwrap();
    queue.store.revoke_token(&TokenHash::of("nobody").id()).await.unwrap();
    queue.store.set_token_limits(&TokenHash::of("nobody").id(), limits()).await.unwrap();
    queue.store.revoke_token(&a.id).await.unwrap();
    assert_eq!(timeout(SOON, changes.recv()).await.unwrap(), Some(a.id));
    assert!(changes.try_recv().is_err());
}

async fn a_slow_reader_of_events_sees_the_end(queue: TestStore) {
    let mut changes = queue.token_changes().await;
    let token = add(&queue, &new("a")).await;
    // More is said than may wait; what could not be said must not be taken for silence.
    for _ in 0..1100 {
        queue.store.set_token_limits(&token.id, limits()).await.unwrap();
    }
    let heard = async { while changes.recv().await.is_some() {} };
    timeout(SOON, heard).await.expect("the end of it");
}

async fn tokens_outlive_the_process(mut queue: TestStore) {
    let token = add(&queue, &NewToken { limits: limits(), ..new("a") }).await;
    queue.reopen().await;
    assert_eq!(listed(&queue, None).await, [token]);
}
