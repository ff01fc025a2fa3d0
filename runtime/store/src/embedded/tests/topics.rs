//! The memory of topics.

use super::*;
use crate::embedded::file::schema;

fn id(n: usize) -> TopicId {
    format!("acme/t{n}").parse().unwrap()
}

#[test]
fn topics_without_jobs_are_forgotten_and_found_again() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::bring_up_to_date(&mut connection).unwrap();
    let mut topics = Topics::load(&connection).unwrap();
    let busy = topics.find_or_add(&connection, &id(0)).unwrap();
    topics.change(busy).ready = 1;
    for n in 1..=3 * EMPTY {
        let topic = topics.find_or_add(&connection, &id(n)).unwrap();
        topics.change(topic).turn = n;
        if n % 100 == 0 {
            topics.save(&connection, Timestamp::default()).unwrap();
            topics.committed();
        }
    }
    topics.save(&connection, Timestamp::default()).unwrap();
    topics.committed();
    assert_eq!((topics.by_id.len(), topics.by_number.len()), (EMPTY + 1, EMPTY + 1));
    assert!(topics.topics.len() <= EMPTY + 101, "{}", topics.topics.len());

    assert_eq!(topics.find(&connection, &id(0)).unwrap(), Some(busy));
    let first = topics.find(&connection, &id(1)).unwrap().unwrap();
    assert_eq!((topics.get(first).number, topics.get(first).turn), (2, 1));
    assert_eq!(topics.find(&connection, &id(99_999)).unwrap(), None);
    let new = topics.find_or_add(&connection, &id(99_999)).unwrap();
    assert_eq!(topics.get(new).number, 3 * EMPTY as i64 + 2, "no number is given out twice");
}

#[test]
fn a_transaction_that_fails_has_only_its_own_topics_read_again() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::bring_up_to_date(&mut connection).unwrap();
    let mut topics = Topics::load(&connection).unwrap();
    let at = Timestamp::from_millis;
    let [a, b] = [1, 2].map(|n| topics.find_or_add(&connection, &id(n)).unwrap());
    (topics.change(a).delayed, topics.change(b).ready) = (1, 1);
    topics.set_next_due(a, Some(at(5)));
    topics.save(&connection, at(1)).unwrap();
    topics.committed();
    // Another program changes the row of a topic that the transaction does not change.
    connection.execute("UPDATE topics SET ready = 7 WHERE number = 2", []).unwrap();

    topics.change(a).delayed = 3;
    topics.set_next_due(a, Some(at(9)));
    topics.count(a, "pushed", 2);
    let made = topics.find_or_add(&connection, &id(3)).unwrap();
    topics.change(made).ready = 1;
    topics.set_next_due(made, Some(at(2)));
    topics.roll_back(&connection).unwrap();
    let tenant = id(0).tenant;
    assert_eq!((topics.get(a).delayed, topics.due(&tenant).collect::<Vec<_>>()), (1, vec![(at(5), a)]));
    assert_eq!(topics.get(b).ready, 1, "the memory of other topics is left alone");
    assert_eq!((topics.get(made).ready, topics.find(&connection, &id(3)).unwrap()), (0, Some(made)));
    assert!(topics.tally.is_empty());

    // The next transaction writes nothing of it.
    topics.save(&connection, at(1)).unwrap();
    topics.committed();
    let rows: i64 = connection.query_row("SELECT count(*) FROM topics", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
    topics.change(made).ready = 1;
    topics.save(&connection, at(1)).unwrap();
    topics.committed();
    let loaded = Topics::load(&connection).unwrap();
    assert_eq!(loaded.by_id.len(), 3);
}

#[test]
fn the_topics_of_a_tenant_are_due_in_order() {
    let mut topics = Topics::default();
    let at = Timestamp::from_millis;
    let [a, b] = [Topic::new(1, id(1)), Topic::new(2, id(2))].map(|topic| topics.add(topic));
    topics.set_next_due(a, Some(at(9)));
    topics.set_next_due(b, Some(at(5)));
    let due = |topics: &Topics| topics.due(&id(0).tenant).collect::<Vec<_>>();
    assert_eq!(due(&topics), [(at(5), b), (at(9), a)]);
    topics.set_next_due(b, Some(at(10)));
    assert_eq!(due(&topics), [(at(9), a), (at(10), b)]);
    topics.set_next_due(a, None);
    topics.set_next_due(b, None);
    assert!(due(&topics).is_empty() && topics.due.is_empty());
}

#[test]
fn a_topic_that_waits_for_its_tenant_keeps_its_place() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::bring_up_to_date(&mut connection).unwrap();
    let mut topics = Topics::load(&connection).unwrap();
    let tenant = id(0).tenant;
    let [emptied, busy] = [0, 1].map(|n| topics.find_or_add(&connection, &id(n)).unwrap());
    topics.change(busy).ready = 1;
    for topic in [emptied, busy] {
        topics.set_limited(topic, Some(LimitReached::TenantMaxRunning));
    }
    for n in 2..EMPTY + 2 {
        topics.find_or_add(&connection, &id(n)).unwrap();
    }
    topics.committed();
    let foreign = topics.find_or_add(&connection, &"other/t".parse().unwrap()).unwrap();
    topics.set_limited(foreign, Some(LimitReached::TenantMaxRunning));
    let woken = std::iter::from_fn(|| topics.next_waiting(&tenant)).collect::<Vec<_>>();
    assert_eq!((woken.contains(&foreign), woken.last()), (false, Some(&busy)));
}
