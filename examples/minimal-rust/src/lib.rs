use gristmill_guest::{Failure, Job, Json, handler, log};
use serde_json::{Value, json};

handler!(greet);

pub fn greet(job: Job) -> Result<Json<Value>, Failure> {
    let body: Value = job.json()?;
    log::info("greet", &[("attempt", &job.attempt.to_string())]);
    Ok(Json(json!({ "hello": body["name"] })))
}

#[cfg(test)]
mod tests {
    use gristmill_guest::testing::{Host, job};

    use super::*;

    #[test]
    fn it_greets() {
        let run = Host::new().run(greet, job("test").body(r#"{"name": "Ada"}"#));
        assert_eq!(run.json::<Value>(), json!({ "hello": "Ada" }));
    }
}
