//! A topic's jobs, listed page by page while others come and go.

use gristmill_core::job::{JobId, Priority};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{AHEAD, Cursor, JobState, Page, StateFilter};
use gristmill_store_tests::test_store::{
    TestStore, claimed, delayed, failure, foreign, ids, job, of_priority, retry, topic, worker,
};

super::cases![
    jobs_are_listed_by_topic,
    dead_jobs_deleted_page_by_page_are_all_seen_once,
    a_cursor_of_another_place_is_refused,
    a_listed_job_is_as_it_is_looked_up,
    ; in_order:
    ready_jobs_are_listed_as_they_will_be_claimed,
    delayed_jobs_are_listed_as_they_come_due,
    running_jobs_are_listed_by_id_with_their_delivery,
    dead_jobs_are_listed_the_latest_first,
    a_page_of_the_dead_goes_on_within_a_millisecond,
    a_page_is_never_longer_than_asked_for,
    no_page_has_more_than_a_thousand_jobs,
    a_page_ends_where_it_would_become_too_long,
    claims_between_pages_neither_repeat_nor_skip_a_ready_job,
    cancelled_jobs_between_pages_neither_repeat_nor_skip_a_ready_job,
    a_ready_job_that_came_back_is_listed_at_its_new_place,
    nothing_is_skipped_where_a_whole_page_was_cancelled,
    nothing_is_skipped_where_the_end_of_a_page_was_cancelled_and_pushed_again,
    delayed_jobs_that_come_and_go_neither_repeat_nor_skip_others,
    running_jobs_that_end_neither_repeat_nor_skip_others,
    the_age_of_the_oldest_ready_job_is_shown,
    a_ready_job_knows_how_many_stand_before_it,
    no_more_than_ten_thousand_jobs_before_one_are_counted,
];

async fn page(queue: &TestStore, place: StateFilter, after: Option<&Cursor>, limit: usize) -> Page {
    queue.store.jobs(&topic("mail"), place, after, limit).await.unwrap()
}

fn of(page: &Page) -> Vec<JobId> {
    page.jobs.iter().map(|view| view.id.clone()).collect()
}

/// Everything from a page's end on.
async fn rest(queue: &TestStore, place: StateFilter, page_before: &Page, limit: usize) -> Vec<JobId> {
    let (mut seen, mut next) = (Vec::new(), page_before.next.clone());
    while let Some(cursor) = next {
        // As it would come over the wire.
        let cursor: Cursor = cursor.to_string().parse().unwrap();
        let page = page(queue, place, Some(&cursor), limit).await;
        seen.extend(of(&page));
        next = page.next;
    }
    seen
}

async fn all(queue: &TestStore, place: StateFilter, limit: usize) -> Vec<JobId> {
    let first = page(queue, place, None, limit).await;
    [of(&first), rest(queue, place, &first, limit).await].concat()
}

/// Pushes so many jobs of one name and a number.
async fn push(queue: &TestStore, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = (0..count).map(|_| job("mail")).collect();
    queue.push(&jobs).await;
    ids(&jobs)
}

async fn ready_jobs_are_listed_as_they_will_be_claimed(queue: TestStore) {
    let jobs: Vec<_> = [Priority::Low, Priority::Normal, Priority::High].map(of_priority).into_iter().collect();
    queue
        .push(&[jobs.clone(), [Priority::Low, Priority::Normal, Priority::High].map(of_priority).to_vec()].concat())
        .await;
    let listed = all(&queue, StateFilter::Ready, 100).await;
    assert_eq!(listed.len(), 6);
    assert_eq!([&listed[0], &listed[2], &listed[4]], [&jobs[2].spec.id, &jobs[1].spec.id, &jobs[0].spec.id]);
    for limit in 1..6 {
        assert_eq!(all(&queue, StateFilter::Ready, limit).await, listed, "{limit} a page");
    }
}

async fn delayed_jobs_are_listed_as_they_come_due(queue: TestStore) {
    let mut jobs: Vec<_> = [30, 10, 20, 10, 10].into_iter().map(|ms| delayed("mail", ms)).collect();
    for (job, id) in jobs.iter_mut().zip(["f", "b", "e", "Z", "a.1"]) {
        job.spec.id = id.parse().unwrap();
    }
    queue.push(&jobs).await;
    let expected: Vec<JobId> = ["Z", "a.1", "b", "e", "f"].map(|id| id.parse().unwrap()).to_vec();
    for limit in 1..=6 {
        assert_eq!(all(&queue, StateFilter::Delayed, limit).await, expected, "{limit} a page");
    }
    let first = page(&queue, StateFilter::Delayed, None, 1).await;
    assert_eq!(first.jobs[0].state, JobState::Delayed { until: queue.in_ms(10) });
}

