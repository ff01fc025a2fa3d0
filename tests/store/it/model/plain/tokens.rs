//! The rules of tokens.

use std::collections::BTreeSet;

use gristmill_core::token::{NewToken, TokenId, TokenLimits, TokenRequirement};
use gristmill_store::TokenAdded;

use super::Model;

impl Model {
    pub(in crate::model) fn add_token(&mut self, new: &NewToken) -> TokenAdded {
        let token = new.stored_at(self.now);
        if self.tokens.contains_key(&token.id) {
            return TokenAdded::Exists;
        }
        if token.made_by.as_ref().is_some_and(|maker| !self.tokens.contains_key(maker)) {
            return TokenAdded::MakerGone;
        }
        self.token_requirement = Some(TokenRequirement::Required);
        self.tokens.insert(token.id.clone(), token.clone());
        TokenAdded::Added(token)
    }

    /// The tokens that are gone: it, and those that were made with it, directly or through others.
    pub(in crate::model) fn revoke_token(&mut self, id: &TokenId) -> BTreeSet<TokenId> {
        let mut gone: BTreeSet<TokenId> = self.tokens.remove(id).map(|token| token.id).into_iter().collect();
        let made_with_it = |maker: &Option<TokenId>| maker.as_ref() == Some(id);
        let made = self.tokens.values().filter(|token| made_with_it(&token.made_by)).map(|token| token.id.clone());
        for id in made.collect::<Vec<_>>() {
            gone.extend(self.revoke_token(&id));
        }
        gone
    }

    pub(in crate::model) fn set_token_limits(&mut self, id: &TokenId, limits: TokenLimits) -> bool {
        self.tokens.get_mut(id).map(|token| token.limits = limits).is_some()
    }

    pub(in crate::model) fn lift_token_requirement(&mut self) -> bool {
        let lifted = self.tokens.is_empty();
        if lifted {
            self.token_requirement = Some(TokenRequirement::Lifted);
        }
        lifted
    }
}
