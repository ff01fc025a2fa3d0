//! Tokens are kept in the home store only: who comes in says who they are before it matters where they live.

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::store::ShardedStore;
use crate::{FoundToken, StoreError, TokenAdded, TokenLookup, Tokens};
use gristmill_core::job::Name;
use gristmill_core::token::{NewToken, Token, TokenId, TokenLimits};

#[async_trait]
impl Tokens for ShardedStore {
    async fn add_token(&self, token: &NewToken) -> Result<TokenAdded, StoreError> {
        let home = self.home();
        home.ask(home.store.add_token(token)).await
    }

    async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError> {
        let home = self.home();
        home.ask(home.store.tokens(tenant)).await
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let home = self.home();
        home.ask(home.store.revoke_token(id)).await
    }

    async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError> {
        let home = self.home();
        home.ask(home.store.set_token_limits(id, limits)).await
    }
}

#[async_trait]
impl TokenLookup for ShardedStore {
    async fn find_token(&self, id: &TokenId) -> Result<Option<FoundToken>, StoreError> {
        let home = self.home();
        home.ask(home.store.find_token(id)).await
    }

    async fn has_tokens(&self) -> Result<bool, StoreError> {
        let home = self.home();
        home.ask(home.store.has_tokens()).await
    }

    async fn token_changes(&self) -> Result<mpsc::Receiver<TokenId>, StoreError> {
        let home = self.home();
        home.ask(home.store.token_changes()).await
    }
}
