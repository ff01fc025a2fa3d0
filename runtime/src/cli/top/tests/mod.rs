mod picture;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::app::{App, Ask};
use super::source::{JobPage, RunningLine, Seen, TopicRow};
use super::view::View;
use super::{draw, list};
use crate::cli::topic_line::seen_with;
use gristmill_core::job::TopicId;
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;
use gristmill_server::StreamedEvent;
use gristmill_store::{DeadGroup, JobState, JobView};

fn seen() -> Seen {
    let at = Timestamp::from_millis(1_800_000_000_000);
    let before = |seconds: u64| Timestamp::from_millis(at.as_millis() - seconds * 1000);
    let topic = |name: &str| name.parse::<TopicId>().unwrap();
    let row =
        |fields: Value| TopicRow { line: seen_with(&fields), done_per_second: Some(12.5), failed_per_second: None };
    let group = DeadGroup {
        topic: topic("mail"),
        reason: Some(Reason::Timeout),
        code: "timeout".into(),
        message: "ran longer than #s\u{1b}[2J".into(),
        q: "topic:mail state:dead group:1".into(),
        count: 130,
        first: before(500),
        last: before(60),
        sample: "j1".parse().unwrap(),
    };
    let job = RunningLine {
        id: "j7".parse().unwrap(),
        topic: topic("echo"),
        worker: "host:1".into(),
        attempts: 2,
        enqueued_at_ms: before(30),
        claimed_at_ms: Some(before(12)),
        lease_until_ms: Timestamp::from_millis(at.as_millis() + 10_000),
        cancelled: false,
    };
    let worker = json!({ "worker": "host-1-0", "kind": "runner", "heartbeat_at_ms": before(2), "running": 1, "topics": ["echo"] });
    let paused = json!({ "reason": "paused", "detail": "resume it" });
    let limits = json!({
        "concurrency": 8, "max_running": null, "rate": null, "burst": null, "attempts": 3, "backoff_base_ms": 1, "backoff_max_ms": 1,
        "timeout_ms": 60_000, "fuel": 1, "memory_bytes": 1, "payload_bytes": 1, "output_bytes": 1, "result_retention_ms": 1,
        "ended_retention_ms": 1,
    });
    let run = json!({ "attempts": 9, "p50_us": 900, "p99_us": 40_000 });
    Seen {
        at,
        topics: vec![
            row(json!({ "topic": "echo", "handler": "echo", "running": 1, "run": run, "limits": limits })),
            row(json!({ "ready": 1200, "dead": 130, "oldest_ready_ms": before(90), "paused": true, "idle": paused })),
        ],
        running: vec![job],
        workers: vec![serde_json::from_value(worker).unwrap()],
        dead: vec![group],
        ..Seen::default()
    }
}

fn app() -> App {
    App::new(seen(), false)
}

/// What a terminal of 130 by 12 shows.
fn shown(app: &App) -> Vec<String> {
    shown_within(app, 130)
}

