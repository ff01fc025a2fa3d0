//! Sends the request that its body names, such as `GET http://…`; the result is what came back.

use std::time::Duration;

use gristmill_guest::{Failure, Job, handler, http};

handler!(handle);

pub fn handle(job: Job) -> Result<String, Failure> {
    let (method, url) = job.text()?.split_once(' ').unwrap_or_default();
    let request = http::request(if method == "SLOW" { "GET" } else { method }, url).redirects(1);
    let request = match method {
        "POST" => request.header("x-kept", "1").header("x-kept", "2").body("hello").timeout(Duration::from_secs(20)),
        "SLOW" => request.timeout(Duration::from_millis(50)),
        _ => request,
    };
    let answer = request.send()?;
    Ok(format!("{} {} {}", answer.status, answer.header("X-A").unwrap_or_default(), answer.text()))
}
