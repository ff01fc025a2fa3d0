//! What the scenario has of those who look after topics, tokens, tenants and bills.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::deployment::Deployment;
use gristmill_core::job::JobId;
use gristmill_core::time::Timestamp;
use gristmill_core::token::{NewToken, Scope, TokenLimits, TokenText};
use gristmill_core::version::Version;
use gristmill_store::{BillEntry, Placement, StoredWindow, TakenBill};
use gristmill_store_tests::test_store::{LEASE, tenant, topic, worker};

use super::scenario::World;

impl World {
    pub(super) async fn topics_and_tokens(&mut self) {
        self.ask(async |store| store.set_paused(&topic("mail"), true).await).await;
        self.ask(async |store| store.set_paused(&topic("mail"), false).await).await;
        self.ask(async |store| store.set_paused(&topic("empty"), true).await).await;
        self.ask(async |store| store.forget_topic(&topic("empty")).await).await;
        let windows =
            [StoredWindow { value: "kept".into(), holder: "over".parse().unwrap(), ttl: Duration::from_secs(60) }];
        self.ask(async |store| store.import_windows(&topic("mail"), &windows).await).await;
        self.ask(async |store| store.free_unique(&topic("mail"), "kept").await).await;
        self.ask(async |store| store.import_windows(&topic("mail"), &windows).await).await;
        self.ask(async |store| store.free_windows(&topic("mail")).await).await;
        self.ask(async |store| store.import_windows(&topic("mail"), &windows).await).await;
        self.ask(async |store| store.remove_windows(&topic("mail"), &windows).await).await;
        let job: JobId = "recorded".parse().unwrap();
        self.ask(async |store| {
            store.keep_recordings(&topic("mail"), &[(job.clone(), b"bytes".to_vec())], Duration::from_secs(60)).await
        })
        .await;
        self.ask(async |store| store.recorded_jobs(&topic("mail"), None, 10).await).await;
        let text = TokenText::generate().unwrap();
        let new = NewToken {
            hash: text.hash(),
            tenant: Some(tenant()),
            scopes: BTreeSet::from([Scope::Read]),
            description: String::new(),
            limits: TokenLimits::default(),
            expires_in: None,
            made_by: None,
        };
        self.ask(async |store| store.add_token(&new).await).await;
        let tokens = self.ask(async |store| store.tokens(Some(&tenant())).await).await;
        assert_eq!(tokens.len(), 1, "one token, however often it was asked for");
        let id = tokens[0].id.clone();
        self.ask(async |store| store.set_token_limits(&id, TokenLimits::default()).await).await;
        self.ask(async |store| store.revoke_token(&id).await).await;
        self.ask(async |store| store.lift_token_requirement().await).await;
    }

    pub(super) async fn placements(&self) {
        let other = "other".parse().unwrap();
        let placement = Placement { store: other, from: None, formerly: Vec::new(), generation: 1 };
        // The reply may have been lost: then it is written, and not once more.
        self.ask(async |store| store.write_placement(&tenant(), &placement).await).await;
        let written = self.ask(async |store| store.placements().await).await;
        assert_eq!(written.get(&tenant()), Some(&placement));
        assert!(self.ask(async |store| store.lock_move(&tenant(), &worker(), LEASE).await).await);
    }

    pub(super) async fn deployments(&self) {
        let deployment = Deployment::serving(Version::of(b"a"), None);
        // The reply may have been lost: then it is written, and not once more.
        self.ask(async |store| store.write_deployment(&topic("mail"), &deployment).await).await;
        let written = self.ask(async |store| store.deployments().await).await;
        assert_eq!(written.get(&topic("mail")), Some(&deployment));
    }

    /// What is added to a bill is added once, however often it was sent, and taken out of it once.
    pub(super) async fn bill(&self) {
        const MARK: u64 = 5;
        let day = Day::of(Timestamp::now());
        let line = BillLine { topic: topic("mail"), day, cost: Cost::of_amounts([1; 7]) };
        for number in [1, 2] {
            let (lines, keep) = (vec![line.clone()], Duration::from_secs(3650 * 86_400));
            let entries = [BillEntry { tenant: tenant(), writer: worker(), number, lines, keep, used_us: 3 }];
            self.ask(async |store| store.add_to_bills(&entries).await?.remove(0)).await;
        }
        let bill = self.ask(async |store| store.bill(&tenant(), &(day..=day)).await).await;
        let sum = BillLine { cost: Cost::of_amounts([2; 7]), ..line };
        assert_eq!(bill, std::slice::from_ref(&sum));
        let taken = self.ask(async |store| store.take_bills(&tenant(), &(day..=day), MARK).await).await;
        assert_eq!(taken, [TakenBill { day, mark: MARK, lines: vec![sum] }]);
        self.ask(async |store| store.drop_taken_bill(&tenant(), day, MARK).await).await;
        assert_eq!(self.ask(async |store| store.take_bills(&tenant(), &(day..=day), MARK).await).await, []);
    }
}
