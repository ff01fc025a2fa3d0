//! Takes signups: checks and tidies them, greets, and has a reminder sent three days later.

use std::time::Duration;

use gristmill_guest::{Failure, Job, Json, NewJob, Priority, config, handler, log};
use serde::Serialize;
use serde_json::{Map, Value};

handler!(welcome);

const REMIND_AFTER: Duration = Duration::from_secs(3 * 24 * 3600);
const GREYLISTED_FOR: Duration = Duration::from_secs(30);
const WHITE_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

#[derive(Debug, PartialEq, Serialize)]
pub struct Greeting {
    #[serde(flatten)]
    signup: Signup,
    greeting: String,
}

/// A signup that has been checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Signup {
    email: String,
    name: String,
    plan: String,
}

#[derive(Debug, Serialize)]
struct Reminder<'a> {
    #[serde(flatten)]
    signup: &'a Signup,
    reminder: bool,
}

pub fn welcome(job: Job) -> Result<Json<Greeting>, Failure> {
    let (signup, reminder) = read(&job)?;
    let domain = signup.domain();
    if job.attempt == 1 && is_greylisted(domain) {
        let message = format!("{domain} takes new senders at the second try");
        return Err(Failure::retry("greylisted", message).after(GREYLISTED_FOR));
    }
    let event = if reminder { "reminder" } else { "signup" };
    log::info(event, &[("domain", &domain), ("plan", &signup.plan)]);
    if !reminder {
        remind_later(&job, &signup)?;
    }
    let name = &signup.name;
    let greeting = if reminder { format!("Still there, {name}?") } else { format!("Welcome, {name}!") };
    Ok(Json(Greeting { signup, greeting }))
}

/// What the body says, and whether it is a reminder. What makes no sense never will: it is rejected.
fn read(job: &Job) -> Result<(Signup, bool), Failure> {
    let body: Map<String, Value> = job.json()?;
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    let email = text("email").map(|email| email.trim_matches(WHITE_SPACE).to_ascii_lowercase());
    let email = email.filter(|email| is_email(email));
    let email = email.ok_or_else(|| Failure::reject("invalid-email", "`email` is no email address"))?;
    let name = text("name").map(tidy).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Failure::reject("invalid-name", "`name` is missing or empty"))?;
    let plan = match body.get("plan") {
        None => "free",
        Some(Value::String(plan)) if plan == "free" || plan == "pro" => plan,
        Some(_) => return Err(Failure::reject("invalid-plan", "`plan` is neither `free` nor `pro`")),
    };
    let reminder = match body.get("reminder") {
        None => false,
        Some(Value::Bool(reminder)) => *reminder,
        Some(_) => return Err(Failure::reject("bad-payload", "`reminder` is neither true nor false")),
    };
    Ok((Signup { email, name, plan: plan.to_owned() }, reminder))
}

fn is_email(text: &str) -> bool {
    let Some((user, domain)) = text.split_once('@') else { return false };
    let inner_dot = domain.char_indices().any(|(at, c)| c == '.' && at > 0 && at + 1 < domain.len());
    !user.is_empty() && inner_dot && !domain.contains('@')
}

/// Single spaces between words, none around them.
fn tidy(name: &str) -> String {
    let words: Vec<_> = name.split(WHITE_SPACE).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn is_greylisted(domain: &str) -> bool {
    let list = config::get("greylist").unwrap_or_default();
    list.split(',').any(|listed| listed.trim_matches(WHITE_SPACE) == domain)
}

/// Visible together with this job's acknowledgement, or not at all; once per address.
fn remind_later(job: &Job, signup: &Signup) -> Result<(), Failure> {
    NewJob::to(&job.topic)
        .json(&Reminder { signup, reminder: true })?
        .after(REMIND_AFTER)
        .unique(format!("reminder:{}", signup.email))
        .priority(Priority::Low)
        .enqueue()?;
    Ok(())
}

impl Signup {
    fn domain(&self) -> &str {
        self.email.split_once('@').map_or("", |(_, domain)| domain)
    }
}

#[cfg(test)]
mod tests;