fn shown_within(app: &App, columns: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, 12)).unwrap();
    terminal.draw(|frame| draw::draw(frame, app)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

fn press(app: &mut App, keys: &str) -> Option<Ask> {
    let mut asked = None;
    for char in keys.chars() {
        let code = match char {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            char => KeyCode::Char(char),
        };
        asked = app.on(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
    asked
}

fn job(state: JobState) -> JobView {
    let spec = gristmill_core::job::JobSpec::new("mail".parse().unwrap(), Default::default());
    let at = Timestamp::from_millis(1_800_000_000_000);
    let id = spec.id.clone();
    let job = gristmill_core::job::Job { spec, enqueued_at: at, due_at: at };
    JobView { state, job: Some(job), ..JobView::over(id, 3, None) }
}

#[test]
fn a_narrow_terminal_cuts_no_title() {
    let mut app = app();
    for key in ["t", "r", "d"] {
        press(&mut app, key);
        let known: Vec<_> =
            list::list(app.seen(), app.view()).titles.iter().map(|title| title.trim_start_matches('>')).collect();
        let titles = shown_within(&app, 50).swap_remove(3);
        let titles: Vec<_> = titles.split("  ").map(str::trim).filter(|title| !title.is_empty()).collect();
        assert!(titles.iter().all(|title| known.contains(title)), "{titles:?}");
        assert_eq!((titles.first(), titles.last()), (known.first(), known.last()));
    }
}

#[test]
fn tenants_that_are_missing_are_noted_until_they_are_back() {
    let missing = "failed to read tenant `acme`: the store at here is unavailable";
    let mut app = App::new(Seen { missing: Some(missing.into()), ..seen() }, false);
    assert_eq!(shown(&app)[10], missing);
    app.see(seen());
    assert_eq!(shown(&app)[10], "");
}

#[test]
fn topics_are_drawn_with_counts_rates_handler_and_why_they_are_idle() {
    let lines = shown(&app());
    assert_eq!(lines[0], "gristmill  1,200 ready  0 delayed  1 running  130 dead  25.0/s done");
    assert_eq!(lines[1], "! mail: 1,200 ready, paused: resume it", "what needs a person stands above all lists");
    assert_eq!(lines[2], " topics 2");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(words(&lines[3]), "TOPIC READY DELAYED RUNNING DEAD DONE/S FAILED/S OLDEST RUN50 RUN99 HANDLER STATE");
    assert_eq!(words(&lines[4]), "echo 0 0 1 0 12.5 - 900us 40ms echo 9f2c");
    assert_eq!(words(&lines[5]), "mail (paused) 1,200 0 0 130 12.5 - 1m30s - - mail 9f2c paused: resume it");
    assert!(lines[11].starts_with("P pause"), "{lines:#?}");
}

#[test]
fn each_view_is_a_key_or_a_name_away_and_controls_of_a_terminal_are_not_drawn() {
    let mut app = app();
    assert_eq!(press(&mut app, "r"), Some(Ask::Look));
    assert_eq!(shown(&app)[4], "j7   echo         2  30s ago  12s of 1m  in 10s      host:1");
    press(&mut app, "w");
    assert_eq!(shown(&app)[4], "host-1-0  runner  2s ago           1  echo");
    assert_eq!(press(&mut app, ":de"), None);
    assert_eq!(shown(&app)[11], ":de_");
    assert_eq!(press(&mut app, "\n"), Some(Ask::Look));
    let dead = shown(&app);
    assert!(dead[4].starts_with(" 130  mail   timeout  timeout  1m ago  ran longer than #s"), "{dead:#?}");
    assert!(!dead[4].contains('\u{1b}'), "{dead:#?}");
    press(&mut app, "\t");
    assert_eq!(*app.view(), View::Topics);
    press(&mut app, ":jobs state:dead age>1h\n");
    assert_eq!(*app.view(), View::Jobs { tenant: None, query: "state:dead age>1h".into() });
    for view in ["attempts", "schedules", "events", "topics", "workers", "running"] {
        press(&mut app, &format!(":{view}\n"));
        assert_eq!(app.view().name(), view);
    }
    press(&mut app, ":nothing\n");
    assert!(shown(&app)[10].starts_with("there is no view `nothing`: topics, jobs, running"), "{:#?}", shown(&app));
    press(&mut app, "?");
    assert!(shown(&app)[3].starts_with(": NAME"));
}

#[test]
fn enter_opens_what_is_selected_and_esc_goes_back() {
    let mut app = app();
    assert_eq!(press(&mut app, "j\n"), Some(Ask::Look));
    let jobs = View::Jobs { tenant: Some("default".parse().unwrap()), query: "topic:mail".into() };
    assert_eq!(*app.view(), jobs);
    let dead = job(JobState::Dead { since: seen().at });
    app.see(Seen { jobs: vec![dead.clone()], ..seen() });
    let lines = shown(&app);
    assert_eq!(lines[2], " topics   jobs topic:mail 1");
    assert!(lines[4].contains(dead.id.as_str()) && lines[4].contains("dead"), "{lines:#?}");
    assert_eq!(press(&mut app, "\n"), Some(Ask::Look));
    assert_eq!(*app.view(), View::Job { tenant: "default".parse().unwrap(), id: dead.id.clone() });
    let text = "id     x\nstate  dead\n\n3s ago  mail  x  attempt 3  failed, bury  2s\n    failed: no route".to_owned();
    app.see(Seen { job: Some(JobPage { view: dead.clone(), text }), ..seen() });
    let lines = shown(&app);
    assert_eq!([&*lines[4], &*lines[8]], ["id     x", "    failed: no route"]);
    let topic: TopicId = "mail".parse().unwrap();
    assert_eq!(press(&mut app, "R"), Some(Ask::RespawnJob(topic, dead.id)));
    assert_eq!(press(&mut app, "\u{1b}"), Some(Ask::Look));
    assert_eq!(*app.view(), jobs);
    press(&mut app, "\u{1b}");
    assert_eq!(*app.view(), View::Topics);
    assert_eq!(press(&mut app, "\u{1b}"), None, "there is nothing before the first view");
    press(&mut app, "d\n");
    let of_group =
        View::Jobs { tenant: Some("default".parse().unwrap()), query: "topic:mail state:dead group:1".into() };
    assert_eq!(*app.view(), of_group);
}

#[test]
fn a_filter_narrows_the_rows_and_what_keys_act_on() {
    let mut app = app();
    press(&mut app, "/mai");
    assert_eq!(shown(&app)[11], "/mai_");
    press(&mut app, "\n");
    let lines = shown(&app);
    assert!(lines[4].starts_with("mail") && lines[5].is_empty(), "{lines:#?}");
    assert_eq!(press(&mut app, "P"), Some(Ask::SetPaused("mail".parse().unwrap(), false)));
    press(&mut app, "\u{1b}k");
    assert_eq!(press(&mut app, "P"), Some(Ask::SetPaused("echo".parse().unwrap(), true)));
    press(&mut app, "/nothing\n");
    assert_eq!(press(&mut app, "P"), None);
}

#[test]
fn rows_are_sorted_by_what_numbers_and_times_are_worth() {
    let mut app = app();
    let first = |app: &App| shown(app)[4].split_whitespace().next().map(str::to_owned);
    press(&mut app, "ss");
    assert!(shown(&app)[3].contains("READYv"), "{:#?}", shown(&app));
    assert_eq!(first(&app).as_deref(), Some("mail"), "1,200 is more than 0");
    press(&mut app, "o");
    assert_eq!(first(&app).as_deref(), Some("echo"));
    assert_eq!(press(&mut app, "P"), Some(Ask::SetPaused("echo".parse().unwrap(), true)), "keys act on what is shown");
}

#[test]
fn a_group_is_acted_on_only_once_its_number_is_typed() {
    let group = seen().dead.remove(0);
    let mut app = app();
    assert_eq!(press(&mut app, "R"), None);
    press(&mut app, "dR");
    assert!(app.is_frozen());
    assert_eq!(shown(&app)[11], "respawn 130 jobs? type 130 and Enter, or Esc: _");
    assert_eq!(press(&mut app, "13\n"), None);
    assert!(shown(&app)[10].contains("nothing was changed"));
    assert_eq!(press(&mut app, "D\u{1b}\n"), Some(Ask::Look), "Enter opens the group");
    press(&mut app, "\u{1b}");
    assert_eq!(press(&mut app, "D130\n"), Some(Ask::Delete(group)));
}

#[test]
fn lower_case_keys_change_nothing() {
    let mut app = app();
    for view in "trwd".chars() {
        press(&mut app, &view.to_string());
        for key in ('a'..='z').filter(|key| !"qtrwd".contains(*key)) {
            assert_eq!(press(&mut app, &key.to_string()), None, "{view} {key}");
        }
    }
    press(&mut app, "r");
    assert_eq!(press(&mut app, "C"), Some(Ask::Cancel("echo".parse().unwrap(), "j7".parse().unwrap())));
    assert_eq!(press(&mut app, "K"), Some(Ask::Kill("echo".parse().unwrap(), "j7".parse().unwrap())));
    assert_eq!(press(&mut app, "q"), Some(Ask::Quit));
}

#[test]
fn nothing_is_changed_if_it_was_started_read_only() {
    let mut app = App::new(seen(), true);
    assert!(shown(&app)[0].ends_with("read-only"), "{:#?}", shown(&app));
    for keys in ["P", "rC", "K", "dR", "D"] {
        assert_eq!(press(&mut app, keys), None, "{keys}");
        assert!(shown(&app)[10].contains("--read-only"), "{keys}: {:#?}", shown(&app));
    }
}

fn events(documents: &[Value]) -> Vec<StreamedEvent> {
    documents.iter().map(|document| serde_json::from_value(document.clone()).unwrap()).collect()
}

#[test]
fn events_come_in_at_the_top_while_the_first_row_is_selected_and_can_be_filtered_and_opened() {
    let mut app = app();
    assert_eq!(press(&mut app, ":ev\n"), Some(Ask::Look));
    let at = seen().at;
    let before = |seconds: u64| at.as_millis() - seconds * 1000;
    let pushed = json!({ "kind": "job-pushed", "at_ms": before(2), "tenant": "default", "topic": "echo", "job": "j8" });
    app.see(Seen { events: events(std::slice::from_ref(&pushed)), ..seen() });
    assert_eq!(shown(&app)[4], "2s ago  job-pushed  echo   j8");
    let paused = json!({ "kind": "topic-paused", "at_ms": before(1), "tenant": "acme", "topic": "mail", "actor": "eve\u{1b}[2J" });
    let dead = json!({ "kind": "job-dead", "at_ms": before(0), "tenant": "default", "topic": "echo", "job": "j8",
        "attempt": 2, "duration_ms": 1500, "fuel": 20417, "memory_peak_bytes": 1_114_112, "reason": "trap" });
    let all = [json!({ "missed": 1200 }), dead, paused, pushed];
    app.see_events(at, events(&all));
    let lines = shown(&app);
    assert!(lines[2].contains("events 4"), "{lines:#?}");
    assert_eq!(lines[4].trim(), "1,200 missed");
    assert!(lines[5].contains("job-dead") && lines[5].contains("duration 1.5s  fuel 20,417"), "{lines:#?}");
    assert!(lines[6].contains("acme/mail") && !lines[6].contains('\u{1b}'), "{lines:#?}");
    // An event is nothing that keys could change.
    assert_eq!(press(&mut app, "j"), None);
    for key in ["P", "C", "K", "R", "D"] {
        assert_eq!(press(&mut app, key), None, "{key}");
    }
    app.see_events(at, events(&all[1..2]));
    app.see(seen());
    assert!(shown(&app)[2].contains("events 4"), "rows do not move below a person");
    assert_eq!(press(&mut app, "\n"), Some(Ask::Look));
    assert_eq!(*app.view(), View::Job { tenant: "default".parse().unwrap(), id: "j8".parse().unwrap() });
    press(&mut app, "\u{1b}");
    app.see(Seen { events: events(&all), ..seen() });
    press(&mut app, "/pause\n");
    app.see_events(at, events(&all));
    let lines = shown(&app);
    assert!(lines[4].contains("topic-paused") && lines[5].is_empty(), "{lines:#?}");
    press(&mut app, "\n");
    assert_eq!(*app.view(), View::jobs_of(&"acme/mail".parse().unwrap()));
}
