use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::error::StoreError;
use crate::inspect::ListJobs;
use crate::list::{Cursor, Page};
use gristmill_core::job::{Job, JobSpec, Payload, Priority, TopicId, Unique};
use gristmill_core::outcome::{Failure, FailureDetail, Reason};

const BODY: &str =
    r#"{"user": {"id": 42, "name": "Ann \"A\""}, "tags": ["a", "b"], "big": 12345678901234567890, "on": true}"#;

fn job(id: &str, body: &str) -> JobView {
    let now = Timestamp::now();
    let mut spec = JobSpec::new("mail-out".parse().unwrap(), Payload { data: body.into(), content_type: None });
    spec.id = id.parse().unwrap();
    spec.key = Some("cust-17".into());
    spec.unique = Some(Unique { value: "u".into(), window: None });
    spec.priority = Priority::High;
    spec.metadata = vec![("order".into(), "17".into()), ("order".into(), "18".into())];
    let before = |minutes: u64| Timestamp::from_millis(now.as_millis() - minutes * 60_000);
    let detail = FailureDetail { code: "smtp-450".into(), message: "mailbox 7 is busy".into(), context: None };
    JobView {
        id: spec.id.clone(),
        state: JobState::Dead { since: before(10) },
        job: Some(Job { spec, enqueued_at: before(90), due_at: before(90) }),
        attempts: 3,
        last_failure: Some(Failure { reason: Reason::Timeout, detail, backtrace: None }),
        result: None,
        behind: None,
        rate_of_key: false,
        waits_for: None,
        checkpoint: None,
        claimed_at: None,
        progress: None,
        ended: None,
    }
}

