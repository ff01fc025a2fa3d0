//! Tries jobs with the version that serves, beside the queue, and shows how each run differs from the one before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::super::document::with;
use super::super::global::Global;
use super::super::invoke::{self, Ran};
use super::super::screen;
use super::super::table::facts;
use super::difference::Compared;
use super::jobs::{self, LastJobs};
use gristmill_core::job::{JobSpec, TopicId};
use gristmill_core::topic::Topic;
use gristmill_runner::handlers::TopicHandler;

const RESULT_CHARS: usize = 4000;

/// The runs that a session has made last.
#[derive(Debug)]
pub(super) struct Runs {
    last: LastJobs,
    /// Of each project.
    before: BTreeMap<PathBuf, Round>,
}

/// By the topic and what people call the job.
type Round = BTreeMap<(TopicId, String), Compared>;

impl Runs {
    pub(super) fn new(last: LastJobs) -> Self {
        Self { last, before: BTreeMap::new() }
    }

    /// Runs each job of the project once, in each of its topics.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(super) async fn again(
        &mut self,
        global: &Global,
        project: &Path,
        topics: &[Arc<TopicHandler>],
    ) -> anyhow::Result<()> {
        let (before, mut round) = (self.before.remove(project).unwrap_or_default(), Round::new());
        for entry in topics {
            let topic = &entry.topic.id;
            let jobs = jobs::of(project, topic, &self.last);
            if jobs.is_empty() {
                let folder = project.join(jobs::FOLDER);
                screen::note(&format!(
                    "no job to run: push one to `{topic}`, or put its body into {}/NAME.json",
                    folder.display()
                ));
            }
            for (name, job) in jobs {
                let key = (topic.clone(), name);
                match job {
                    Ok(spec) => {
                        let Some(ran) = attempt(entry, spec).await else { continue };
                        let now = Compared::of(&ran);
                        show(
                            global,
                            &entry.topic,
                            &key.1,
                            &ran,
                            before.get(&key).map(|before| now.difference(before)),
                        )?;
                        round.insert(key, now);
                    }
                    Err(problem) => {
                        screen::note(&format!("error: {}/{} is no job: {problem}", project.display(), key.1))
                    }
                }
            }
        }
        self.before.insert(project.to_owned(), round);
        Ok(())
    }
}

async fn attempt(entry: &TopicHandler, spec: JobSpec) -> Option<Ran> {
    let handler = entry.handler.as_ref()?;
    Some(invoke::attempt(&handler.code, &entry.topic, Arc::clone(&entry.targets), spec, 1).await)
}

fn show(global: &Global, topic: &Topic, name: &str, ran: &Ran, difference: Option<Vec<String>>) -> anyhow::Result<()> {
    if global.json {
        let document = with(
            ran.as_document(&topic.limits),
            [
                ("kind", "run".into()),
                ("tenant", topic.id.tenant.as_str().into()),
                ("topic", topic.id.topic.as_str().into()),
                ("name", name.into()),
                ("difference", json!(difference)),
            ],
        );
        return screen::document(&document);
    }
    let mut about = ran.about(&topic.limits);
    if let Some(output) = ran.output() {
        about.push(("result", readable(&output.data)));
    }
    screen::note(&format!("\nrun of {name} in `{}`\n{}", topic.id, facts(&about)));
    match difference {
        None => {}
        Some(lines) if lines.is_empty() => screen::note("as the run before"),
        Some(lines) => {
            let lines: Vec<_> = lines.iter().map(|line| format!("  {}", screen::clean(line))).collect();
            screen::note(&format!("differs from the run before:\n{}", lines.join("\n")));
        }
    }
    Ok(())
}

fn readable(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return format!("{} bytes of binary data", data.len()) };
    match text.char_indices().nth(RESULT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
