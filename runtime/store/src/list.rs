//! Lists of a topic's jobs, page by page.

use std::fmt;
use std::str::FromStr;

use super::inspect::JobView;
use gristmill_core::job::{JobId, Name, Priority};
use gristmill_core::time::Timestamp;

/// A page's jobs bring no more bytes than this, unless a single job is larger.
pub(super) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// No page has more jobs.
pub(super) const PAGE_JOBS: usize = 1000;

/// What comes before the key in the text of a cursor that leads to jobs that wait for it.
const KEY: &str = "key-";

/// No line is as long; a number up to here is exact.
const MOST_PLACES: f64 = 9_007_199_254_740_992.0;

/// The most that a cursor names: see [`Cursor`].
const ANCHORS: usize = 8;

/// Where jobs are, of which a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFilter {
    /// Jobs that a claim may take.
    Ready,
    /// Jobs that are not due yet.
    Delayed,
    /// Jobs that a worker holds.
    Running,
    /// Jobs that were given up.
    Dead,
}

impl StateFilter {
    /// All states that can be listed.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Delayed, Self::Running, Self::Dead];

    /// The name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }

    /// The state of this name; `None` if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.as_str() == text)
    }
}

/// Some jobs of a place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Without what became of them ([`JobView::result`]). One that cannot be read has what is stored for a body.
    pub jobs: Vec<JobView>,
    /// Where to go on. None: there are no more. A page may be short, or empty, and others follow.
    pub next: Option<Cursor>,
}

/// Where a page of [`ListJobs::jobs`](super::ListJobs::jobs) ended: behind which job, or where it stood in line. For the store
/// that made it; its text is good for URLs.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    pub(super) place: StateFilter,
    /// Of a store that is made of stores: in which of them.
    pub(super) stage: Option<Stage>,
    /// Of a topic that has several in Redis: in which partition.
    pub(super) partition: u32,
    /// Of the ready jobs, those of which priority.
    pub(super) line: Priority,
    /// Of the ready jobs, those that wait for this key.
    pub(super) key: Option<String>,
    /// What the place is ordered by.
    pub(super) number: f64,
    /// The last jobs of the page, the last one first.
    pub(super) jobs: Vec<Anchor>,
}

/// A job by which a list finds its place again, as it was when it was listed: one with other numbers has come anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) id: JobId,
    /// How often it had been claimed.
    pub(super) deliveries: u64,
    pub(super) enqueued_at: Timestamp,
}

/// One of the stores that a store is made of, which are listed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) store: Name,
    /// Nothing of it was listed yet.
    pub(super) is_new: bool,
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor: give back what the page before came with, and nothing else")]
pub struct BadCursor;

impl Cursor {
    pub(super) fn new(place: StateFilter, number: f64, last: JobId) -> Self {
        let last = Anchor { id: last, deliveries: 0, enqueued_at: Timestamp::default() };
        Self { place, stage: None, partition: 0, line: Priority::Normal, key: None, number, jobs: vec![last] }
    }

    /// A place in a line of ready jobs. `jobs`: the last one first; of too many the first ones count.
    pub(super) fn in_line(line: Priority, number: f64, mut jobs: Vec<Anchor>) -> Self {
        jobs.truncate(ANCHORS);
        Self { place: StateFilter::Ready, stage: None, partition: 0, line, key: None, number, jobs }
    }

    /// A place among the ready jobs that wait for a key. The empty one is before all others.
    pub(super) fn behind_key(key: &str, number: f64) -> Self {
        Self { line: Priority::Low, key: Some(key.to_owned()), number, ..Self::at_front(StateFilter::Ready) }
    }

    /// The same, behind this job there.
    pub(super) fn after_job(self, last: JobId) -> Self {
        Self { jobs: Self::new(self.place, self.number, last).jobs, ..self }
    }

    /// The same, of a store that is one of several.
    pub(super) fn within(self, store: Name) -> Self {
        Self { stage: Some(Stage { store, is_new: false }), ..self }
    }

    /// In front of all that one of several stores has.
    pub(super) fn at_beginning(place: StateFilter, store: Name) -> Self {
        Self { stage: Some(Stage { store, is_new: true }), ..Self::at_front(place) }
    }

    /// In front of all jobs.
    pub(super) fn at_front(place: StateFilter) -> Self {
        Self { place, stage: None, partition: 0, line: Priority::High, key: None, number: 0.0, jobs: Vec::new() }
    }

    /// What a list within one store begins behind: nothing for a cursor of several stores that are no more, so that the list
    /// begins at the front again.
    ///
    /// # Errors
    /// Why the cursor leads to no jobs of this place.
    pub(super) fn within_one_store(after: Option<&Self>, place: StateFilter) -> Result<Option<&Self>, String> {
        match after {
            Some(after) if after.place != place => {
                Err(format!("a cursor of {} jobs leads to no {} ones", after.place.as_str(), place.as_str()))
            }
            after => Ok(after.filter(|after| after.stage.is_none())),
        }
    }

    /// The state that its list is of.
    pub fn place(&self) -> StateFilter {
        self.place
    }

