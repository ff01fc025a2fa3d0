//! Of which attempts the answers of the host are recorded.

use std::fmt;
use std::str::FromStr;

use crate::deployment;

/// What a topic's `record` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordPolicy {
    /// Of none.
    Off,
    /// Of those that fail.
    #[default]
    Failures,
    /// Of some, however they end: so many of ten thousand.
    Sample(u16),
    /// Of all, however they end.
    All,
}

/// The text is none of `failures`, `sample 1%`, `all` and `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use `failures`, `all`, `off`, or a share such as `sample 1%`, from 0.01% to 100%")]
pub struct BadRecordPolicy;

impl FromStr for RecordPolicy {
    type Err = BadRecordPolicy;

    fn from_str(text: &str) -> Result<Self, BadRecordPolicy> {
        match text {
            "off" => return Ok(Self::Off),
            "failures" => return Ok(Self::Failures),
            "all" => return Ok(Self::All),
            _ => {}
        }
        let share = text.strip_prefix("sample ").map(str::trim).and_then(|share| deployment::share(share).ok());
        share.map(Self::Sample).ok_or(BadRecordPolicy)
    }
}

impl fmt::Display for RecordPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Failures => f.write_str("failures"),
            Self::All => f.write_str("all"),
            Self::Sample(share) => write!(f, "sample {}", deployment::show_share(*share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_back_what_it_writes() {
        for text in ["off", "failures", "all", "sample 1%", "sample 0.01%", "sample 12.5%", "sample 100%"] {
            assert_eq!(text.parse::<RecordPolicy>().unwrap().to_string(), text);
        }
        assert_eq!("sample 1%".parse(), Ok(RecordPolicy::Sample(100)));
        for text in [
            "",
            "some",
            "sample",
            "sample 1",
            "sample %",
            "sample 0%",
            "sample 0.001%",
            "sample 101%",
            "sample -1%",
            "sample 1.+%",
        ] {
            assert_eq!(text.parse::<RecordPolicy>(), Err(BadRecordPolicy), "{text}");
        }
    }
}
