//! Bills: what attempts cost is added up, once, and kept for its time.

use std::time::Duration;

use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::{Name, WorkerId};
use gristmill_store::{BillEntry, move_bills};
use gristmill_store_tests::test_store::{TestStore, tenant, tenant_beside, topic, worker};

super::cases![
    costs_are_added_up,
    days_and_topics_are_apart,
    only_the_days_that_are_asked_for_are_told,
    bills_of_tenants_are_apart,
    an_entry_is_added_once,
    writers_do_not_know_each_others_numbers,
    a_bill_is_gone_when_its_time_is_over,
    a_tenant_without_attempts_has_an_empty_bill,
    large_amounts_are_exact,
    a_bill_outlives_the_process,
    each_process_learns_what_all_have_used,
    a_bill_moves_and_is_added_to_that_of_the_new_store,
    a_move_of_a_bill_that_was_interrupted_adds_each_line_once,
    costs_that_come_while_a_bill_moves_are_kept_for_the_next_time,
];

/// The test's clock may be behind that of a server.
const KEEP: Duration = Duration::from_secs(3650 * 86_400);

fn day(queue: &TestStore, after: u32) -> Day {
    Day::from_number(Day::of(queue.now()).number() + after)
}

fn cost(unit: u64) -> Cost {
    Cost::of_amounts([1, 2, 3, 4, 5, 6, 7].map(|amount| amount * unit))
}

fn line(of: &str, day: Day, cost: Cost) -> BillLine {
    BillLine { topic: topic(of), day, cost }
}

fn entry(number: u64, lines: Vec<BillLine>) -> BillEntry {
    BillEntry { tenant: tenant(), writer: worker(), number, lines, keep: KEEP, used_us: 0 }
}

/// The same entry for another tenant.
fn of_tenant(tenant: &Name, mut entry: BillEntry) -> BillEntry {
    entry.lines.iter_mut().for_each(|line| line.topic.tenant = tenant.clone());
    BillEntry { tenant: tenant.clone(), ..entry }
}

async fn add(queue: &TestStore, entries: &[BillEntry]) {
    for added in queue.store.add_to_bills(entries).await.unwrap() {
        added.unwrap();
    }
}

/// The tenant's bill of the next hundred days.
async fn bill(queue: &TestStore, tenant: &Name) -> Vec<BillLine> {
    queue.store.bill(tenant, &(day(queue, 0)..=day(queue, 99))).await.unwrap()
}

async fn costs_are_added_up(queue: TestStore) {
    let today = day(&queue, 0);
    add(&queue, &[entry(1, vec![line("mail", today, cost(1))])]).await;
    add(&queue, &[entry(2, vec![line("mail", today, cost(10))])]).await;
    assert_eq!(bill(&queue, &tenant()).await, [line("mail", today, cost(11))]);
    let only_attempts = Cost { attempts: 1, ..Cost::default() };
    add(&queue, &[entry(3, vec![line("image", today, only_attempts)])]).await;
    assert_eq!(bill(&queue, &tenant()).await, [line("image", today, only_attempts), line("mail", today, cost(11))]);
}

async fn days_and_topics_are_apart(queue: TestStore) {
    let [first, second] = [0, 1].map(|after| day(&queue, after));
    let lines = vec![
        line("b", second, cost(4)),
        line("b", first, cost(2)),
        line("a", second, cost(3)),
        line("a", first, cost(1)),
    ];
    add(&queue, &[entry(1, lines)]).await;
    let expected =
        [line("a", first, cost(1)), line("b", first, cost(2)), line("a", second, cost(3)), line("b", second, cost(4))];
    assert_eq!(bill(&queue, &tenant()).await, expected);
}

async fn only_the_days_that_are_asked_for_are_told(queue: TestStore) {
    let lines = (0..40).map(|after| line("mail", day(&queue, after), cost(after.into()))).skip(1).collect();
    add(&queue, &[entry(1, lines)]).await;
    for (from, to) in [(3, 3), (3, 5), (0, 2), (38, 50), (2, 39)] {
        let found = queue.store.bill(&tenant(), &(day(&queue, from)..=day(&queue, to))).await.unwrap();
        let days: Vec<Day> = found.iter().map(|line| line.day).collect();
        let expected: Vec<Day> = (from.max(1)..=to.min(39)).map(|after| day(&queue, after)).collect();
        assert_eq!(days, expected, "{from} to {to}");
    }
}