#[track_caller]
fn query(text: &str) -> JobQuery {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_condition_holds_for_the_jobs_that_it_names() {
    let job = job("j1", BODY);
    for fits in [
        "",
        "state:dead",
        "state:ready,dead topic:mail* topic:*-out topic:m*l*t",
        "-topic:metrics -state:ready",
        "id:j1 key:cust-* unique:u priority:high",
        "reason:timeout,trap code:smtp-* message:\"mailbox 7 is busy\"",
        "attempts:3 attempts>2 attempts>=3 attempts<4 attempts<=3 -attempts>3",
        "age>1h age<2h age>=90m died>5m died<11m",
        "meta.order:17 meta.order:18 meta.order>17 -meta.order:19 -meta.none:*",
        "body.user.id:42 body.user.id>41.5 body.user.id<=42 -body.user.id:43",
        r#"body.user.name:"Ann \"A\"" body.big:12345678901234567890 body.on:true"#,
        "body.tags:b body.tags.0:a -body.tags.1:a -body.tags:c -body.user:* -body.none.id:42",
        "BUSY \"is busy\" Cust 42",
        "-worker:*",
        "key:\"cust-17\" -key:\"cust-*\"",
    ] {
        assert!(query(fits).fits(&job), "{fits}");
    }
    for text in ["state:ready", "-state:dead", "age>2h", "due<1h", "nothing", "topic:mail", "key:CUST-17", "id:j"] {
        assert!(!query(text).fits(&job), "{text}");
    }
    let group = query(&format!("group:{}", groups::group_of(&job)));
    assert!(group.fits(&job) && group.is_selective());
    assert!(!query("topic:mail state:dead").is_selective());
}

#[test]
fn bodies_that_are_no_json_fit_no_condition_about_values() {
    for body in ["", "{", "no json", "\u{1}", &format!("{BODY} x")] {
        assert!(!query("body.user.id:42").fits(&job("j", body)), "{body}");
    }
    let large = format!("{}{BODY}", " ".repeat(1 << 20));
    assert!(!query("body.user.id:42").fits(&job("j", &large)));
}

#[test]
fn a_mistake_is_named_with_its_place_and_the_remedy() {
    for (text, at, says) in [
        ("state:ded", 1, "`ded` is no state: use ready, delayed, waiting, running, dead"),
        ("a  reason:trapp", 4, "use failed, rejected, fuel-exhausted"),
        ("priority:urgent", 1, "use high, normal, low"),
        ("tpoic:a", 1, "there is no field `tpoic`: use state, topic"),
        ("http://x", 1, "put quotes around a text"),
        ("body.:1", 1, "there is no field `body.`"),
        ("meta:1", 1, "meta.NAME"),
        ("é age:1h", 3, "write `age>1h` or `age<1h`"),
        ("age>soon", 1, "`soon` is not"),
        ("attempts>many", 1, "`many` is no number"),
        ("body.x>NaN", 1, "is no number"),
        ("key>3", 1, "write `key:VALUE`"),
        ("key:", 1, "there is no value behind `key:`"),
        ("a -", 3, "there is no text"),
        ("a \"b c", 3, "a quote is not closed"),
        (&"a ".repeat(17), 33, "more than 16 conditions"),
        (&"a".repeat(2001), 2001, "more than 2000 characters"),
    ] {
        let error = text.parse::<JobQuery>().unwrap_err();
        assert!(error.at == at && error.problem.contains(says), "{text}: {error}");
    }
}

#[test]
fn made_up_queries_are_read_or_refused() {
    let known: [&[u8]; 4] = [
        b"state:dead reason:timeout age>1h",
        b"body.user.id:42 -key:\"a b\"",
        b"meta.x:a*,b words",
        b"died<=10m \"\\\"\"",
    ];
    let job = job("j", BODY);
    gristmill_fuzz::check("job query", &known, |input| {
        let read = String::from_utf8_lossy(input).parse::<JobQuery>();
        read.map(|query| (query.fits(&job), query.is_past(&job), query.id().is_some()))
    });
}

/// A list of jobs whose ids are their places.
#[derive(Debug)]
struct Numbered(Vec<JobView>);

#[async_trait]
impl ListJobs for Numbered {
    async fn jobs(
        &self,
        _: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let from = after.and_then(Cursor::last).map_or(0, |last| last.as_str().parse::<usize>().unwrap() + 1);
        let jobs: Vec<_> = self.0.iter().skip(from).take(limit).cloned().collect();
        let end = from + jobs.len();
        let last = jobs.last().map(|job| Cursor::new(place, 0.0, job.id.clone()));
        Ok(Page { jobs, next: last.filter(|_| end < self.0.len()) })
    }
}

#[tokio::test]
async fn a_scan_is_bounded_and_goes_on_without_losing_a_job() {
    let jobs = (0..1000).map(|n| job(&n.to_string(), &format!("{{\"n\": {}}}", n % 7))).collect();
    let (store, topic) = (Numbered(jobs), "t".parse().unwrap());
    for (room, look_at) in [(1, 10_000), (5, 10_000), (1000, 100), (1000, 1000), (3, 10)] {
        let (mut found, mut after, mut rounds) = (Vec::new(), None, 0);
        loop {
            let mut scanned = Scanned::at_most(room, look_at);
            let mut here = 0;
            let add = |job: JobView| {
                found.push(job.id.as_str().parse::<usize>().unwrap());
                here += 1;
            };
            after =
                scan(&store, (&topic, StateFilter::Dead), after, &query("body.n:3"), &mut scanned, add).await.unwrap();
            assert!(here <= room && scanned.looked_at <= look_at, "{room} {look_at}: {here}, {scanned:?}");
            rounds += 1;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, (0..1000).filter(|n| n % 7 == 3).collect::<Vec<_>>());
        assert!(rounds <= 1000 / look_at + 143 / room + 1, "{rounds}");
    }
}

#[tokio::test]
async fn a_scan_ends_where_no_further_job_can_fit() {
    let aged = |n: u64| {
        let view = job(&n.to_string(), "");
        let since = Timestamp::from_millis(Timestamp::now().as_millis() - n * 1000);
        JobView { state: JobState::Dead { since }, ..view }
    };
    let store = Numbered((0..1000).map(aged).collect());
    let mut scanned = Scanned::at_most(1000, 10_000);
    let mut found = 0;
    let query = query("died<60s");
    let topic = "t".parse().unwrap();
    let next = scan(&store, (&topic, StateFilter::Dead), None, &query, &mut scanned, |_| found += 1).await.unwrap();
    assert!(next.is_none() && scanned.looked_at == 200 && (1..=60).contains(&found), "{found}, {scanned:?}");
    assert!(found >= 60 - Duration::from_secs(30).as_secs());
}

#[test]
fn cursors_of_searches_read_as_they_are_written() {
    for text in ["mail/dead", "mail/ready:low:17:j0:0:90", "mail/near~dead:normal:7:j:0:0"] {
        assert_eq!(text.parse::<QueryCursor>().unwrap().to_string(), text);
    }
    for text in ["", "mail", "mail/", "mail/asleep", "/dead", "dead:normal:7:j:0:0"] {
        assert_eq!(text.parse::<QueryCursor>(), Err(BadQueryCursor), "{text}");
    }
}

#[test]
fn a_query_says_whether_it_asks_for_what_is_in_jobs() {
    for (text, reads) in [
        ("body.user:1", true),
        ("-meta.order:17", true),
        ("state:dead hush", true),
        ("state:dead reason:timeout key:a unique:b message:c id:*", false),
        ("", false),
    ] {
        assert_eq!(text.parse::<JobQuery>().unwrap().reads_payloads(), reads, "{text}");
    }
}
