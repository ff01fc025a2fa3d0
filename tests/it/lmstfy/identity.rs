//! Tokens and pools.

use gristmill::store::TokenAdded;
use gristmill::token::{NewToken, Scope, TokenHash, TokenLimits};
use gristmill_tests::http_client::Answer;
use gristmill_tests::test_runner::TestRunner;
use hyper::Request;
use serde_json::json;

use super::admin::{token, token_with};
use super::{Client, error, runner};

on_both_stores! {
    without_tokens_every_request_is_allowed
    with_tokens_only_their_holders_are_let_in
    a_token_comes_in_a_header_or_in_the_query
    a_token_may_name_the_default_pool_and_no_other
    a_token_is_valid_for_its_namespace_only
    a_revoked_token_is_refused
    a_token_may_do_what_its_scopes_say
    the_scope_work_ends_only_jobs_that_the_token_holds
    the_admin_api_makes_tokens_with_the_scopes_that_it_is_asked_for
    a_token_of_the_admin_api_may_do_what_lmstfys_tokens_may
}

fn shown(answer: &Answer) -> (u16, String) {
    (answer.status, error(answer))
}

async fn without_tokens_every_request_is_allowed(runner: TestRunner) {
    let client = Client::of(&runner);
    client.publish("q", "").await;
    client.with_token("any at all").publish("q", "").await;
    assert_eq!(client.size("q").await, 2);
}

async fn with_tokens_only_their_holders_are_let_in(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let client = Client::of(&runner);
    let token = token(&admin, "ns").await;
    for path in ["q", "q/peek", "q/size", "q/job/x", "q/deadletter", "q/deadletter/size"] {
        assert_eq!(shown(&client.get(path).await), (401, "token not found".into()), "{path}");
        assert_eq!(shown(&client.with_token("wrong").get(path).await), (401, "invalid token".into()), "{path}");
    }
    client.with_token(&token).publish("q", "").await;
}

async fn a_token_comes_in_a_header_or_in_the_query(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let client = Client::of(&runner);
    let token = token(&admin, "ns").await;
    assert_eq!(client.put(&format!("q?token={token}"), b"").await.status, 201);
    let answer = client.with_token("wrong").put(&format!("q?token={token}"), b"").await;
    assert_eq!(answer.status, 401, "the header comes first");
}

async fn a_token_may_name_the_default_pool_and_no_other(runner: TestRunner) {
    let client = Client::of(&runner);
    assert_eq!(shown(&client.with_token("other:x").get("q").await), (404, "pool not found".into()));
    let admin = runner.lmstfy_admin();
    let token = token(&admin, "ns").await;
    client.with_token(&format!("default:{token}")).publish("q", "").await;
    assert_eq!(shown(&client.with_token(&format!("other:{token}")).get("q").await), (404, "pool not found".into()));
    assert_eq!(shown(&client.with_token("default:").get("q").await), (401, "token not found".into()));
}

async fn a_token_is_valid_for_its_namespace_only(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let client = Client::of(&runner);
    let token = token(&admin, "ns").await;
    assert_eq!(client.with_token(&token).get("q").await.status, 404);
    // lmstfy once let these in: it took namespace and token for one text.
    let (head, tail) = token.split_at(2);
    let confused = client.within(&format!("ns{head}")).with_token(tail);
    assert_eq!(shown(&confused.get("q").await), (401, "invalid token".into()));
    assert_eq!(shown(&client.within("other").with_token(&token).get("q").await), (401, "invalid token".into()));
}

async fn a_revoked_token_is_refused(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let (kept, revoked) = (token(&admin, "ns").await, token(&admin, "ns").await);
    let client = Client::of(&runner).with_token(&revoked);
    client.publish("q", "").await;
    assert_eq!(admin.send(Request::delete(format!("/token/ns/{revoked}")), Vec::new()).await.status, 204);
    assert_eq!(shown(&client.get("q").await), (401, "invalid token".into()));
    client.with_token(&kept).publish("q", "").await;
}

