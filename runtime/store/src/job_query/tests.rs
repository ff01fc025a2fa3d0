use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;

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
    spec.options.key = Some("cust-17".into());
    spec.options.unique = Some(Unique { value: "u".into(), window: None });
    spec.options.priority = Priority::High;
    spec.metadata = vec![("order".into(), "17".into()), ("order".into(), "18".into())];
    let before = |minutes: u64| Timestamp::from_millis(now.as_millis() - minutes * 60_000);
    let detail = FailureDetail { code: "smtp-450".into(), message: "mailbox 7 is busy".into(), context: None };
    let id = spec.id.clone();
    JobView {
        state: JobState::Dead { since: before(10) },
        job: Some(Job { spec, enqueued_at: before(90), due_at: before(90) }),
        last_failure: Some(Failure::new(Reason::Timeout, detail)),
        ..JobView::over(id, 3, None)
    }
}

#[track_caller]
fn query(text: &str) -> JobQuery {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Of a job that is so small that other requests need no turn.
fn fits(query: &JobQuery, job: &JobView) -> bool {
    query.fits(job).now_or_never().unwrap()
}

#[test]
fn every_condition_holds_for_the_jobs_that_it_names() {
    let job = job("j1", BODY);
    for held in [
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
        "-\"NOT\" -nor",
        "-worker:*",
        "key:\"cust-17\" -key:\"cust-*\"",
    ] {
        assert!(fits(&query(held), &job), "{held}");
    }
    for text in ["state:ready", "-state:dead", "age>2h", "due<1h", "nothing", "topic:mail", "key:CUST-17", "id:j"] {
        assert!(!fits(&query(text), &job), "{text}");
    }
    let group = query(&format!("group:{}", group::group_of(&job)));
    assert!(fits(&group, &job) && group.is_selective());
    assert!(!query("topic:mail state:dead").is_selective());
}

#[test]
fn a_dot_in_quotes_belongs_to_a_name_of_a_body() {
    let job = job("j1", r#"{"a.b": {"c": 7}, "a": {"b": 8}}"#);
    for held in [r#"body."a.b".c:7 body."a.b".c>6"#, r#"body.a.b:8 body."a"."b":8"#, r#"-body."a.b":8 -"id=j1" -c=7"#] {
        assert!(fits(&query(held), &job), "{held}");
    }
}

#[test]
fn bodies_that_are_no_json_fit_no_condition_about_values() {
    for body in ["", "{", "no json", "\u{1}", &format!("{BODY} x")] {
        assert!(!fits(&query("body.user.id:42"), &job("j", body)), "{body}");
    }
    let large = format!("{}{BODY}", " ".repeat(1 << 20));
    assert!(!fits(&query("body.user.id:42"), &job("j", &large)));
}

#[test]
fn a_mistake_is_named_with_its_place_and_the_remedy() {
    for (text, at, says) in [
        ("state:ded", 1, "`ded` is no state: use ready, delayed, waiting, running, dead"),
        ("a  reason:trapp", 4, "use failed, rejected, fuel-exhausted"),
        ("priority:urgent", 1, "use high, normal, low"),
        ("state:finished state:dead", 16, "write `state:ready,dead` for jobs in any of these"),
        ("tpoic:a", 1, "there is no field `tpoic`: use state, topic"),
        ("http://x", 1, "put quotes around a text"),
        ("body.:1", 1, "there is no field `body.`"),
        ("meta:1", 1, "meta.NAME"),
        ("é age:1h", 3, "write `age>1h` or `age<1h`"),
        ("age>soon", 1, "`soon` is not"),
        ("attempts>many", 1, "`many` is no number"),
        ("body.x>NaN", 1, "is no number"),
        ("key>3", 1, "write `key:VALUE`"),
        ("key:", 1, "there is no value behind `key:`: write it without a blank, or `key:*` for any"),
        ("due<", 1, "there is no value behind `due<`: write it without a blank, as in `due<1h`"),
        ("a -", 3, "there is no text"),
        ("key:a OR key:b", 7, "`key:a,b`"),
        ("NOT key:a", 1, "`-key:a`"),
        ("a AND b", 3, "leave `AND` out"),
        ("age > 1h", 5, "without blanks, as in `age>1h`"),
        ("age> 1h", 1, "without a blank"),
        ("a -id=b1", 3, "write `id:` in place of `id=`, or put quotes around it"),
        ("body.user.id=\"42\"", 1, "write `body.user.id:`"),
        ("a \"b c", 3, "a quote is not closed"),
        (&format!("a key:{}", "a*,".repeat(17)), 3, "more than 16 values with `*`"),
        (&format!("body{}:1", ".a".repeat(65)), 1, "64 names at most"),
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
        read.map(|query| (fits(&query, &job), query.is_past(&job), query.id().is_some()))
    });
}

#[test]
fn paths_that_are_parts_of_others_and_names_that_are_numbers_lead_to_values() {
    let body = r#"{"a": [1, [2], {"b": 3, "0": "four"}, "fi\u0076e"], "b": {"a": {"c": -1.50e1}}, "n": {"1": [7, 8]}, "b": 9}"#;
    let job = job("j", body);
    for held in [
        "body.a:1 body.a:five -body.a:2 body.a.1:2 body.a.2.b:3 body.a.2.0:four body.a.2.b>=3 -body.a.2:*",
        "body.b.a.c:-1.50e1 body.b.a.c<-14.9 body.b.a.c>=-15 -body.b.a:* body.b:9",
        "body.n.1:8 body.n.1.0:7 body.n.1>7.5 -body.n:* -body.n.2:*",
        "body.a:1,x body.a:f*e -body.a:four,2 body.a>0 body.a<=1 -body.a>1",
    ] {
        assert!(fits(&query(held), &job), "{held}");
    }
}

#[test]
fn numbers_are_compared_to_the_last_digit() {
    let mut job = job("j", r#"{"user": 3889108265204450030, "text": "9007199254740993", "huge": 1e999}"#);
    if let Some(job) = &mut job.job {
        job.spec.metadata = vec![("order".into(), "3889108265204450030".into())];
    }
    for held in [
        "-body.user>=3889108265204450031 body.user<3889108265204450031 body.user>3889108265204450029.9",
        "-meta.order>=3889108265204450031 -meta.order>3889108265204450030 meta.order>=3889108265204450030",
        "body.text>9007199254740992 -body.text>9007199254740993 body.huge>1e998 body.huge<=1e999 attempts>=3.0",
    ] {
        assert!(fits(&query(held), &job), "{held}");
    }
}

/// Records each job that was held against it, and says that it fits.
#[derive(Debug, Default)]
struct JobRecorder(parking_lot::Mutex<Vec<JobId>>);

#[async_trait]
impl ChooseJobs for JobRecorder {
    async fn fits(&self, job: &JobView) -> bool {
        self.0.lock().push(job.id.clone());
        true
    }

    fn is_past(&self, _: &JobView) -> bool {
        false
    }
}

#[tokio::test]
async fn a_job_is_held_against_a_query_once() {
    let store = Numbered((0..1000).map(|n| job(&n.to_string(), "")).collect());
    let (recorder, topic, mut scanned) = (JobRecorder::default(), "t".parse().unwrap(), Scanned::at_most(450, 10_000));
    scan(&store, (&topic, StateFilter::Dead), None, &recorder, &mut scanned, |_| ()).await.unwrap();
    let held = recorder.0.into_inner();
    assert_eq!(held.iter().collect::<std::collections::HashSet<_>>().len(), held.len());
    assert_eq!((scanned.looked_at, held.len()), (450, 451));
}

#[tokio::test]
async fn a_request_finds_no_more_than_a_few_mib_and_others_have_their_turn() {
    let with_failure = |n: usize| {
        let mut view = job(&n.to_string(), "");
        let context = Payload { data: vec![b'x'; 1 << 20], content_type: None };
        view.last_failure.as_mut().unwrap().detail.context = Some(context);
        view
    };
    let store = Numbered((0..30).map(with_failure).collect());
    let topic = "t".parse().unwrap();
    let turns = std::rc::Rc::new(std::cell::Cell::new(0));
    let (query, mut scanned, mut found) = (query("state:dead"), Scanned::at_most(1000, 10_000), 0);
    let counted = turns.clone();
    let others = async move {
        loop {
            counted.set(counted.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    let search = scan(&store, (&topic, StateFilter::Dead), None, &query, &mut scanned, |_| found += 1);
    let next = tokio::select! {
        biased;
        next = search => next.unwrap(),
        () = others => None,
    };
    // A store's pages are bounded, these are not.
    assert!(next.is_none() && found == 30 && scanned.room_bytes == 0 && scanned.bytes == 0, "{found}, {scanned:?}");
    assert!(turns.get() >= 30, "{}", turns.get());
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
    for text in [
        "mail/dead",
        "mail/ready:low:17:j0:0:90",
        "mail/near~dead:normal:7:j:0:0",
        "mail/finished",
        "mail/finished:17:j0",
    ] {
        assert_eq!(text.parse::<QueryCursor>().unwrap().to_string(), text);
    }
    for text in
        ["", "mail", "mail/", "mail/asleep", "mail/finished:x:j", "mail/finished:7", "/dead", "dead:normal:7:j:0:0"]
    {
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
