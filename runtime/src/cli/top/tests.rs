use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::app::{App, Ask, View};
use super::draw;
use super::source::{RunningLine, Seen, TopicLine, WorkerLine};
use gristmill_core::job::TopicId;
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;
use gristmill_store::{DeadGroup, TopicCounts};

fn seen() -> Seen {
    let at = Timestamp::from_millis(1_800_000_000_000);
    let before = |seconds: u64| Timestamp::from_millis(at.as_millis() - seconds * 1000);
    let topic = |name: &str| name.parse::<TopicId>().unwrap();
    let line = |name: &str, ready, running, dead, paused| TopicLine {
        counts: TopicCounts {
            ready,
            running,
            dead,
            paused,
            oldest_ready: (ready > 0).then(|| before(90)),
            ..TopicCounts::none(topic(name))
        },
        done_per_second: Some(12.5),
        failed_per_second: None,
    };
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
        lease_until_ms: Timestamp::from_millis(at.as_millis() + 10_000),
        cancelled: false,
    };
    let worker = WorkerLine { worker: "host:1".into(), running: 1, topics: ["echo".to_owned()].into() };
    Seen {
        at,
        topics: vec![line("echo", 0, 1, 0, false), line("mail", 1200, 0, 130, true)],
        running: vec![job],
        workers: vec![worker],
        dead: vec![group],
    }
}

/// What a terminal of 100 by 10 shows.
fn shown(app: &App) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(100, 10)).unwrap();
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

#[test]
fn topics_are_drawn_with_counts_and_rates() {
    let lines = shown(&App::new(seen()));
    assert_eq!(lines[0], "gristmill  1200 ready  0 delayed  1 running  130 dead  25.0/s done");
    assert_eq!(lines[1], " topics 2   running 1   workers 1   dead 1");
    assert_eq!(lines[2], "TOPIC          READY  DELAYED  RUNNING  DEAD  DONE/S  FAILED/S  OLDEST");
    assert_eq!(lines[3], "echo               0        0        1     0    12.5         -");
    assert_eq!(lines[4], "mail (paused)   1200        0        0   130    12.5         -  1m30s ago");
    assert!(lines[9].starts_with("P pause"), "{lines:#?}");
}

#[test]
fn each_list_is_a_key_away_and_controls_of_a_terminal_are_not_drawn() {
    let mut app = App::new(seen());
    press(&mut app, "r");
    assert_eq!(shown(&app)[3], "j7   echo         2  30s ago  in 10s      host:1");
    press(&mut app, "w");
    assert_eq!(shown(&app)[3], "host:1        1  echo");
    assert_eq!(press(&mut app, "d"), Some(Ask::Look));
    let dead = shown(&app);
    assert!(dead[3].starts_with(" 130  mail   timeout  timeout  1m ago  ran longer than #s"), "{dead:#?}");
    assert!(!dead[3].contains('\u{1b}'), "{dead:#?}");
    press(&mut app, "\t");
    assert_eq!(app.view, View::Topics);
    press(&mut app, "?");
    assert!(shown(&app)[2].starts_with("t r w d"));
}

#[test]
fn a_filter_narrows_the_rows_and_what_keys_act_on() {
    let mut app = App::new(seen());
    press(&mut app, "/mai");
    assert_eq!(shown(&app)[9], "/mai_");
    press(&mut app, "\n");
    let lines = shown(&app);
    assert!(lines[3].starts_with("mail") && lines[4].is_empty(), "{lines:#?}");
    assert_eq!(press(&mut app, "P"), Some(Ask::SetPaused("mail".parse().unwrap(), false)));
    press(&mut app, "\u{1b}k");
    assert_eq!(press(&mut app, "P"), Some(Ask::SetPaused("echo".parse().unwrap(), true)));
    press(&mut app, "/nothing\n");
    assert_eq!(press(&mut app, "P"), None);
}

#[test]
fn a_group_is_acted_on_only_once_its_number_is_typed() {
    let group = seen().dead.remove(0);
    let mut app = App::new(seen());
    assert_eq!(press(&mut app, "R"), None);
    press(&mut app, "dR");
    assert!(app.is_frozen());
    assert_eq!(shown(&app)[9], "respawn 130 jobs? type 130 and Enter, or Esc: _");
    assert_eq!(press(&mut app, "13\n"), None);
    assert!(shown(&app)[8].contains("nothing was changed"));
    assert_eq!(press(&mut app, "D\u{1b}\n"), None);
    assert_eq!(press(&mut app, "D130\n"), Some(Ask::Delete(group)));
}

#[test]
fn lower_case_keys_change_nothing() {
    let mut app = App::new(seen());
    for view in "trwd".chars() {
        press(&mut app, &view.to_string());
        for key in ('a'..='z').filter(|key| !"qtrwd".contains(*key)) {
            assert_eq!(press(&mut app, &key.to_string()), None, "{view} {key}");
        }
    }
    press(&mut app, "r");
    assert_eq!(press(&mut app, "C"), Some(Ask::Cancel("echo".parse().unwrap(), "j7".parse().unwrap())));
    assert_eq!(press(&mut app, "q"), Some(Ask::Quit));
}
