//! What is shown, and what keys do.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::list::{self, List};
use super::source::Seen;
use super::view::{Row, View};
use crate::cli::audit::Words;
use gristmill_core::job::{JobId, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_server::StreamedEvent;
use gristmill_store::DeadGroup;

/// What a key wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Quit,
    /// Read what is shown now.
    Look,
    SetPaused(TopicId, bool),
    Cancel(TopicId, JobId),
    /// End the attempt at once.
    Kill(TopicId, JobId),
    RespawnJob(TopicId, JobId),
    Respawn(DeadGroup),
    Delete(DeadGroup),
}

impl Ask {
    /// As the audit log has it; `None` if it changes nothing.
    pub(super) fn words(&self) -> Option<Words> {
        let (what, topic, of) = match self {
            Self::Quit | Self::Look => return None,
            Self::SetPaused(topic, true) => ("pause", topic, None),
            Self::SetPaused(topic, false) => ("resume", topic, None),
            Self::Cancel(topic, id) => ("job cancel", topic, Some(("ids", id.to_string()))),
            Self::Kill(topic, id) => ("job kill", topic, Some(("ids", id.to_string()))),
            Self::RespawnJob(topic, id) => ("dead respawn", topic, Some(("ids", id.to_string()))),
            Self::Respawn(group) => ("dead respawn", &group.topic, Some(("query", group.q.clone()))),
            Self::Delete(group) => ("dead delete", &group.topic, Some(("query", group.q.clone()))),
        };
        let about = [("topic", topic.to_string())].into_iter().chain(of).map(|(name, value)| (name.to_owned(), value));
        Some(Words { command: format!("top: {what}"), about: about.collect() })
    }
}

/// What keys are read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Keys,
    Help,
    /// The text of the filter.
    Filter,
    /// The name of a view.
    Name(String),
    /// A question: the number of jobs, and what was typed so far.
    Confirm {
        ask: Box<Ask>,
        what: &'static str,
        count: usize,
        typed: String,
    },
}

/// A view, and how it is looked at.
#[derive(Debug)]
pub(super) struct ViewState {
    pub(super) view: View,
    pub(super) filter: String,
    selected: usize,
    /// By which column, and whether the largest come first.
    pub(super) sort: Option<(usize, bool)>,
}

impl ViewState {
    const fn new(view: View) -> Self {
        Self { view, filter: String::new(), selected: 0, sort: None }
    }
}

#[derive(Debug)]
pub(super) struct App {
    seen: Seen,
    state: ViewState,
    /// Where `Esc` goes back to.
    before: Vec<ViewState>,
    pub(super) mode: Mode,
    /// What was done last, or why nothing was read.
    pub(super) note: Option<String>,
    frozen: bool,
    read_only: bool,
}

impl App {
    pub(super) fn new(seen: Seen, read_only: bool) -> Self {
        let (state, before) = (ViewState::new(View::Topics), Vec::new());
        Self { seen, state, before, mode: Mode::Keys, note: None, frozen: false, read_only }
    }

    /// Takes what was read.
    pub(super) fn see(&mut self, mut seen: Seen) {
        if self.holds_events() {
            seen.events = std::mem::take(&mut self.seen.events);
        }
        let selected = self.selected();
        self.seen = seen;
        self.select(&selected);
    }

    /// The selection stays on its row where rows change their order: the next key may change something.
    fn select(&mut self, wanted: &Row) {
        let list = list::list(&self.seen, self.view());
        let (shown, selected) = self.rows(&list);
        let is_it = |place: &usize| list.rows.get(*place).is_some_and(|(_, row)| row.is_of(wanted));
        // All lines of a job's page are about it.
        let has_moved = selected.and_then(|selected| shown.get(selected)).is_some_and(|place| !is_it(place));
        if let Some(place) = shown.iter().position(is_it).filter(|_| has_moved) {
            self.state.selected = place;
        }
    }

    /// Takes the latest events.
    pub(super) fn see_events(&mut self, at: Timestamp, events: Vec<StreamedEvent>) {
        if !self.holds_events() {
            (self.seen.at, self.seen.events) = (at, events);
        }
    }

