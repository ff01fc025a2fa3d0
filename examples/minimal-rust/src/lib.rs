use gristmill_guest::{Failure, Job, Json, handler, log};
use serde_json::{Value, json};

handler!(greet);

pub fn greet(job: Job) -> Result<Json<Value>, Failure> {
    let body: Value = job.json()?;
    let name = body["name"].as_str().ok_or_else(|| Failure::reject("bad-payload", "the body has no name"))?;
    log::info("greet", &[("name", &name)]);
    Ok(Json(json!({ "hello": name })))
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
