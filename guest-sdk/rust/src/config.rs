//! Settings and secrets that the manifest grants to this topic.

use std::fmt::Display;
use std::str::FromStr;

use crate::Failure;
use crate::host::config as host;

/// A setting; none if it is missing or not granted, so that names do not leak.
pub fn get(name: &str) -> Option<String> {
    host::get(name)
}

/// A setting, parsed; none if it is missing or not granted.
///
/// # Errors
///
/// Retries with the code `bad-config`, because the operator can correct it while the job waits. The message
/// names the setting and its value.
pub fn get_parsed<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, Failure> {
    let Some(text) = get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error| Failure::retry("bad-config", format!("setting {name} = `{text}`: {error}")))
}

/// A secret's bytes; none if it is missing or not granted. Keep them out of logs, results and failures.
pub fn secret(name: &str) -> Option<Vec<u8>> {
    host::secret(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Host, job};

    #[test]
    fn a_setting_that_does_not_parse_is_the_operators_to_correct() {
        let run = Host::new()
            .config("limit", "many")
            .run(|_| -> Result<String, Failure> { Ok(format!("{:?}", get_parsed::<u32>("limit")?)) }, job("t"));
        let expected = Failure::retry("bad-config", "setting limit = `many`: invalid digit found in string");
        assert_eq!(run.failure(), Some(&expected));
    }

    #[test]
    fn what_is_not_granted_is_not_there() {
        let run = Host::new().secret("key", "s3").run(
            |_| -> Result<String, Failure> { Ok(format!("{:?} {:?} {:?}", get("key"), secret("key"), secret("no"))) },
            job("t"),
        );
        assert_eq!(run.text(), "None Some([115, 51]) None");
    }
}
