//! The last changes and refusals, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

use super::AuditLine;
use super::request_facts::ClientKind;
use crate::problem::Code;
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::token::TokenId;

/// How many are kept, of all tenants together.
const KEPT: usize = 1000;

/// A change that needs the scope `admin`, or a refusal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Action {
    /// When the request came, by the server's clock.
    pub(crate) at_ms: Timestamp,
    /// Who sent it: a token by its description and id, an account, or `operator`. Empty: it is not known.
    pub(crate) actor: String,
    /// How the server identified the client.
    client: ClientKind,
    /// The token's id.
    token: Option<TokenId>,
    /// The tenant that the token is for. Null: all.
    tenant: Option<Name>,
    method: String,
    /// The route with the names of its parts.
    route: Option<String>,
    /// These parts, by name: what the request was about.
    object: BTreeMap<String, String>,
    /// What it made, by its id: a token or a bulk action.
    made: Option<String>,
    /// The status of the answer. Null: the client hung up before it.
    status: Option<u16>,
    /// The code of the problem.
    #[schemars(with = "Option<String>")]
    problem: Option<Code>,
}

impl Action {
    pub(super) fn new(line: &AuditLine, actor: String) -> Self {
        Self {
            at_ms: line.at_ms,
            actor,
            client: line.client,
            token: line.token.clone(),
            tenant: line.tenant.clone(),
            method: line.method.clone(),
            route: line.route.clone(),
            object: line.object.clone(),
            made: line.made.clone(),
            status: line.status,
            problem: line.problem,
        }
    }

    /// Whether it was about the tenant, or by one of its tokens.
    fn concerns(&self, tenant: &Name) -> bool {
        let object = ["tenant", "namespace"].iter().filter_map(|name| self.object.get(*name));
        self.tenant.as_ref() == Some(tenant) || object.into_iter().any(|name| name == tenant.as_str())
    }
}

/// The last actions. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecentActions(Arc<Mutex<VecDeque<Action>>>);

impl RecentActions {
    pub(super) fn add(&self, action: Action) {
        let mut all = self.0.lock();
        if all.len() == KEPT {
            all.pop_back();
        }
        all.push_front(action);
    }

    /// Those of a tenant, or all, the latest first.
    pub(crate) fn of(&self, tenant: Option<&Name>) -> Vec<Action> {
        let all = self.0.lock();
        all.iter().filter(|action| tenant.is_none_or(|tenant| action.concerns(tenant))).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(n: u64, tenant: &str) -> Action {
        Action {
            at_ms: Timestamp::from_millis(n),
            actor: String::new(),
            client: ClientKind::Unknown,
            token: None,
            tenant: None,
            method: "POST".into(),
            route: None,
            object: BTreeMap::from([("tenant".into(), tenant.into())]),
            made: None,
            status: None,
            problem: None,
        }
    }

    #[test]
    fn a_thousand_actions_are_kept_and_a_tenant_sees_its_own() {
        let recent = RecentActions::default();
        for n in 0..3000 {
            recent.add(action(n, if n % 2 == 0 { "acme" } else { "other" }));
        }
        let (all, own) = (recent.of(None), recent.of(Some(&"acme".parse().unwrap())));
        assert_eq!((all.len(), own.len()), (KEPT, KEPT / 2));
        assert_eq!((all[0].at_ms, own[0].at_ms), (Timestamp::from_millis(2999), Timestamp::from_millis(2998)));
    }
}
