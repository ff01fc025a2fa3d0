//! The query of a request.

use std::str::FromStr;

use super::refusal::Refusal;

/// A query as lmstfy reads it: the first of several values with one name counts, and unknown names are ignored.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The query with the fields of a form before its own.
    pub(super) fn with_form(self, form: &[u8]) -> Self {
        let mut pairs: Vec<_> = url::form_urlencoded::parse(form).into_owned().collect();
        pairs.extend(self.0);
        Self(pairs)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A whole number; `default` if the query does not have it.
    ///
    /// # Errors
    /// `error`, if it is not a number of this kind. A `+` before a number is not allowed.
    pub(super) fn number<T: FromStr>(&self, name: &str, default: T, error: &'static str) -> Result<T, Refusal> {
        match self.get(name) {
            None => Ok(default),
            Some(text) if text.starts_with('+') => Err(Refusal::bad(error)),
            Some(text) => text.parse().map_err(|_| Refusal::bad(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_up_to_the_limit_of_their_type() {
        let query = Query::parse("a=4294967295&b=4294967296&c=&d=+1&e=-1&f=%2B1&g=7&g=8&h=65535&i=65536");
        let u32 = |name| query.number::<u32>(name, 5, "no").ok();
        assert_eq!((u32("a"), u32("none"), u32("g")), (Some(u32::MAX), Some(5), Some(7)));
        for bad in ["b", "c", "d", "e", "f"] {
            assert_eq!(u32(bad), None, "{bad}");
        }
        assert_eq!(query.number::<u16>("h", 1, "no").ok(), Some(u16::MAX));
        assert!(query.number::<u16>("i", 1, "no").is_err());
    }

    #[test]
    fn a_forms_fields_come_before_the_querys() {
        let query = Query::parse("a=1&b=2").with_form(b"b=3&c=4%20");
        assert_eq!((query.get("a"), query.get("b"), query.get("c")), (Some("1"), Some("3"), Some("4 ")));
    }
}
