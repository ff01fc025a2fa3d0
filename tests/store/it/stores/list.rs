//! Lists of jobs, ages, and tokens, where there are several stores.

use std::collections::BTreeSet;

use gristmill_core::job::JobId;
use gristmill_core::token::{NewToken, TokenLimits, TokenRequirement, TokenText};
use gristmill_store::TenantPlacements;
use gristmill_store::prelude::*;
use gristmill_store::{Cursor, Inspect, StateFilter, TokenAdded};

use super::{Pair, counts, job, name, topic};

const MAIL: &str = "acme/mail";

/// A pair of stores with so many ready jobs of `acme` in the old one and in the new one, all by their ids, the old ones
/// first.
async fn moving(old: usize, new: usize) -> (Pair, Vec<JobId>) {
    let pair = Pair::new().await;
    let jobs: Vec<_> = (0..old + new).map(|_| job(MAIL)).collect();
    pair.several.push(&jobs[..old]).await.unwrap();
    pair.several.move_tenant(&name("acme"), &name("home")).await.unwrap();
    pair.several.push(&jobs[old..]).await.unwrap();
    (pair, jobs.into_iter().map(|job| job.spec.id).collect())
}

/// All pages, the cursors being written and read again; ids, and how many jobs each page had.
async fn pages(store: &impl Inspect, limit: usize) -> (Vec<JobId>, Vec<usize>) {
    let (mut ids, mut sizes, mut after) = (Vec::new(), Vec::new(), None::<Cursor>);
    loop {
        let page = store.jobs(&topic(MAIL), StateFilter::Ready, after.as_ref(), limit).await.unwrap();
        sizes.push(page.jobs.len());
        ids.extend(page.jobs.into_iter().map(|view| view.id));
        let Some(next) = page.next else { return (ids, sizes) };
        after = Some(next.to_string().parse().unwrap());
    }
}

#[tokio::test]
async fn the_pages_of_a_tenant_that_moves_hold_every_job_once_the_old_stores_first() {
    let (pair, ids) = moving(5, 4).await;
    assert_eq!(pages(&pair.several, 2).await, (ids.clone(), vec![2, 2, 1, 2, 2]));
    assert_eq!(pages(&pair.several, 5).await, (ids.clone(), vec![5, 4]), "a page that ends with a store");
    assert_eq!(pages(&pair.several, 100).await, (ids, vec![5, 4]));
}

#[tokio::test]
async fn a_place_where_nothing_is_left_makes_no_page() {
    let (pair, ids) = moving(0, 3).await;
    assert_eq!(pages(&pair.several, 2).await, (ids, vec![2, 1]));
    let page = pair.several.jobs(&topic(MAIL), StateFilter::Dead, None, 2).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (0, None));
}

#[tokio::test]
async fn tenants_without_a_placement_stay_where_they_are() {
    let (pair, _) = moving(1, 1).await;
    let first = pair.several.jobs(&topic(MAIL), StateFilter::Ready, None, 1).await.unwrap();
    let still = pair.several.jobs(&topic(MAIL), StateFilter::Ready, first.next.as_ref(), 0).await.unwrap();
    assert!(still.jobs.is_empty() && first.next.is_some());
    assert_eq!(still.next, first.next);
}

#[tokio::test]
async fn a_cursor_of_a_store_that_the_tenant_left_begins_again() {
    let (pair, ids) = moving(1, 1).await;
    for text in ["elsewhere~ready", "elsewhere~ready:high:1:a:0:0", "ready:low:7:a:0:0"] {
        let cursor: Cursor = text.parse().unwrap();
        let page = pair.several.jobs(&topic(MAIL), StateFilter::Ready, Some(&cursor), 9).await.unwrap();
        assert_eq!(page.jobs.first().map(|view| &view.id), ids.first(), "{text}");
    }
    let cursor: Cursor = "other~ready:low:7:a:0:0".parse().unwrap();
    let alone = pair.other.jobs(&topic(MAIL), StateFilter::Ready, Some(&cursor), 9).await.unwrap();
    assert_eq!(alone.jobs.first().map(|view| &view.id), ids.first(), "where there is one store now");
}

#[tokio::test]
async fn a_cursor_of_other_jobs_is_refused_wherever_it_stands() {
    let (pair, _) = moving(1, 1).await;
    for text in ["other~ready", "other~ready:high:1:a:0:0"] {
        let cursor: Cursor = text.parse().unwrap();
        assert!(pair.several.jobs(&topic(MAIL), StateFilter::Dead, Some(&cursor), 9).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn the_oldest_ready_job_is_that_of_all_places() {
    let (pair, _) = moving(1, 1).await;
    let of = async |store: &dyn Inspect| counts(store, MAIL).await.and_then(|counts| counts.oldest_ready);
    let (old, new) = (of(&pair.other).await, of(&pair.home).await);
    assert!(old.is_some() && new.is_some());
    assert_eq!(of(&pair.several).await, old.min(new));
}

#[tokio::test]
async fn all_tokens_are_in_the_primary_store() {
    let Pair { home, other, several } = Pair::new().await;
    let mut changes = several.token_changes().await.unwrap();
    let text = TokenText::generate().unwrap();
    let new = NewToken {
        hash: text.hash(),
        tenant: Some(name("acme")),
        scopes: BTreeSet::new(),
        description: String::new(),
        limits: TokenLimits { requests: None, throttle: None },
        expires_in: None,
        made_by: None,
    };
    assert!(matches!(several.add_token(&new).await.unwrap(), TokenAdded::Added(_)));
    let id = text.hash().id();
    assert_eq!(changes.recv().await, Some(id.clone()));
    assert_eq!(several.token_requirement().await.unwrap(), TokenRequirement::Required);
    assert_eq!(home.token_requirement().await.unwrap(), TokenRequirement::Required);
    assert_eq!(other.token_requirement().await.unwrap(), TokenRequirement::NeverSet);
    assert!(several.find_token(&id).await.unwrap().is_some());
    assert_eq!(several.tokens(Some(&name("acme"))).await.unwrap().len(), 1);
    assert!(several.revoke_token(&id).await.unwrap());
    assert!(home.find_token(&id).await.unwrap().is_none());
}
