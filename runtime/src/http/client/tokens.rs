//! [`RemoteStore`]: who may come in, as requests. The server never sees the text of a token that is made here.

use async_trait::async_trait;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::http::problem::Code;
use crate::http::wire;
use crate::job::Name;
use crate::store::{StoreError, TokenAdded, Tokens};
use crate::token::{NewToken, Token, TokenId, TokenLimits};

#[async_trait]
impl Tokens for RemoteStore {
    async fn add_token(&self, token: &NewToken) -> Result<TokenAdded, StoreError> {
        const DOING: &str = "add a token";
        let question = Question::post(path(token.tenant.as_ref()), &wire::NewToken::from(token), DOING);
        match self.server.ask_if_known::<wire::NewTokenAnswer>(question).await? {
            Ok(answer) => Ok(TokenAdded::Added(answer.token.into())),
            Err(problem) if problem.code == Code::TokenExists => Ok(TokenAdded::Exists),
            Err(problem) if problem.code == Code::TooManyTokens => Ok(TokenAdded::TooMany),
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }

    async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError> {
        let wire::Tokens { tokens } = self.server.ask(Question::get(path(tenant), "list tokens")).await?;
        Ok(tokens.into_iter().map(Into::into).collect())
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let question = Question::delete(format!("/v1/tokens/{id}"), "revoke a token");
        let wire::Revoked { revoked } = self.server.ask(question).await?;
        Ok(revoked)
    }

    async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError> {
        const DOING: &str = "limit a token";
        let question = Question::put(format!("/v1/tokens/{id}/limits"), &limits, DOING);
        match self.server.ask_if_known::<TokenLimits>(question).await? {
            Ok(_) => Ok(true),
            Err(problem) if problem.code == Code::TokenUnknown => Ok(false),
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }
}

fn path(tenant: Option<&Name>) -> String {
    tenant.map_or_else(|| "/v1/tokens".into(), |tenant| format!("/v1/tenants/{tenant}/tokens"))
}
