//! What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends.

use std::hint::black_box;
use std::time::Duration;

use gristmill_guest::context::{checkpoint, progress};
use gristmill_guest::{AfterFailed, Failure, Job, NewJob, handler, http, state};

handler!(handle);

pub fn handle(job: Job) -> Result<String, Failure> {
    match job.text()? {
        "fan" | "gather" | "wrong" | "bad" | "good" => link(&job),
        body if body.contains(' ') => request(body),
        body => count(&job, body),
    }
}

fn link(job: &Job) -> Result<String, Failure> {
    match job.text()? {
        "fan" => {
            let gather = NewJob::to(&job.topic).body("gather").after_jobs([&job.id]).after_failed(AfterFailed::Run);
            let batch = gather.open().enqueue()?;
            let bad = NewJob::to(&job.topic).body("bad").batch(&batch).enqueue()?;
            NewJob::to(&job.topic).body("good").after_jobs([bad]).batch(&batch).enqueue()?;
            Ok(batch)
        }
        "gather" => Ok(job.meta("predecessors").unwrap_or_default().to_owned()),
        "wrong" => Ok(NewJob::to(&job.topic).batch("no id!").enqueue()?),
        _ => Err(Failure::reject("bad", "as requested")),
    }
}

/// Sends the request that the body names, such as `GET http://…`; the result is what came back.
fn request(body: &str) -> Result<String, Failure> {
    let (method, url) = body.split_once(' ').unwrap_or_default();
    let request = http::request(if method == "SLOW" { "GET" } else { method }, url).redirects(1);
    let request = match method {
        "POST" => request.header("x-kept", "1").header("x-kept", "2").body("hello").timeout(Duration::from_secs(20)),
        "SLOW" => request.timeout(Duration::from_millis(50)),
        _ => request,
    };
    let answer = request.send()?;
    Ok(format!("{} {} {}", answer.status, answer.header("X-A").unwrap_or_default(), answer.text()))
}

#[inline(never)]
fn deep(before: &u32) -> u32 {
    let here = black_box(*before) + 1;
    deep(&here) + here
}

/// Counts the jobs of a key in its state.
fn count(job: &Job, body: &str) -> Result<String, Failure> {
    match body {
        "progress" => {
            progress(5000, Some("half"));
            return Ok(String::new());
        }
        "crash" => panic!("on purpose"),
        "deep" => return Ok(deep(&0).to_string()),
        "large" => checkpoint([0; 2000])?,
        _ => {}
    }
    let mut everything = Vec::new();
    while body == "hoard" {
        everything.push(black_box(vec![1_u8; 1 << 20]));
    }
    let seen = state::json::<u32>()?.unwrap_or_default() + 1;
    state::set_json(&seen)?;
    if body == "fail" && job.attempt == 1 {
        return Err(Failure::retry("later", "after the state was set"));
    }
    Ok(seen.to_string())
}