    /// While a row behind the first one is selected, no new ones move it.
    fn holds_events(&self) -> bool {
        *self.view() == View::Events && self.state.selected > 0 && !self.seen.events.is_empty()
    }

    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) const fn state(&self) -> &ViewState {
        &self.state
    }

    pub(super) const fn view(&self) -> &View {
        &self.state.view
    }

    pub(super) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// From the first view to this one.
    pub(super) fn crumbs(&self) -> impl Iterator<Item = String> {
        self.before.iter().chain([&self.state]).map(|state| state.view.crumb())
    }

    /// Nothing is read while a person answers a question, so that rows do not move.
    pub(super) const fn is_frozen(&self) -> bool {
        self.frozen || matches!(self.mode, Mode::Confirm { .. })
    }

    /// The places of the rows that are shown in the list, in order, and which of them is selected.
    pub(super) fn rows(&self, list: &List) -> (Vec<usize>, Option<usize>) {
        let filter = self.state.filter.to_lowercase();
        let fits = |row: &[String]| row.iter().any(|cell| cell.to_lowercase().contains(&filter));
        let all = list.rows.iter().enumerate();
        let mut shown: Vec<_> = all.filter(|(_, (cells, _))| fits(cells)).map(|(place, _)| place).collect();
        if let Some((column, descending)) = self.state.sort {
            shown.sort_by_cached_key(|place| list.sort_key(*place, column));
            if descending {
                shown.reverse();
            }
        }
        let selected = shown.len().checked_sub(1).map(|last| self.state.selected.min(last));
        (shown, selected)
    }

    fn selected(&self) -> Row {
        let list = list::list(&self.seen, self.view());
        let (shown, selected) = self.rows(&list);
        let row = selected.and_then(|selected| list.rows.get(*shown.get(selected)?));
        row.map_or(Row::Nothing, |(_, row)| row.clone())
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
                self.state.selected = 0;
                if type_into(&mut self.state.filter, key.code) {
                    return None;
                }
                if key.code == KeyCode::Esc {
                    self.state.filter.clear();
                }
                self.mode = Mode::Keys;
                None
            }
            Mode::Name(typed) => {
                if type_into(typed, key.code) {
                    return None;
                }
                let named = (key.code == KeyCode::Enter).then(|| View::named(typed));
                self.mode = Mode::Keys;
                match named? {
                    Ok(view) => self.open(view),
                    Err(problem) => {
                        self.note = Some(problem);
                        None
                    }
                }
            }
            Mode::Confirm { ask, count, typed, .. } => {
                if type_into(typed, key.code) {
                    return None;
                }
                let is_right = typed.parse::<usize>().ok() == Some(*count);
                let ask = (key.code == KeyCode::Enter && is_right).then(|| Ask::clone(ask));
                self.note = (key.code == KeyCode::Enter && !is_right)
                    .then(|| "nothing was changed: that is not their number".into());
                self.mode = Mode::Keys;
                ask
            }
        }
    }

    fn on_usual_key(&mut self, key: KeyCode) -> Option<Ask> {
        match key {
            KeyCode::Char('q') => return Some(Ask::Quit),
            KeyCode::Char('t') => return self.open(View::Topics),
            KeyCode::Char('r') => return self.open(View::Running),
            KeyCode::Char('w') => return self.open(View::Workers),
            KeyCode::Char('d') => return self.open(View::Dead),
            KeyCode::Tab => return self.open(self.view().next()),
            KeyCode::Enter => return self.selected().opens().and_then(|view| self.open(view)),
            KeyCode::Esc => return self.back(),
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::PageDown => self.step(10),
            KeyCode::PageUp => self.step(-10),
            KeyCode::Char(':') => self.mode = Mode::Name(String::new()),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('o') => {
                self.state.sort = self.state.sort.map(|(column, descending)| (column, !descending));
            }
            KeyCode::Char(key @ ('P' | 'C' | 'K' | 'R' | 'D')) => return self.change(key),
            _ => {}
        }
        None
    }

    /// Opens a view: one of the first views from the beginning, any other from where a person is.
    fn open(&mut self, view: View) -> Option<Ask> {
        self.note = None;
        if view == *self.view() {
            return None;
        }
        let before = std::mem::replace(&mut self.state, ViewState::new(view));
        if View::MAIN.contains(self.view()) {
            self.before.clear();
        }
        if *self.view() != View::Topics {
            self.before.push(before);
        }
        Some(Ask::Look)
    }

    fn back(&mut self) -> Option<Ask> {
        self.note = None;
        if !self.state.filter.is_empty() {
            self.state.filter.clear();
            return None;
        }
        self.state = self.before.pop()?;
        Some(Ask::Look)
    }

    fn step(&mut self, by: isize) {
        let (_, selected) = self.rows(&list::list(&self.seen, self.view()));
        self.state.selected = selected.unwrap_or(0).saturating_add_signed(by);
    }

    /// By the next column; after the last one as it was read.
    fn sort(&mut self) {
        let list = list::list(&self.seen, self.view());
        let next = self.state.sort.map_or(0, |(column, _)| column + 1);
        // Of numbers, the largest are looked for.
        self.state.sort = list.titles.get(next).map(|title| (next, title.starts_with('>')));
    }

    fn change(&mut self, key: char) -> Option<Ask> {
        if self.read_only {
            self.note = Some("nothing is changed: it was started with --read-only".into());
            return None;
        }
        match (key, self.selected()) {
            ('P', Row::Topic { topic, paused }) => return Some(Ask::SetPaused(topic, !paused)),
            ('C', Row::Job { topic, id, .. }) => return Some(Ask::Cancel(topic, id)),
            ('K', Row::Job { topic, id, .. }) => return Some(Ask::Kill(topic, id)),
            ('R', Row::Job { topic, id, dead: true }) => return Some(Ask::RespawnJob(topic, id)),
            ('R', Row::Group(group)) => self.confirm("respawn", *group, Ask::Respawn),
            ('D', Row::Group(group)) => self.confirm("delete", *group, Ask::Delete),
            _ => {}
        }
        None
    }

    fn confirm(&mut self, what: &'static str, group: DeadGroup, ask: impl FnOnce(DeadGroup) -> Ask) {
        let (count, typed) = (group.count, String::new());
        self.mode = Mode::Confirm { ask: Box::new(ask(group)), what, count, typed };
    }
}

/// Whether the key belonged to a text.
fn type_into(text: &mut String, key: KeyCode) -> bool {
    match key {
        KeyCode::Char(char) => text.push(char),
        KeyCode::Backspace => _ = text.pop(),
        _ => return !matches!(key, KeyCode::Enter | KeyCode::Esc),
    }
    true
}
