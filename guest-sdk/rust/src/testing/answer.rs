//! Answers to test with.

use crate::http::Response;

/// Begins an answer with this status, without headers or a body.
pub fn answer(status: u16) -> AnswerBuilder {
    AnswerBuilder(Response { status, headers: Vec::new(), body: Vec::new(), url: String::new() })
}

/// An answer in the making.
#[derive(Debug, Clone)]
pub struct AnswerBuilder(Response);

impl AnswerBuilder {
    /// Adds a header; its name is put into lower case, as the host does.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.0.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.0.body = body.into();
        self
    }

    /// Where it comes from, if a redirect was followed.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.0.url = url.into();
        self
    }

    /// The response as it was built.
    pub fn build(self) -> Response {
        self.0
    }
}