async fn bills_of_tenants_are_apart(queue: TestStore) {
    let today = day(&queue, 0);
    let mut entries = vec![entry(1, vec![line("mail", today, cost(1))])];
    for (tenant, unit) in queue.a_tenant_of_each_shard().iter().zip(2..) {
        entries.push(of_tenant(tenant, entry(1, vec![line("mail", today, cost(unit))])));
    }
    add(&queue, &entries).await;
    for BillEntry { tenant, lines, .. } in entries {
        assert_eq!(bill(&queue, &tenant).await, lines);
    }
}

async fn an_entry_is_added_once(queue: TestStore) {
    let today = day(&queue, 0);
    let entries = [1, 2].map(|number| entry(number, vec![line("mail", today, cost(number))]));
    add(&queue, &entries[..1]).await;
    add(&queue, &entries[..1]).await;
    add(&queue, &entries).await;
    add(&queue, &entries[..1]).await;
    assert_eq!(bill(&queue, &tenant()).await, [line("mail", today, cost(3))]);
}

async fn writers_do_not_know_each_others_numbers(queue: TestStore) {
    let (today, other) = (day(&queue, 0), WorkerId::new("other"));
    let first = entry(7, vec![line("mail", today, cost(1))]);
    add(&queue, &[first.clone(), BillEntry { writer: other, number: 3, ..first.clone() }]).await;
    add(&queue, &[of_tenant(&tenant_beside(), first)]).await;
    assert_eq!(bill(&queue, &tenant()).await, [line("mail", today, cost(2))]);
    assert_eq!(bill(&queue, &tenant_beside()).await.len(), 1);
}

async fn a_bill_is_gone_when_its_time_is_over(queue: TestStore) {
    let (old, today) = (Day::from_number(7), day(&queue, 0));
    let lines = [line("mail", old, cost(1)), line("mail", today, cost(2))];
    // Some stores' bills go by the server's own clock, which is later than this day in any case.
    let short = BillEntry { keep: Duration::from_secs(86_400), ..entry(1, vec![lines[0].clone()]) };
    add(&queue, &[short, entry(2, vec![lines[1].clone()])]).await;
    assert_eq!(queue.store.bill(&tenant(), &(old..=old)).await.unwrap(), []);
    queue.store.sweep(&[]).await.unwrap();
    assert_eq!(bill(&queue, &tenant()).await, lines[1..]);
    queue.set_back(queue.now().since(old.end()).as_millis() as u64);
    assert_eq!(queue.store.bill(&tenant(), &(old..=old)).await.unwrap(), [], "it was dropped, not only hidden");
}

async fn a_tenant_without_attempts_has_an_empty_bill(queue: TestStore) {
    assert_eq!(bill(&queue, &tenant()).await, []);
}

async fn large_amounts_are_exact(queue: TestStore) {
    let (today, large) = (day(&queue, 0), (1 << 60) + 1);
    for number in 1..=3 {
        add(&queue, &[entry(number, vec![line("mail", today, Cost { fuel: large, ..cost(1) })])]).await;
    }
    assert_eq!(bill(&queue, &tenant()).await, [line("mail", today, Cost { fuel: 3 * large, ..cost(3) })]);
}

async fn a_bill_outlives_the_process(mut queue: TestStore) {
    let (today, lines) = (day(&queue, 0), |unit| vec![line("mail", day(&queue, 0), cost(unit))]);
    let (first, second) = (entry(1, lines(1)), entry(2, lines(2)));
    add(&queue, std::slice::from_ref(&first)).await;
    queue.reopen().await;
    add(&queue, &[first, second]).await;
    assert_eq!(bill(&queue, &tenant()).await, [line("mail", today, cost(3))]);
}

