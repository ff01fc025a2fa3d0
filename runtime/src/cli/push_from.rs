//! `gristmill push --from-job`: a new job like one that the store has, perhaps edited before.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, bail};
use tempfile::TempPath;
use tokio::signal::unix::{SignalKind, signal};

use super::describe::UNKNOWN;
use super::exit::Usage;
use super::global::Global;
use super::screen;
use super::store::Way;
use gristmill_core::job::{JobId, JobSpec, Name, NewJob, TopicId};
use gristmill_server::{edited_form, new_job};
use gristmill_store::look_up;

/// The exit code of a command that Ctrl-C has ended: 128 + SIGINT, as shells have it.
const INTERRUPTED: i32 = 130;

/// A job to push, and the file in which it was edited.
pub(super) struct Draft {
    pub(super) job: NewJob,
    file: Option<TempPath>,
}

impl Draft {
    /// Keeps the file, and returns where it is, in words. `None` if nothing was edited.
    pub(super) fn keep(&mut self) -> Option<String> {
        self.file.take().map(kept)
    }
}

/// A job like this one of the tenant, for the topic or its own: due now, with a new id, and waiting for no other. With `edit`, as a person
/// saved it; `None` if that is nothing to push; a note says so.
pub(super) async fn draft(
    way: &Way,
    global: &Global,
    (tenant, id): (&Name, &JobId),
    topic: Option<TopicId>,
    edit: bool,
) -> anyhow::Result<Option<Draft>> {
    // The store is open no longer while the person edits.
    let view = look_up(&*way.reach().await?.store, tenant, id).await?;
    let Some(view) = view else {
        bail!("job {id} is not known to tenant `{tenant}`: {UNKNOWN}");
    };
    let Some(job) = view.job else {
        bail!(
            "job {id} is over: the store does not keep its body\nA job can be pushed again while it waits, runs or is dead."
        );
    };
    let topic = topic.unwrap_or_else(|| job.spec.topic.clone());
    let options = job.spec.options.unlinked();
    let spec = JobSpec { id: JobId::generate(), topic, options, ..job.spec };
    if !edit {
        return Ok(Some(Draft { job: NewJob { spec, due: Default::default() }, file: None }));
    }
    let topic = spec.topic.clone();
    let Some((text, file)) = edited(edited_form(&spec)?).await? else {
        if !global.quiet {
            screen::note("the job was not changed: nothing is pushed");
        }
        return Ok(None);
    };
    match new_job(&text, &topic) {
        Ok(job) => Ok(Some(Draft { job, file: Some(file) })),
        Err(problem) => {
            Err(Usage(format!("what was saved is no job, and nothing is pushed: {problem}\n{}", kept(file))).into())
        }
    }
}

fn kept(file: TempPath) -> String {
    match file.keep() {
        Ok(path) => format!("the text is kept in {}", path.display()),
        Err(error) => format!("the text is lost: {}", error.error),
    }
}

/// What a person made of a text, and the file with it. `None` if it is empty or the same.
///
/// # Errors
/// There is no editor, or it failed: then the error says where the text is kept.
async fn edited(text: String) -> anyhow::Result<Option<(String, TempPath)>> {
    let mut file = tempfile::Builder::new().prefix("gristmill-job-").suffix(".json").tempfile()?;
    file.write_all(text.as_bytes())?;
    let path = file.into_temp_path();
    let ended = edit(&path).await?;
    if !ended.success() {
        bail!("the editor ended with {ended}: nothing is pushed\n{}", kept(path));
    }
    let saved = match std::fs::read_to_string(&path) {
        Ok(saved) => saved,
        Err(error) => bail!("failed to read what was saved, and nothing is pushed: {error}\n{}", kept(path)),
    };
    let is_same = saved.trim().is_empty() || saved == text;
    Ok((!is_same).then_some((saved, path)))
}

