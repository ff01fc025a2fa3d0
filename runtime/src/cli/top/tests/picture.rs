//! The picture of `top` in the docs: what it draws of made-up topics, as SVG.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use crate::cli::top::app::App;
use crate::cli::top::draw;
use crate::cli::top::source::{Seen, TopicRow};
use crate::cli::topic_line::seen_with;
use gristmill_core::time::Timestamp;

/// Of a character, in pixels.
const WIDTH: u16 = 8;
const HEIGHT: u16 = 18;
/// Around the text.
const MARGIN: u16 = 14;
const PAPER: &str = "#14181f";
const INK: &str = "#d7dce3";
const WARNING: &str = "#e5b567";

fn app() -> App {
    let at = Timestamp::from_millis(1_800_000_000_000);
    let before = |seconds: u64| Timestamp::from_millis(at.as_millis() - seconds * 1000);
    let row = |fields: Value, done: f64, failed: f64| TopicRow {
        line: seen_with(&fields),
        done_per_second: Some(done),
        failed_per_second: Some(failed),
    };
    let run = |p50_us: u64, p99_us: u64| json!({ "attempts": 900, "p50_us": p50_us, "p99_us": p99_us });
    let lacks = json!({ "reason": "lacks-grants", "detail": "`mail` needs what the topic does not grant: `clock`" });
    let refused = "it imports wasi:sockets, which no topic can grant";
    let topics = vec![
        row(
            json!({ "topic": "audit", "handler": "audit", "version": "8ce74f1b22d0", "running": 2, "run": run(700, 4100) }),
            412.5,
            0.0,
        ),
        row(
            json!({ "version": null, "lacking": ["clock"], "ready": 1204, "oldest_ready_ms": before(252), "delayed": 3, "idle": lacks }),
            0.0,
            0.0,
        ),
        row(
            json!({ "topic": "report", "handler": "report", "version": "1f09aa3c7e55", "running": 12, "ready": 41, "dead": 2,
                "oldest_ready_ms": before(3), "run": run(1_800_000, 9_400_000), "refused": refused }),
            6.5,
            0.5,
        ),
        row(
            json!({ "topic": "thumbnail", "handler": "thumbnail", "version": "77aa01d4c9b8", "running": 8, "ready": 310, "delayed": 6, "dead": 19,
                "oldest_ready_ms": before(1), "run": run(38_000, 121_000) }),
            183.0,
            1.5,
        ),
    ];
    App::new(Seen { at, topics, ..Seen::default() }, false)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn look(cell: &Cell) -> (bool, bool, bool) {
    let has = |modifier| cell.modifier.contains(modifier);
    (has(Modifier::REVERSED), has(Modifier::BOLD), cell.fg == Color::Yellow)
}

fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (area.width * WIDTH + 2 * MARGIN, area.height * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" \
         font-size=\"13\" fill=\"{INK}\">\n<title>gristmill top: topics</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for y in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width).filter_map(|x| buffer.cell((x, y))).collect();
        let mut x = 0;
        for run in cells.chunk_by(|a, b| look(a) == look(b)) {
            let (reversed, bold, yellow) = look(run[0]);
            let text: String = run.iter().map(|cell| cell.symbol()).collect();
            let length = u16::try_from(run.len()).unwrap() * WIDTH;
            let (left, top) = (MARGIN + x, MARGIN + y * HEIGHT);
            x += length;
            if reversed {
                svg += &format!(
                    "<rect x=\"{left}\" y=\"{top}\" width=\"{length}\" height=\"{HEIGHT}\" fill=\"{INK}\"/>\n"
                );
            }
            // Words one by one: no font has exactly the width of another.
            let weight = if bold { " font-weight=\"bold\"" } else { "" };
            let fill = if reversed {
                PAPER
            } else if yellow {
                WARNING
            } else {
                INK
            };
            let mut place = 0;
            for word in text.split_inclusive(' ') {
                let begin = u16::try_from(place).unwrap() * WIDTH;
                place += word.chars().count();
                let word = word.trim();
                let long = u16::try_from(word.chars().count()).unwrap() * WIDTH;
                if !word.is_empty() {
                    let (left, base) = (left + begin, top + 13);
                    svg += &format!(
                        "<text x=\"{left}\" y=\"{base}\" textLength=\"{long}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{fill}\"{weight}>{}</text>\n",
                        escaped(word)
                    );
                }
            }
        }
    }
    svg + "</svg>\n"
}

#[test]
fn the_picture_in_the_docs_is_what_top_draws() {
    let mut terminal = Terminal::new(TestBackend::new(150, 11)).unwrap();
    terminal.draw(|frame| draw::draw(frame, &app())).unwrap();
    let (drawn, path) = (svg(terminal.backend().buffer()), concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/top.svg"));
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        std::fs::write(path, &drawn).unwrap();
    }
    let shown = std::fs::read_to_string(path).unwrap_or_default();
    assert!(shown == drawn, "`scripts/pictures.sh top` draws docs/top.svg anew");
}
