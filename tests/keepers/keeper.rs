use std::hint::black_box;

use gristmill_guest::context::{checkpoint, progress};
use gristmill_guest::{Failure, Job, handler, state};

handler!(count);

#[inline(never)]
fn deep(before: &u32) -> u32 {
    let here = black_box(*before) + 1;
    deep(&here) + here
}

pub fn count(job: Job) -> Result<String, Failure> {
    let body = job.text()?;
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