async fn running_jobs_are_listed_by_id_with_their_delivery(queue: TestStore) {
    push(&queue, 5).await;
    let mut running = claimed(&queue.claim(5).await);
    running.sort();
    for limit in 1..=6 {
        assert_eq!(all(&queue, StateFilter::Running, limit).await, running, "{limit} a page");
    }
    let first = page(&queue, StateFilter::Running, None, 1).await;
    let state = JobState::Running {
        worker: worker().to_string(),
        delivery: 1,
        lease_until: queue.in_ms(30_000),
        cancelled: false,
    };
    assert_eq!(first.jobs[0].state, state);
}

async fn bury(queue: &TestStore, count: usize) -> Vec<JobId> {
    push(queue, count).await;
    let claims = queue.claim(count).await;
    for claim in &claims {
        queue.settle(claim, Verdict::Bury(failure(Reason::Trap))).await;
    }
    claimed(&claims)
}

async fn dead_jobs_are_listed_the_latest_first(queue: TestStore) {
    let mut buried = Vec::new();
    for _ in 0..5 {
        buried.insert(0, queue.dead().await.lease.job);
        queue.pass(1);
    }
    for limit in 1..=6 {
        assert_eq!(all(&queue, StateFilter::Dead, limit).await, buried, "{limit} a page");
    }
    let first = page(&queue, StateFilter::Dead, None, 1).await;
    assert_eq!(first.jobs[0].last_failure, Some(failure(Reason::Trap)));
}

async fn a_page_of_the_dead_goes_on_within_a_millisecond(queue: TestStore) {
    let mut buried = bury(&queue, 7).await;
    buried.sort();
    buried.reverse();
    assert_eq!(all(&queue, StateFilter::Dead, 2).await, buried);
}

async fn jobs_are_listed_by_topic(queue: TestStore) {
    queue.push(&[job("audit"), foreign("mail"), delayed("audit", 10)]).await;
    queue.push(&[job("audit"), job("audit")]).await;
    let mut claims = queue.claim_as(&worker(), "audit", 2).await.claims;
    queue.settle(&claims.pop().unwrap(), Verdict::Bury(failure(Reason::Trap))).await;
    for place in StateFilter::ALL {
        assert_eq!(page(&queue, place, None, 10).await, Page::default(), "{}", place.as_str());
    }
}

async fn a_page_is_never_longer_than_asked_for(queue: TestStore) {
    push(&queue, 3).await;
    assert!(page(&queue, StateFilter::Ready, None, 0).await.jobs.is_empty());
    let first = page(&queue, StateFilter::Ready, None, 2).await;
    assert_eq!(first.jobs.len(), 2);
    let last = page(&queue, StateFilter::Ready, first.next.as_ref(), 2).await;
    assert_eq!((last.jobs.len(), last.next), (1, None));
}

async fn no_page_has_more_than_a_thousand_jobs(queue: TestStore) {
    let pushed = push(&queue, 1001).await;
    let first = page(&queue, StateFilter::Ready, None, usize::MAX).await;
    assert_eq!(of(&first), pushed[..1000]);
    assert_eq!(rest(&queue, StateFilter::Ready, &first, usize::MAX).await, pushed[1000..]);
}

async fn a_page_ends_where_it_would_become_too_long(queue: TestStore) {
    let mut jobs: Vec<_> = (0..3).map(|_| job("mail")).collect();
    for job in &mut jobs {
        job.spec.body.data = vec![7; 3 << 20];
    }
    queue.push(&jobs).await;
    let first = page(&queue, StateFilter::Ready, None, 10).await;
    assert_eq!(of(&first), [jobs[0].spec.id.clone()]);
    assert_eq!(rest(&queue, StateFilter::Ready, &first, 10).await, ids(&jobs[1..]));
    for _ in 0..3 {
        let claim = queue.claim(1).await.pop().unwrap();
        queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
        queue.pass(1);
    }
    let first = page(&queue, StateFilter::Dead, None, 10).await;
    assert_eq!(of(&first), [jobs[2].spec.id.clone()]);
    assert_eq!(rest(&queue, StateFilter::Dead, &first, 10).await, ids([&jobs[1], &jobs[0]]));
}