async fn each_process_learns_what_all_have_used(queue: TestStore) {
    let used =
        |writer: &str, number, used_us| BillEntry { writer: WorkerId::new(writer), used_us, ..entry(number, vec![]) };
    let entries = [
        used("a", 1, 5),
        used("b", 1, 7),
        used("b", 1, 7),
        used("a", 2, 0),
        of_tenant(&tenant_beside(), used("a", 3, 1)),
    ];
    let mut answers = Vec::new();
    for entry in entries {
        answers.extend(queue.store.add_to_bills(&[entry]).await.unwrap());
    }
    let answers: Vec<Option<u64>> = answers.into_iter().map(Result::unwrap).collect();
    match answers[..] {
        // One process has the file to itself.
        [None, ..] => assert_eq!(answers, [None; 5]),
        _ => assert_eq!(answers, [5, 12, 12, 12, 1].map(Some), "an entry that comes again counts once"),
    }
    assert_eq!(bill(&queue, &tenant()).await, [], "what was used is no line of the bill");
}

async fn moved(from: &TestStore, to: &TestStore) -> usize {
    let days = day(from, 0)..=day(from, 99);
    move_bills(&*from.store, &*to.store, &tenant(), &days, KEEP).await.unwrap()
}

async fn a_bill_moves_and_is_added_to_that_of_the_new_store(queue: TestStore) {
    let (to, today, next) = (queue.another().await, day(&queue, 0), day(&queue, 1));
    let lines = vec![line("image", today, cost(1)), line("mail", today, cost(2)), line("mail", next, cost(4))];
    add(&queue, &[entry(1, lines), of_tenant(&tenant_beside(), entry(1, vec![line("mail", today, cost(3))]))]).await;
    add(&to, &[entry(1, vec![line("mail", today, cost(10))])]).await;
    assert_eq!(moved(&queue, &to).await, 3);
    let expected = [line("image", today, cost(1)), line("mail", today, cost(12)), line("mail", next, cost(4))];
    assert_eq!(bill(&to, &tenant()).await, expected);
    assert_eq!((bill(&queue, &tenant()).await, bill(&queue, &tenant_beside()).await.len()), (Vec::new(), 1));
    assert_eq!(moved(&queue, &to).await, 0);
    assert_eq!(bill(&to, &tenant()).await, expected);
}

async fn a_move_of_a_bill_that_was_interrupted_adds_each_line_once(mut queue: TestStore) {
    let (to, today) = (queue.another().await, day(&queue, 0));
    let lines = vec![line("image", today, cost(1)), line("mail", today, cost(2))];
    add(&queue, &[entry(1, lines.clone())]).await;
    let days = today..=today;
    let taken = queue.store.take_bills(&tenant(), &days, u64::MAX).await.unwrap();
    assert_eq!((taken.len(), taken[0].day, taken[0].mark, &taken[0].lines), (1, today, u64::MAX, &lines));
    assert_eq!(bill(&queue, &tenant()).await, [], "it is on its way");
    queue.reopen().await;
    assert_eq!(queue.store.take_bills(&tenant(), &days, 7).await.unwrap(), taken, "as it was");
    // It was added, and the answer was lost.
    add(&to, &[taken[0].clone().into_entry(&tenant(), KEEP)]).await;
    assert_eq!(moved(&queue, &to).await, 2);
    assert_eq!((bill(&to, &tenant()).await, moved(&queue, &to).await), (lines, 0));
    assert!(queue.store.fsck().await.unwrap().is_clean() && to.store.fsck().await.unwrap().is_clean());
}

async fn costs_that_come_while_a_bill_moves_are_kept_for_the_next_time(queue: TestStore) {
    let (to, today) = (queue.another().await, day(&queue, 0));
    let (first, second) = (line("mail", today, cost(1)), line("mail", today, cost(2)));
    add(&queue, &[entry(1, vec![first.clone()])]).await;
    let days = today..=today;
    let taken = queue.store.take_bills(&tenant(), &days, 7).await.unwrap();
    add(&queue, &[entry(2, vec![second.clone()])]).await;
    assert_eq!(bill(&queue, &tenant()).await, [second]);
    assert_eq!(queue.store.take_bills(&tenant(), &days, 8).await.unwrap(), taken);
    queue.store.drop_taken_bill(&tenant(), today, 8).await.unwrap();
    assert_eq!(queue.store.take_bills(&tenant(), &days, 9).await.unwrap(), taken, "none was taken with that mark");
    assert_eq!(moved(&queue, &to).await, 1);
    assert_eq!(bill(&to, &tenant()).await, [first]);
    assert_eq!(moved(&queue, &to).await, 1);
    assert_eq!(bill(&to, &tenant()).await, [line("mail", today, cost(3))], "equal or not, each is added");
}
