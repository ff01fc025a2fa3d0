//! What is shown, and what keys do.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw;
use super::source::Seen;
use gristmill_core::job::{JobId, TopicId};
use gristmill_store::DeadGroup;

/// What a key wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Quit,
    /// Read the store again.
    Look,
    SetPaused(TopicId, bool),
    Cancel(TopicId, JobId),
    Respawn(DeadGroup),
    Delete(DeadGroup),
}

/// One of the lists, by its place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Topics,
    Running,
    Workers,
    Dead,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Topics, Self::Running, Self::Workers, Self::Dead];

    fn next(self) -> Self {
        match self {
            Self::Topics => Self::Running,
            Self::Running => Self::Workers,
            Self::Workers => Self::Dead,
            Self::Dead => Self::Topics,
        }
    }
}

/// What keys are read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Keys,
    Help,
    /// The text of the filter.
    Filter,
    /// A question: the number of jobs, and what was typed so far.
    Confirm {
        ask: Box<Ask>,
        what: &'static str,
        count: usize,
        typed: String,
    },
}

#[derive(Debug)]
pub(super) struct App {
    seen: Seen,
    pub(super) view: View,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// What was done last, or why nothing was read.
    pub(super) note: Option<String>,
    selected: usize,
    frozen: bool,
}

impl App {
    pub(super) fn new(seen: Seen) -> Self {
        let (filter, note) = (String::new(), None);
        Self { seen, view: View::Topics, mode: Mode::Keys, filter, note, selected: 0, frozen: false }
    }

    /// Takes what was read.
    pub(super) fn see(&mut self, seen: Seen) {
        self.seen = seen;
    }

    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Nothing is read while a person answers a question, so that rows do not move.
    pub(super) const fn is_frozen(&self) -> bool {
        self.frozen || matches!(self.mode, Mode::Confirm { .. })
    }

    pub(super) fn shows_dead(&self) -> bool {
        self.view == View::Dead
    }

    /// The places of the rows that are shown in the list, and which of them is selected.
    pub(super) fn rows(&self, all: &[Vec<String>]) -> (Vec<usize>, Option<usize>) {
        let filter = self.filter.to_lowercase();
        let fits = |row: &[String]| row.iter().any(|cell| cell.to_lowercase().contains(&filter));
        let shown: Vec<_> = all.iter().enumerate().filter(|(_, row)| fits(row)).map(|(place, _)| place).collect();
        let selected = shown.len().checked_sub(1).map(|last| self.selected.min(last));
        (shown, selected)
    }

    fn selected(&self) -> Option<usize> {
        let list = draw::list(&self.seen, self.view);
        let (shown, selected) = self.rows(&list.rows);
        shown.get(selected?).copied()
    }

    /// Reads an event of the terminal.
    pub(super) fn on(&mut self, event: &Event) -> Option<Ask> {
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => self.on_key(key),
            _ => None,
        }
    }

    fn on_key(&mut self, key: &KeyEvent) -> Option<Ask> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Ask::Quit);
        }
        match &mut self.mode {
            Mode::Keys => self.on_usual_key(key.code),
            Mode::Help => {
                self.mode = Mode::Keys;
                None
            }
            Mode::Filter => {
                self.selected = 0;
                match key.code {
                    KeyCode::Enter => self.mode = Mode::Keys,
                    KeyCode::Esc => self.leave(),
                    KeyCode::Backspace => _ = self.filter.pop(),
                    KeyCode::Char(char) => self.filter.push(char),
                    _ => {}
                }
                None
            }
            Mode::Confirm { ask, count, typed, .. } => match key.code {
                KeyCode::Enter => {
                    let ask = (typed.parse::<usize>().ok() == Some(*count)).then(|| Ask::clone(ask));
                    self.note = ask.is_none().then(|| "nothing was changed: that is not their number".into());
                    self.mode = Mode::Keys;
                    ask
                }
                KeyCode::Esc => {
                    self.leave();
                    None
                }
                KeyCode::Backspace => {
                    typed.pop();
                    None
                }
                KeyCode::Char(char) => {
                    typed.push(char);
                    None
                }
                _ => None,
            },
        }
    }

    fn leave(&mut self) {
        self.mode = Mode::Keys;
        self.filter.clear();
        self.note = None;
    }

    fn on_usual_key(&mut self, key: KeyCode) -> Option<Ask> {
        match key {
            KeyCode::Char('q') => return Some(Ask::Quit),
            KeyCode::Char('t') => return self.show(View::Topics),
            KeyCode::Char('r') => return self.show(View::Running),
            KeyCode::Char('w') => return self.show(View::Workers),
            KeyCode::Char('d') => return self.show(View::Dead),
            KeyCode::Tab => return self.show(self.view.next()),
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Esc => self.leave(),
            KeyCode::Char('P') => return self.set_paused(),
            KeyCode::Char('C') => return self.cancel(),
            KeyCode::Char('R') => self.confirm("respawn", Ask::Respawn),
            KeyCode::Char('D') => self.confirm("delete", Ask::Delete),
            _ => {}
        }
        None
    }

    fn show(&mut self, view: View) -> Option<Ask> {
        (self.view, self.selected) = (view, 0);
        // The dead are read only while they are shown.
        self.shows_dead().then_some(Ask::Look)
    }

    fn step(&mut self, by: isize) {
        let list = draw::list(&self.seen, self.view);
        let (_, selected) = self.rows(&list.rows);
        self.selected = selected.unwrap_or(0).saturating_add_signed(by);
    }

    fn set_paused(&self) -> Option<Ask> {
        let topic = self.seen.topics.get(self.selected().filter(|_| self.view == View::Topics)?)?;
        Some(Ask::SetPaused(topic.counts.topic.clone(), !topic.counts.paused))
    }

    fn cancel(&self) -> Option<Ask> {
        let job = self.seen.running.get(self.selected().filter(|_| self.view == View::Running)?)?;
        Some(Ask::Cancel(job.topic.clone(), job.id.clone()))
    }

    fn confirm(&mut self, what: &'static str, ask: impl FnOnce(DeadGroup) -> Ask) {
        let selected = self.selected().filter(|_| self.view == View::Dead);
        if let Some(group) = selected.and_then(|selected| self.seen.dead.get(selected)) {
            let count = group.count;
            self.mode = Mode::Confirm { ask: Box::new(ask(group.clone())), what, count, typed: String::new() };
        }
    }
}
