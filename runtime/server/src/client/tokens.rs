//! [`RemoteStore`]: tokens, by requests. The server never sees the text of a token that is made here.

use async_trait::async_trait;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::problem::Code;
use crate::wire;
use gristmill_core::job::Name;
use gristmill_core::token::{NewToken, Token, TokenId, TokenLimits};
use gristmill_store::{StoreError, TokenAdded, Tokens};

#[async_trait]
impl Tokens for RemoteStore {
    async fn add_token(&self, token: &NewToken) -> Result<TokenAdded, StoreError> {
        const DOING: &str = "add a token";
        let question = Question::post(path(token.tenant.as_ref()), &wire::NewToken::from(token), DOING);
        match self.server.ask_if_known::<wire::NewTokenAnswer>(question).await? {
            Ok(answer) => Ok(TokenAdded::Added(answer.token)),
            Err(problem) if problem.code == Code::TokenExists => Ok(TokenAdded::Exists),
            Err(problem) if problem.code == Code::TooManyTokens => Ok(TokenAdded::TooMany),
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }

    async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError> {
        let wire::Tokens { tokens } = self.server.ask(Question::get(path(tenant), "list tokens")).await?;
        Ok(tokens)
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let question = Question::delete(self.path_of_token(id).await?, "revoke a token");
        let wire::Revoked { revoked } = self.server.ask(question).await?;
        Ok(revoked)
    }

    async fn lift_token_requirement(&self) -> Result<bool, StoreError> {
        let question = Question::delete("/v1/tokens".into(), "lift the requirement of tokens");
        let wire::RequirementLifted { lifted } = self.server.ask(question).await?;
        Ok(lifted)
    }

    async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError> {
        let path = format!("{}/limits", self.path_of_token(id).await?);
        let question = Question::put(path, &limits, "limit a token");
        let limited: Option<TokenLimits> = self.server.ask_about(question, &[Code::TokenUnknown]).await?;
        Ok(limited.is_some())
    }
}

impl RemoteStore {
    /// An admin of one tenant reaches the tokens of that one, and no others.
    async fn path_of_token(&self, id: &TokenId) -> Result<String, StoreError> {
        Ok(format!("{}/{id}", path(self.own_tenant().await?.as_ref())))
    }
}

fn path(tenant: Option<&Name>) -> String {
    tenant.map_or_else(|| "/v1/tokens".into(), |tenant| format!("/v1/tenants/{tenant}/tokens"))
}

#[cfg(test)]
mod tests {
    use gristmill_store::prelude::*;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::tests::TestServer;
    use gristmill_core::token::{Scope, Throttle, TokenHash};

    fn tenant() -> Name {
        "acme".parse().unwrap()
    }

    fn token(text: &str) -> NewToken {
        NewToken {
            hash: TokenHash::of(text),
            tenant: Some(tenant()),
            scopes: [Scope::Read].into(),
            description: "d".into(),
            limits: TokenLimits::default(),
            expires_in: None,
            made_by: None,
        }
    }

    #[tokio::test]
    async fn a_request_with_a_token_may_name_any_host() {
        let tested = TestServer::start().await;
        let known = |host: &str, token: &str| format!("GET /v1 HTTP/1.1\r\nHost: {host}\r\nX-Token: {token}\r\n\r\n");
        assert_eq!(
            tested.raw(&known("mill.example", tested.server.secret())).await.0,
            421,
            "as long as there are no tokens"
        );
        tested.remote.add_token(&token("t")).await.unwrap();
        assert_eq!(tested.raw(&known("mill.example", "t")).await.0, 200);
        assert_eq!(tested.raw(&known("mill.example", tested.server.secret())).await.0, 200);
        assert_eq!(tested.raw(&known("localhost", "x")).await.0, 401);
    }

    #[tokio::test]
    async fn tokens_are_stored_as_they_were_made() {
        let tested = TestServer::start().await;
        let secret = Some(tested.server.secret().to_owned().into());
        let remote = RemoteStore::connect_with(tested.server.address(), secret).await.unwrap();
        let new = NewToken { expires_in: Some(Duration::from_secs(60)), ..token("a") };
        let TokenAdded::Added(added) = remote.add_token(&new).await.unwrap() else { panic!("it is new") };
        assert_eq!(remote.add_token(&new).await.unwrap(), TokenAdded::Exists);
        let found = tested.store.find_token(&added.id).await.unwrap().unwrap();
        assert!(found.hash.is(&new.hash));
        assert_eq!((&found.token, added.expires_at), (&added, Some(added.created_at.plus(Duration::from_secs(60)))));
        let operator = NewToken { tenant: None, scopes: Scope::ALL.into(), ..token("b") };
        remote.add_token(&operator).await.unwrap();
        assert_eq!(remote.tokens(None).await.unwrap(), tested.store.tokens(None).await.unwrap());
        assert_eq!(remote.tokens(Some(&tenant())).await.unwrap(), std::slice::from_ref(&added));

        let limits =
            TokenLimits { throttle: Some(Throttle { read: 1, write: 0, interval_s: NonZeroU32::MIN }), requests: None };
        assert!(remote.set_token_limits(&added.id, limits).await.unwrap());
        assert_eq!(tested.store.tokens(Some(&tenant())).await.unwrap()[0].limits, limits);
        assert!(remote.revoke_token(&added.id).await.unwrap() && !remote.revoke_token(&added.id).await.unwrap());
        assert!(!remote.set_token_limits(&added.id, limits).await.unwrap());

        // An admin of one tenant has the tokens of that one, and no others.
        for admin in [NewToken { scopes: [Scope::Admin].into(), ..token("admin") }, token("c")] {
            remote.add_token(&admin).await.unwrap();
        }
        let admin = RemoteStore::connect_with(tested.server.address(), Some("admin".to_owned().into())).await.unwrap();
        let [theirs, of_all] = ["c", "b"].map(|text| TokenHash::of(text).id());
        assert!(admin.set_token_limits(&theirs, limits).await.unwrap() && admin.revoke_token(&theirs).await.unwrap());
        assert!(!admin.set_token_limits(&of_all, limits).await.unwrap() && !admin.revoke_token(&of_all).await.unwrap());
        assert!(tested.store.find_token(&of_all).await.unwrap().is_some());

        // The refusal of a client without a token says how to name one.
        let error = tested.remote.job(&tenant(), &"j".parse().unwrap()).await.unwrap_err();
        let StoreError::Refused { source, .. } = error else { panic!("{error:?}") };
        assert!(source.to_string().contains("GRISTMILL_TOKEN"), "{source}");
    }
}
