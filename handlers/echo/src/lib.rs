//! Returns its payload as it came. The smallest useful handler, and the bench's no-op: it should cost next to nothing.

use gristmill_guest::{Failure, Job, Payload, handler, log};

// Exports `echo` as the component's `handle`.
handler!(echo);

/// The payload is moved, not copied, so its size does not matter here.
pub fn echo(job: Job) -> Result<Payload, Failure> {
    log::info("echo", &[]);
    Ok(job.body)
}

#[cfg(test)]
mod tests {
    use gristmill_guest::testing::{Host, job};

    use super::*;

    #[test]
    fn the_payload_comes_back_with_its_content_type() {
        for body in [Payload::from(vec![0, 255]), Payload::new("[1]", "application/json")] {
            let run = Host::new().run(echo, job("echo").body(body.clone()));
            assert_eq!(run.result(), Some(&body));
            assert_eq!(run.logs().len(), 1);
        }
    }
}