async fn claims_between_pages_neither_repeat_nor_skip_a_ready_job(queue: TestStore) {
    for (listed, taken) in [(5, 2), (5, 5), (5, 7), (20, 15), (1, 1)] {
        let pushed = push(&queue, 30).await;
        let first = page(&queue, StateFilter::Ready, None, listed).await;
        assert_eq!(of(&first), pushed[..listed]);
        let claims = queue.claim(taken).await;
        push(&queue, 3).await;
        let rest = rest(&queue, StateFilter::Ready, &first, 4).await;
        assert_eq!(rest[..30 - listed.max(taken)], pushed[listed.max(taken)..], "{listed} listed, {taken} taken");
        for claim in claims.iter().chain(&queue.claim(100).await) {
            queue.settle(claim, Verdict::Ack(None)).await;
        }
    }
}

async fn cancelled_jobs_between_pages_neither_repeat_nor_skip_a_ready_job(queue: TestStore) {
    let pushed = push(&queue, 30).await;
    let first = page(&queue, StateFilter::Ready, None, 10).await;
    // Among them the one that the page ended with, and the one that the next would begin with.
    let gone: Vec<JobId> = [0, 3, 9, 10, 20].into_iter().map(|n: usize| pushed[n].clone()).collect();
    queue.store.cancel(&topic("mail").tenant, &gone).await.unwrap();
    let expected: Vec<&JobId> = pushed[10..].iter().filter(|id| !gone.contains(id)).collect();
    assert_eq!(rest(&queue, StateFilter::Ready, &first, 7).await.iter().collect::<Vec<_>>(), expected);
}

async fn a_ready_job_that_came_back_is_listed_at_its_new_place(queue: TestStore) {
    let pushed = push(&queue, 10).await;
    let first = page(&queue, StateFilter::Ready, None, 5).await;
    // So many are taken that the one that ended the page comes back in front of where it stood.
    let claims = queue.claim(8).await;
    queue.settle(&claims[4], retry(0)).await;
    let expected = [pushed[8].clone(), pushed[9].clone(), pushed[4].clone()];
    assert_eq!(rest(&queue, StateFilter::Ready, &first, 5).await, expected);
}