async fn edit(path: &Path) -> anyhow::Result<ExitStatus> {
    let set = |name: &str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let Some(editor) = set("VISUAL").or_else(|| set("EDITOR")) else {
        return Err(Usage("no editor is set\nSay which one to use, such as EDITOR=vi.".into()).into());
    };
    // Ctrl-C is the editor's as long as it runs.
    let _interrupts = signal(SignalKind::interrupt())?;
    // A shell, because the variable may have arguments.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path);
    let run = move || command.status();
    let ended = tokio::task::spawn_blocking(run).await?;
    // From then on this task ends the command on Ctrl-C: a process that has once asked for a signal receives it to its end.
    let mut later_interrupts = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        if later_interrupts.recv().await.is_some() {
            std::process::exit(INTERRUPTED);
        }
    });
    ended.with_context(|| format!("failed to start the editor `{editor}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::{Payload, Priority, Unique};
    use std::time::Duration;

    const JSON: &str = "application/json";

    fn spec(data: &[u8], content_type: Option<&str>) -> JobSpec {
        let body = Payload { data: data.to_vec(), content_type: content_type.map(str::to_owned) };
        JobSpec::new("acme/mail".parse().unwrap(), body)
    }

    fn again(spec: &JobSpec) -> JobSpec {
        let text = edited_form(spec).unwrap();
        JobSpec { id: spec.id.clone(), ..new_job(&text, &spec.topic).unwrap().spec }
    }

    #[test]
    fn what_is_not_edited_is_the_same_job() {
        let mut whole = spec(br#"{"to": 1.50}"#, Some(JSON));
        whole.metadata = [("a", "b"), ("a", "c")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        (whole.options.key, whole.options.priority, whole.options.max_attempts) =
            (Some("k".into()), Priority::Low, Some(3));
        whole.options.unique = Some(Unique { value: "u".into(), window: Some(Duration::from_secs(5)) });
        (whole.options.ttl, whole.options.keep_result) = (Some(Duration::from_millis(9)), Some(Duration::from_secs(1)));
        let bodies: [(&[u8], Option<&str>); 7] = [
            (b"[1]", Some("application/problem+json")),
            (b"no JSON", Some(JSON)),
            (b"line\n\"two\"", Some("text/plain")),
            (b"{}", None),
            (b"\xff\xd8", Some("image/jpeg")),
            (b"", None),
            (b"", Some("text/plain")),
        ];
        for spec in bodies.map(|(data, media)| spec(data, media)).into_iter().chain([whole]) {
            assert_eq!(again(&spec), spec);
        }
    }

    #[test]
    fn a_body_is_edited_as_it_reads_best() {
        assert_eq!(edited_form(&spec(b"{\"n\": 1}", Some(JSON))).unwrap(), "{\n  \"body\": {\"n\": 1}\n}\n");
        let text = "{\n  \"body_text\": \"hi\",\n  \"content_type\": \"text/plain\"\n}\n";
        assert_eq!(edited_form(&spec(b"hi", Some("text/plain"))).unwrap(), text);
        assert_eq!(edited_form(&spec(b"\xff", None)).unwrap(), "{\n  \"body_base64\": \"/w==\"\n}\n");
    }

    #[test]
    fn what_is_no_job_is_named() {
        let problem = |text: &str| new_job(text, &"mail".parse().unwrap()).unwrap_err();
        assert_eq!(problem("{\n  \"body\": }"), "body: this is no JSON: expected value (line 2, column 11)");
        assert!(problem(r#"{"bdoy": 1}"#).starts_with("there is no field `bdoy`"), "{}", problem(r#"{"bdoy": 1}"#));
        assert!(problem(r#"{"body_text": 1}"#).starts_with("body_text: expected a text, not 1"));
        assert!(problem(r#"{"body_text": "a", "body_base64": "YQ=="}"#).contains("different bodies"));
        assert!(problem(r#"{"body_text": "a", "body": 1}"#).contains("different bodies"));
    }
}
