//! Whose turn it is in a topic with jobs of several priorities.

use crate::AHEAD;
use gristmill_core::job::Priority;

/// How many jobs of a topic claims take before one: `turn` is the next one's, `before` how many others of its own line come first, `lines` how many
/// jobs each line has that may be claimed, in the order of [`Priority::ALL`]. `None` if more than [`AHEAD`] are.
pub(crate) fn ahead_by_turns(turn: usize, own: Priority, before: u64, lines: [u64; 3]) -> Option<u64> {
    let remaining = |(line, jobs)| (line, if line == own { before.saturating_add(1) } else { jobs });
    let mut remaining: Vec<(Priority, u64)> = Priority::ALL.into_iter().zip(lines).map(remaining).collect();
    for (ahead, turn) in (0..=AHEAD).zip(turn % Priority::TURNS.len()..) {
        let whose = Priority::at_turn(turn, |line| remaining.iter().any(|(of, jobs)| *of == line && *jobs > 0))?;
        let (_, jobs) = remaining.iter_mut().find(|(of, _)| *of == whose)?;
        *jobs -= 1;
        if whose == own && *jobs == 0 {
            return Some(ahead);
        }
    }
    None
}