async fn nothing_is_skipped_where_a_whole_page_was_cancelled(queue: TestStore) {
    let pushed = push(&queue, 50).await;
    let (mut next, mut seen) = (None, Vec::new());
    loop {
        let page = page(&queue, StateFilter::Ready, next.as_ref(), 20).await;
        seen.extend(of(&page));
        queue.store.cancel(&topic("mail").tenant, &of(&page)).await.unwrap();
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(seen, pushed);
    assert_eq!(queue.places().await, [0, 0, 0, 0]);
}

async fn nothing_is_skipped_where_the_end_of_a_page_was_cancelled_and_pushed_again(queue: TestStore) {
    let jobs: Vec<_> = (0..3).map(|_| job("mail")).collect();
    queue.push(&jobs).await;
    let first = page(&queue, StateFilter::Ready, None, 2).await;
    queue.store.cancel(&topic("mail").tenant, &ids(&jobs[..2])).await.unwrap();
    queue.pass(1);
    queue.push(&jobs[1..2]).await;
    assert_eq!(rest(&queue, StateFilter::Ready, &first, 2).await, ids([&jobs[2], &jobs[1]]));
}

async fn delayed_jobs_that_come_and_go_neither_repeat_nor_skip_others(queue: TestStore) {
    let jobs: Vec<_> = (1..=20).map(|n| delayed("mail", 100 * n)).collect();
    queue.push(&jobs).await;
    let first = page(&queue, StateFilter::Delayed, None, 10).await;
    // The last of the page is gone, earlier ones are due, new ones stand in front and behind.
    queue.store.cancel(&topic("mail").tenant, &[jobs[9].spec.id.clone()]).await.unwrap();
    queue.pass(350);
    queue.migrate().await;
    let (early, late) = (delayed("mail", 10), delayed("mail", 10_000));
    queue.push(&[early, late.clone()]).await;
    let expected = [ids(&jobs[10..]), ids([&late])].concat();
    assert_eq!(rest(&queue, StateFilter::Delayed, &first, 3).await, expected);
}

async fn running_jobs_that_end_neither_repeat_nor_skip_others(queue: TestStore) {
    push(&queue, 20).await;
    let mut claims = queue.claim(20).await;
    claims.sort_by(|a, b| a.lease.job.cmp(&b.lease.job));
    let first = page(&queue, StateFilter::Running, None, 8).await;
    for n in [0, 7, 8, 15] {
        queue.settle(&claims[n], Verdict::Ack(None)).await;
    }
    let expected = [claimed(&claims[9..15]), claimed(&claims[16..])].concat();
    assert_eq!(rest(&queue, StateFilter::Running, &first, 3).await, expected);
}

async fn dead_jobs_deleted_page_by_page_are_all_seen_once(queue: TestStore) {
    let mut buried = bury(&queue, 25).await;
    let (mut next, mut seen) = (None, Vec::new());
    loop {
        let page = page(&queue, StateFilter::Dead, next.as_ref(), 10).await;
        seen.extend(of(&page));
        queue.store.delete_dead(&topic("mail"), &of(&page)).await.unwrap();
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    seen.sort();
    buried.sort();
    assert_eq!(seen, buried);
}

async fn a_cursor_of_another_place_is_refused(queue: TestStore) {
    push(&queue, 2).await;
    let first = page(&queue, StateFilter::Ready, None, 1).await;
    let refused = queue.store.jobs(&topic("mail"), StateFilter::Dead, first.next.as_ref(), 1).await;
    assert!(refused.is_err_and(|error| !error.is_unavailable()));
}

async fn a_listed_job_is_as_it_is_looked_up(queue: TestStore) {
    queue.push(&[delayed("mail", 10_000)]).await;
    queue.dead().await;
    let claim = queue.running().await;
    queue.settle(&claim, retry(0)).await;
    let claim = queue.claim_one().await;
    queue.store.cancel(&topic("mail").tenant, std::slice::from_ref(&claim.lease.job)).await.unwrap();
    push(&queue, 1).await;
    for place in StateFilter::ALL {
        let page = page(&queue, place, None, 10).await;
        let looked_up = queue.view(&page.jobs[0].id).await.unwrap();
        assert_eq!(page.jobs, [looked_up], "{}", place.as_str());
    }
}

async fn the_age_of_the_oldest_ready_job_is_shown(queue: TestStore) {
    queue.push(&[delayed("mail", 10)]).await;
    assert_eq!(queue.counts("mail").await.oldest_ready, None);
    queue.pass(10);
    queue.migrate().await;
    let oldest = queue.now();
    queue.pass(5);
    let high = of_priority(Priority::High);
    queue.push(&[high, job("mail")]).await;
    assert_eq!(queue.counts("mail").await.oldest_ready, Some(oldest));
    queue.claim(1).await;
    assert_eq!(queue.counts("mail").await.oldest_ready, Some(oldest));
    queue.claim(1).await;
    assert_eq!(queue.counts("mail").await.oldest_ready, Some(queue.now()));
    queue.claim(1).await;
    assert_eq!(queue.counts("mail").await.oldest_ready, None);
}

async fn a_ready_job_knows_how_many_stand_before_it(queue: TestStore) {
    let jobs = [Priority::Low, Priority::Normal, Priority::Normal, Priority::High, Priority::High].map(of_priority);
    queue.push(&jobs).await;
    queue.push(&[job("other"), delayed("mail", 1000)]).await;
    let ahead = async |id: &JobId| queue.store.jobs_ahead(&topic("mail"), id).await.unwrap();
    let [low, first, second, high, next_high] = ids(&jobs).try_into().unwrap();
    // By turns: high, normal, high; then high's and normal's last, and low.
    for (place, id) in [&high, &first, &next_high, &second, &low].into_iter().enumerate() {
        assert_eq!(ahead(id).await, Some(place as u64));
    }
    for left in [[&first, &next_high, &second, &low].as_slice(), &[&next_high, &second, &low], &[&second, &low]] {
        let running = queue.claim(1).await;
        assert_eq!(ahead(&claimed(&running)[0]).await, None, "it is running");
        for (place, id) in left.iter().copied().enumerate() {
            assert_eq!(ahead(id).await, Some(place as u64), "the turns go on");
        }
    }
    assert_eq!(queue.store.jobs_ahead(&topic("other"), &low).await.unwrap(), None, "it is of another topic");
    assert_eq!(ahead(&"unknown".parse().unwrap()).await, None);
    let waiting = page(&queue, StateFilter::Delayed, None, 1).await;
    assert_eq!(ahead(&waiting.jobs[0].id).await, None, "it is not due");
}

async fn no_more_than_ten_thousand_jobs_before_one_are_counted(queue: TestStore) {
    let pushed = push(&queue, AHEAD as usize + 2).await;
    let ahead = async |id: &JobId| queue.store.jobs_ahead(&topic("mail"), id).await.unwrap();
    let [.., edge, beyond] = pushed.as_slice() else { panic!("there are two") };
    assert_eq!(ahead(edge).await, Some(AHEAD));
    assert_eq!(ahead(beyond).await, None);
}
