//! Who may come in, and that nobody sees what is not theirs.

mod audit;
mod isolation;
mod limits;
mod machine;
mod payloads;
pub(crate) mod revoked;
mod routes;
mod scopes;

use std::collections::BTreeSet;
use std::num::NonZero;

use gristmill::job::{Due, JobId, NewJob, WorkerId};
use gristmill::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill::store::{ClaimFrom, Settlement, Store, TokenAdded};
use gristmill::token::{NewToken, Rate, Scope, TokenLimits, TokenText};
use gristmill_tests::test_runner::{On, TestRunner, spec};

/// A token for this tenant, or for all, with these scopes.
pub(crate) async fn token(store: &dyn Store, tenant: Option<&str>, scopes: &[Scope]) -> String {
    limited(store, tenant, scopes, None).await
}

/// The same with so many requests a second, which may all come at once.
async fn limited(store: &dyn Store, tenant: Option<&str>, scopes: &[Scope], requests: Option<u32>) -> String {
    let text = TokenText::generate().unwrap();
    let rate = requests.and_then(NonZero::new).map(|n| Rate { per_second: n, burst: n });
    let new = NewToken {
        hash: text.hash(),
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        scopes: BTreeSet::from_iter(scopes.iter().copied()),
        description: String::new(),
        limits: TokenLimits { requests: rate, throttle: None },
        expires_in: None,
        made_by: None,
    };
    assert!(matches!(store.add_token(&new).await.unwrap(), TokenAdded::Added(_)));
    text.as_str().to_owned()
}

/// A runner whose tenants `acme` and `other` have a topic each, for which there is no handler.
pub(crate) async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, "[tenants.acme.topics.mail]\n[tenants.other.topics.mail]", &[]).await
}

pub(crate) async fn push(runner: &TestRunner, topic: &str) -> JobId {
    let spec = spec(topic, b"secret");
    let id = spec.id.clone();
    runner.store.push(&[NewJob { spec, due: Due::Now }]).await.unwrap();
    id
}

/// Pushes a job and buries it.
async fn bury(runner: &TestRunner, topic: &str) -> JobId {
    let id = push(runner, topic).await;
    let from = ClaimFrom::new(topic.parse().unwrap(), 1, std::time::Duration::from_secs(600));
    let claimed = runner.store.claim(&WorkerId::new("test"), &[from]).await.unwrap();
    let detail = FailureDetail { code: "c".into(), message: "secret".into(), context: None };
    let verdict = Verdict::Bury(Failure::new(Reason::Rejected, detail));
    runner.store.settle(&[Settlement::new(claimed.claims[0].lease.clone(), verdict)]).await.unwrap();
    id
}
