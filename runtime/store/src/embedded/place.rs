//! Where a row stands in the table of jobs: its number says its topic, its line and its place in it, so that the table itself is
//! in the order in which jobs are claimed.

use super::fault::{Done, Fault};
use gristmill_core::job::Priority;

/// The place takes up the low bits, the line the two above them, the topic's number the rest.
const PLACE_BITS: u32 = 41;
const TOPIC_SHIFT: u32 = PLACE_BITS + 2;

/// The last place there is.
pub(super) const LAST_PLACE: i64 = (1 << PLACE_BITS) - 1;

/// The last number that a topic may have.
pub(super) const LAST_TOPIC: i64 = (1 << (63 - TOPIC_SHIFT)) - 1;

/// A part of a topic's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobLine {
    /// Ready and running jobs of a priority.
    Of(Priority),
    /// Delayed and dead jobs, and ready ones that wait for another job of their key.
    Beside,
}

impl JobLine {
    pub(super) const ALL: [Self; 4] =
        [Self::Of(Priority::High), Self::Of(Priority::Normal), Self::Of(Priority::Low), Self::Beside];

    const fn bits(self) -> i64 {
        match self {
            Self::Of(Priority::High) => 0,
            Self::Of(Priority::Normal) => 1,
            Self::Of(Priority::Low) => 2,
            Self::Beside => 3,
        }
    }

    /// The number of this line's row at a place.
    pub(super) const fn number(self, topic: i64, place: i64) -> i64 {
        topic << TOPIC_SHIFT | self.bits() << PLACE_BITS | place
    }

    /// The number behind which the line's rows stand, and that of its last place.
    pub(super) const fn bounds(self, topic: i64) -> (i64, i64) {
        (self.number(topic, 0), self.number(topic, LAST_PLACE))
    }
}

/// The topic that a row's number says.
pub(super) const fn topic_of(number: i64) -> i64 {
    number >> TOPIC_SHIFT
}

/// The place that a row's number says.
pub(super) const fn place_of(number: i64) -> i64 {
    number & LAST_PLACE
}

/// The priority in whose line a row stands; `None` beside the lines.
pub(super) const fn priority_of(number: i64) -> Option<Priority> {
    match number >> PLACE_BITS & 3 {
        0 => Some(Priority::High),
        1 => Some(Priority::Normal),
        2 => Some(Priority::Low),
        _ => None,
    }
}

/// Whether two rows stand in one line of one topic.
pub(super) const fn same_line(a: i64, b: i64) -> bool {
    a >> PLACE_BITS == b >> PLACE_BITS
}

/// A place, unless all were given out.
pub(super) fn checked(place: i64) -> Done<i64> {
    let full = || Fault::Refused("the file has given out all its places; move the jobs into a new one".into());
    (place <= LAST_PLACE).then_some(place).ok_or_else(full)
}

/// The condition that a row, of which `$number` is the number, belongs to the topic `topics.number`.
macro_rules! of_topic {
    ($number:literal) => {
        concat!($number, " BETWEEN topics.number << 43 AND (topics.number << 43) + 8796093022207")
    };
}
pub(super) use of_topic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_topic_line_and_place() {
        for topic in [1, 7, LAST_TOPIC] {
            for line in JobLine::ALL {
                let (first, last) = line.bounds(topic);
                let number = line.number(topic, 5);
                assert!(first < number && number < last, "{line:?}");
                assert_eq!((topic_of(number), place_of(number)), (topic, 5));
                assert_eq!(
                    JobLine::ALL.into_iter().filter(|other| same_line(other.number(topic, 9), number)).count(),
                    1
                );
                assert_eq!(priority_of(number).map_or(JobLine::Beside, JobLine::Of), line);
            }
        }
        assert!(JobLine::Beside.number(LAST_TOPIC, LAST_PLACE) == i64::MAX);
        assert_eq!(
            of_topic!("n"),
            format!(
                "n BETWEEN topics.number << {TOPIC_SHIFT} AND (topics.number << {TOPIC_SHIFT}) + {}",
                (1_i64 << TOPIC_SHIFT) - 1
            )
        );
    }

    #[test]
    fn rows_of_a_topic_stand_in_the_order_of_their_lines() {
        let numbers: Vec<i64> =
            [1, 2].into_iter().flat_map(|topic| JobLine::ALL.map(|line| line.number(topic, 3))).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }

    #[test]
    fn places_that_are_given_out_are_refused() {
        assert!(checked(LAST_PLACE).is_ok() && checked(LAST_PLACE + 1).is_err());
    }
}
