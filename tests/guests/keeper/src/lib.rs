//! A handler that keeps a state for each key: it appends the second word of its body to it. The first one says how the attempt ends.

use std::time::Duration;

use gristmill_guest::{Failure, IntoOutcome, Job, Outcome, handler, snooze, state};

fn keep(job: Job) -> Result<Outcome, Failure> {
    let text = job.text()?;
    let (ending, word) = text.split_once(' ').unwrap_or((text, ""));
    let before = state::get()?.unwrap_or_default();
    match ending {
        "delete" => state::delete()?,
        "fill" => state::set(vec![b'x'; word.parse().map_err(|_| Failure::reject("bad", "no number"))?])?,
        _ => state::set([before.as_slice(), word.as_bytes()].concat())?,
    }
    match ending {
        "reject" => Err(Failure::reject("asked", "as the job says")),
        "retry-once" if job.attempt == 1 => Err(Failure::retry("asked", "as the job says")),
        "snooze" if before.is_empty() => Ok(snooze(Duration::from_millis(100))),
        _ => before.into_outcome(),
    }
}

handler!(keep);