async fn a_token_may_do_what_its_scopes_say(runner: TestRunner) {
    for scope in [Scope::Push, Scope::Work, Scope::Read] {
        let new = NewToken {
            hash: TokenHash::of(scope.as_str()),
            tenant: Some(super::tenant()),
            scopes: [scope].into(),
            description: String::new(),
            limits: TokenLimits::default(),
            expires_in: None,
            made_by: None,
        };
        assert!(matches!(runner.store.add_token(&new).await.unwrap(), TokenAdded::Added(_)));
    }
    let client = Client::of(&runner);
    let [push, work, read] = ["push", "work", "read"].map(|scope| client.with_token(scope));
    let lacks = |scope: &str, has: &str| (403, format!("the token lacks the scope `{scope}`: it has [{has}]"));
    let id = push.publish("q", "").await;
    assert_eq!(shown(&work.put("q", b"").await), lacks("push", "work"));
    assert_eq!(shown(&push.get("q").await), lacks("work", "push"));
    assert_eq!(shown(&work.get("q/size").await), lacks("read", "work"));
    assert_eq!(shown(&read.delete(&format!("q/job/{id}")).await), lacks("work", "read"));
    assert_eq!(shown(&push.put(&format!("q/job/{id}"), b"").await), lacks("work", "push"));
    // What may undo another client's work needs a scope of its own.
    for (client, has) in [(&push, "push"), (&work, "work"), (&read, "read")] {
        assert_eq!(shown(&client.delete("q").await), lacks("lmstfy", has));
        assert_eq!(shown(&client.put("q/deadletter", b"").await), lacks("lmstfy", has));
        assert_eq!(shown(&client.delete("q/deadletter").await), lacks("lmstfy", has));
    }
    assert_eq!(read.get("q/peek").await.status, 200);
    assert_eq!(work.get("q").await.status, 200);
    assert_eq!(work.delete(&format!("q/job/{id}")).await.status, 204);
}

async fn the_scope_work_ends_only_jobs_that_the_token_holds(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let one = Client::of(&runner).with_token(&token_with(&admin, "ns", "&scope=push,work,read").await);
    let other = one.with_token(&token_with(&admin, "ns", "&scope=push,work,read").await);
    let refused = (403, "the client does not hold the job, and its token lacks the scope `lmstfy`".to_owned());
    let (delayed, ready) = (one.publish("q?delay=3600", "").await, one.publish("q", "").await);
    for id in [&delayed, &ready] {
        assert_eq!(shown(&one.delete(&format!("q/job/{id}")).await), refused);
        assert_eq!(shown(&one.put(&format!("q/job/{id}"), b"").await), refused, "nor in exchange for another job");
    }
    assert_eq!(one.size("q").await, 1, "nothing was published");
    let held = one.consume("q?ttr=600").await["job_id"].as_str().unwrap().to_owned();
    assert_eq!(shown(&other.delete(&format!("q/job/{held}")).await), refused, "another token's");
    assert_eq!(one.delete(&format!("q/job/{held}")).await.status, 204);
    assert!(super::view(&runner, &held).await.is_none());
    let dead = {
        let id = one.publish("q?tries=1", "").await;
        one.consume("q?ttr=0").await;
        one.until_dead("q", 1).await;
        id
    };
    // It had that job: a late ack is no error, and changes nothing.
    assert_eq!(one.delete(&format!("q/job/{dead}")).await.status, 204);
    assert_eq!(shown(&other.delete(&format!("q/job/{dead}")).await), refused);
    for id in [&delayed, &dead] {
        assert!(super::view(&runner, id).await.is_some());
    }
}

async fn a_token_of_the_admin_api_may_do_what_lmstfys_tokens_may(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let one = Client::of(&runner).with_token(&token(&admin, "ns").await);
    let other = one.with_token(&token(&admin, "ns").await);
    let delayed = one.publish("q?delay=3600", "").await;
    assert_eq!(other.put(&format!("q/job/{delayed}?delay=3600"), b"").await.status, 201, "a republish");
    assert!(super::view(&runner, &delayed).await.is_none());
    let held = one.publish("q?tries=1", "").await;
    assert_eq!(one.consume("q?ttr=600").await["job_id"], held);
    assert_eq!(other.delete(&format!("q/job/{held}")).await.status, 204);
    assert!(super::view(&runner, &held).await.is_none());
    for _ in 0..2 {
        one.publish("q?tries=1", "").await;
        one.consume("q?ttr=0").await;
    }
    one.until_dead("q", 2).await;
    assert_eq!(one.put("q/deadletter", b"").await.json(), json!({ "msg": "respawned", "count": 1 }));
    assert_eq!(one.delete("q/deadletter").await.status, 204);
    assert_eq!(one.delete("q").await.status, 204);
    // Under `/v1` it may do no more than a token with `push`, `work` and `read`.
    let store = &runner.store;
    let scopes = &store.tokens(Some(&super::tenant())).await.unwrap()[0].scopes;
    assert!(!scopes.contains(&Scope::Admin), "{scopes:?}");
}

async fn the_admin_api_makes_tokens_with_the_scopes_that_it_is_asked_for(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let make = async |scope: &str| {
        let request = Request::post(format!("/token/ns?description=d&scope={scope}"));
        admin.send(request, Vec::new()).await
    };
    assert_eq!(make("push,all").await.status, 400);
    let made = make("push,work,read,admin").await.json();
    let client = Client::of(&runner).with_token(made["token"].as_str().unwrap());
    let id = client.publish("q?delay=3600", "").await;
    assert_eq!(client.delete(&format!("q/job/{id}")).await.status, 204);
    assert_eq!(client.delete("q").await.status, 204);
}
