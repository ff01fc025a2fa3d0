//! A handler that gets the URL of its body with `wstd`, an ordinary crate for `wasi:http`. It follows redirects by itself.

#![cfg(target_os = "wasi")]

use gristmill_guest::{Failure, Job, handler};
use wstd::http::error::ErrorCode;
use wstd::http::{Client, Error, Request};
use wstd::runtime::block_on;

fn fetch(job: Job) -> Result<String, Failure> {
    block_on(get(job.text()?)).map_err(|error| failure(&error))
}

async fn get(url: &str) -> Result<String, Error> {
    let key = std::env::var("KEY").unwrap_or_default();
    let answer = Client::new().send(Request::get(url).header("x-kept", "1").header("x-key", key).body(())?).await?;
    if let Some(location) = answer.headers().get("location") {
        return Box::pin(get(location.to_str()?)).await;
    }
    let status = answer.status().as_u16();
    Ok(format!("{status} {}", answer.into_body().str_contents().await?))
}

/// As `gristmill_guest::http` has it.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error.downcast_ref() {
        Some(ErrorCode::HttpRequestDenied) => Failure::reject("http-denied", message),
        _ => Failure::retry("http", message),
    }
}

handler!(fetch);