    /// The job that the page ended with.
    pub(super) fn last(&self) -> Option<&JobId> {
        self.jobs.first().map(|anchor| &anchor.id)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stage {
            Some(Stage { store, is_new: true }) => return write!(f, "{store}~{}", self.place.as_str()),
            Some(Stage { store, is_new: false }) => write!(f, "{store}~")?,
            None => {}
        }
        write!(f, "{}", self.place.as_str())?;
        if self.partition > 0 {
            write!(f, "+{}", self.partition)?;
        }
        match &self.key {
            Some(key) => write!(f, ":{KEY}{}:{}", hex::encode(key), self.number)?,
            None => write!(f, ":{}:{}", self.line, self.number)?,
        }
        for Anchor { id, deliveries, enqueued_at } in &self.jobs {
            write!(f, ":{id}:{deliveries}:{}", enqueued_at.as_millis())?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        if let Some((store, text)) = text.split_once('~') {
            let store = store.parse().map_err(|_| BadCursor)?;
            return match StateFilter::parse(text) {
                Some(place) => Ok(Self::at_beginning(place, store)),
                None if text.contains('~') => Err(BadCursor),
                None => Ok(text.parse::<Self>()?.within(store)),
            };
        }
        let mut fields = text.split(':');
        let place = fields.next().ok_or(BadCursor)?;
        let (place, partition) = place.split_once('+').unwrap_or((place, "0"));
        let place = StateFilter::parse(place).ok_or(BadCursor)?;
        let partition: u8 = partition.parse().map_err(|_| BadCursor)?;
        let line = fields.next().ok_or(BadCursor)?;
        let key = line.strip_prefix(KEY).map(|key| String::from_utf8(hex::decode(key).ok()?).ok());
        let key = key.map(|key| key.ok_or(BadCursor)).transpose()?;
        let line = if key.is_some() { Priority::Low } else { Priority::parse(line).ok_or(BadCursor)? };
        let number: f64 = fields.next().and_then(|number| number.parse().ok()).ok_or(BadCursor)?;
        let mut jobs = Vec::new();
        while let Some(id) = fields.next() {
            let mut number = || fields.next()?.parse::<u64>().ok();
            let (Some(deliveries), Some(enqueued_at)) = (number(), number()) else { return Err(BadCursor) };
            let id = id.parse().map_err(|_| BadCursor)?;
            jobs.push(Anchor { id, deliveries, enqueued_at: Timestamp::from_millis(enqueued_at) });
        }
        // Places in a line are counted; times have fractions.
        let is_place = place != StateFilter::Ready || (number.fract() == 0.0 && number.abs() < MOST_PLACES);
        if number.is_nan() || !is_place || jobs.len() > ANCHORS {
            return Err(BadCursor);
        }
        Ok(Self { place, stage: None, partition: partition.into(), line, key, number, jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_as_they_are_written() {
        let anchor = |n| Anchor {
            id: format!("j{n}").parse().unwrap(),
            deliveries: n,
            enqueued_at: Timestamp::from_millis(90 + n),
        };
        let cursor = Cursor::in_line(Priority::Low, 17.0, (0..9).map(anchor).collect());
        let jobs = "j0:0:90:j1:1:91:j2:2:92:j3:3:93:j4:4:94:j5:5:95:j6:6:96:j7:7:97";
        assert_eq!(cursor.to_string(), format!("ready:low:17:{jobs}"));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for number in [0.0, 1_800_000_000_000.0, 5.25, f64::INFINITY, f64::NEG_INFINITY] {
            let cursor = Cursor::new(StateFilter::Delayed, number, "a.b-c_d".parse().unwrap());
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }

    #[test]
    fn a_place_in_a_line_is_a_whole_number() {
        for number in [".2", "1.5", "-0.5", "inf", "-inf", "nan", "1e300"] {
            assert_eq!(format!("ready:normal:{number}").parse::<Cursor>(), Err(BadCursor), "{number}");
        }
        for good in ["ready:normal:2", "delayed:normal:1.5:j:0:0"] {
            assert!(good.parse::<Cursor>().is_ok(), "{good}");
        }
    }

    #[test]
    fn a_cursor_of_several_stores_names_one_of_them() {
        let behind = Cursor::new(StateFilter::Dead, 7.0, "j".parse().unwrap()).within("loud".parse().unwrap());
        assert_eq!(behind.to_string(), "loud~dead:normal:7:j:0:0");
        assert_eq!(behind.to_string().parse(), Ok(behind));
        let beginning = Cursor::at_beginning(StateFilter::Ready, "loud".parse().unwrap());
        assert_eq!(beginning.to_string(), "loud~ready");
        assert_eq!(beginning.to_string().parse(), Ok(beginning));
    }

    #[test]
    fn a_cursor_names_a_partition_behind_the_first() {
        let cursor = Cursor { partition: 3, ..Cursor::at_front(StateFilter::Ready) };
        assert_eq!(cursor.to_string(), "ready+3:high:0");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }

    #[test]
    fn text_that_is_no_cursor_is_refused() {
        let too_many = format!("ready:low:1{}", ":j:1:1".repeat(9));
        for text in [
            "",
            "ready",
            "ready:low",
            "ready:low:x",
            "ready:low:NaN",
            "here:low:1",
            "ready+256:low:1",
            "ready+:low:1",
            "dead:low:1:a",
            "dead:low:1:a:0",
            "dead:low:1:a/b:0:0",
            "~ready",
            "loud~",
            "loud~here",
            "a~b~ready",
            "a~b~ready:low:1",
            &too_many,
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
        }
    }

    #[test]
    fn made_up_cursors_read_as_they_are_written() {
        let known: [&[u8]; 5] = [
            b"ready:low:17:j0:0:j1:1",
            b"dead:normal:1795176245006.5:j1:0",
            b"near~ready",
            b"near~delayed:normal:0:j:3",
            b"running:high:-inf:x:0",
        ];
        gristmill_fuzz::check("cursor", &known, |input| {
            let read: Result<Cursor, BadCursor> = String::from_utf8_lossy(input).parse();
            if let Ok(cursor) = &read {
                assert_eq!(cursor.to_string().parse::<Cursor>().as_ref(), Ok(cursor));
            }
            read.map(|cursor| (cursor.place, cursor.stage.is_some(), cursor.jobs.len()))
        });
    }
}
