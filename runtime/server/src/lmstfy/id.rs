//! Ids of jobs and of requests, as lmstfy makes them.

use ulid::Ulid;

use gristmill_core::job::JobId;

/// The first character of an id whose job may have attributes.
const VERSION: char = '1';

/// A new id: a ULID whose last four bytes are the delay in seconds, little-endian; with a `1` in front of it if the job may
/// have attributes.
///
/// Never `None`: an id may have all of these characters.
pub(super) fn new_job(delay: u32, versioned: bool) -> Option<JobId> {
    let mut bytes = Ulid::generate().to_bytes();
    let (_, last) = bytes.split_last_chunk_mut::<4>()?;
    *last = delay.to_le_bytes();
    let ulid = Ulid::from_bytes(bytes);
    if versioned { format!("{VERSION}{ulid}") } else { ulid.to_string() }.parse().ok()
}

/// A new `X-Request-ID`.
pub(super) fn new_request() -> String {
    Ulid::generate().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_ulid_that_ends_with_the_delay() {
        let id = new_job(0x0102_0304, false).unwrap();
        assert_eq!(id.as_str().len(), 26);
        let ulid: Ulid = id.as_str().parse().unwrap();
        assert_eq!(ulid.to_bytes()[12..], [4, 3, 2, 1]);
        assert_ne!(new_job(0, false), new_job(0, false));
    }

    #[test]
    fn an_id_of_the_first_version_has_a_one_before_it() {
        let id = new_job(u32::MAX, true).unwrap();
        assert_eq!(id.as_str().len(), 27);
        assert!(id.as_str().starts_with('1'));
        assert!(id.as_str()[1..].parse::<Ulid>().is_ok());
        assert_eq!(new_request().len(), 26);
    }
}
