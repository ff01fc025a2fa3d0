//! Reading a [`Job`].

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::{Failure, Job, context};

impl Job {
    /// The body as opaque bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.body.data
    }

    /// The body as text.
    ///
    /// # Errors
    ///
    /// Rejects with the code `bad-payload` and the offset of the first byte that is not UTF-8.
    pub fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(self.bytes()).map_err(|error| {
            Failure::reject("bad-payload", format!("the body is not UTF-8 from byte {} on", error.valid_up_to()))
        })
    }

    /// The body as JSON, whatever its content type says. `T` may borrow from the job.
    ///
    /// # Errors
    ///
    /// Rejects with the code `bad-payload` and a message that names the field, the line and the column: the same bytes
    /// would not parse next time either.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        let mut json = serde_json::Deserializer::from_slice(self.bytes());
        let value = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| bad_json(&error.path().to_string(), error.inner()))?;
        json.end().map_err(|error| bad_json(".", &error))?;
        Ok(value)
    }

    /// The first value of this name in the metadata. Names are compared as they are, case included.
    pub fn meta(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The same, parsed; `None` if there is no such name.
    ///
    /// # Errors
    ///
    /// Rejects with the code `bad-metadata` and a message that names the entry and its value.
    pub fn meta_parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.meta(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|error| Failure::reject("bad-metadata", format!("metadata {name} = `{text}`: {error}")))
    }

    /// How long until the host stops this attempt; zero if it is about to.
    pub fn time_left(&self) -> Duration {
        Duration::from_millis(self.deadline.saturating_sub(context::now()))
    }
}

/// serde_json's message ends in "at line 1 column 8"; only the way to the field is missing. `.` is the whole body.
fn bad_json(path: &str, error: &serde_json::Error) -> Failure {
    let place = if path == "." { String::new() } else { format!(" at `{path}`") };
    Failure::reject("bad-payload", format!("the body is not the expected JSON{place}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Order<'a> {
        id: &'a str,
        items: Vec<Item>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Item {
        count: u32,
    }

    fn refusal(body: &str) -> String {
        let job = testing::job("t").body(body).build();
        let failure = job.json::<Order<'_>>().expect_err("must not parse");
        assert_eq!((failure.code(), failure.is_retry()), ("bad-payload", false));
        failure.message().to_owned()
    }

    #[test]
    fn json_borrows_from_the_body() {
        let job = testing::job("t").body(r#"{"id": "a", "items": [{"count": 2}]} "#).build();
        assert_eq!(job.json(), Ok(Order { id: "a", items: vec![Item { count: 2 }] }));
    }

    #[test]
    fn json_that_does_not_fit_is_rejected_by_field_line_and_column() {
        assert_eq!(
            refusal("{\"id\": \"a\",\n \"items\": [{\"count\": -1}]}"),
            "the body is not the expected JSON at `items[0].count`: invalid value: integer `-1`, expected u32 at line 2 column 23"
        );
        assert_eq!(
            refusal(r#"{"items": []}"#),
            "the body is not the expected JSON: missing field `id` at line 1 column 13"
        );
        assert!(refusal(r#"{"id": "a", "items": []} x"#).contains("trailing characters at line 1 column 26"));
        assert!(refusal("").contains("EOF while parsing a value at line 1 column 0"));
    }

    #[test]
    fn text_that_is_no_utf_8_is_rejected_by_offset() {
        let job = testing::job("t").body(b"ab\xff".to_vec()).build();
        assert_eq!(job.text(), Err(Failure::reject("bad-payload", "the body is not UTF-8 from byte 2 on")));
    }

    #[test]
    fn metadata_is_found_by_name_and_the_first_wins() {
        let job = testing::job("t").meta("width", "640").meta("width", "1").meta("height", "tall").build();
        assert_eq!(job.meta("width"), Some("640"));
        assert_eq!(job.meta_parsed("width"), Ok(Some(640)));
        assert_eq!(job.meta_parsed::<u32>("depth"), Ok(None));
        assert_eq!(
            job.meta_parsed::<u32>("height"),
            Err(Failure::reject("bad-metadata", "metadata height = `tall`: invalid digit found in string"))
        );
    }
}
