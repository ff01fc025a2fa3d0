//! Which jobs are tried with a new version: those in the project's folder, or else the topic's last one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use gristmill_core::job::{Job, JobSpec, Payload, TopicId};
use gristmill_runner::Observer;
use gristmill_server::new_job;

/// The folder of a project that has jobs.
pub(super) const FOLDER: &str = "jobs";
/// What the name of a file ends in that has more of a job than its body.
const WHOLE: &str = ".job.json";

/// The last job of each topic that this runner had.
#[derive(Debug, Clone, Default)]
pub(super) struct LastJobs(Arc<Mutex<BTreeMap<TopicId, Arc<Job>>>>);

impl LastJobs {
    /// The observer that prints each attempt.
    pub(super) fn observer(&self) -> Observer {
        let Self(jobs) = self.clone();
        Arc::new(move |record| {
            let job = &record.claim.job;
            jobs.lock().insert(job.spec.topic.clone(), Arc::clone(job));
        })
    }

    fn of(&self, topic: &TopicId) -> Option<Arc<Job>> {
        self.0.lock().get(topic).cloned()
    }
}

/// A job to try, or why a file is none; and what people call it.
pub(super) type Named = (String, Result<JobSpec, String>);

/// The jobs of a project's folder, in order of their files; if it has none, the topic's last job, if there was one.
pub(super) fn of(project: &Path, topic: &TopicId, last: &LastJobs) -> Vec<Named> {
    let files = files(project);
    if !files.is_empty() {
        let name = |path: &Path| format!("{FOLDER}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        return files.iter().map(|path| (name(path), read(path, topic))).collect();
    }
    let last = last.of(topic);
    last.into_iter().map(|job| (format!("the last job, {}", job.spec.id), Ok(job.spec.clone()))).collect()
}

fn files(project: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project.join(FOLDER)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| is_job(path) && path.is_file()).collect();
    files.sort();
    files
}

/// Whether a file of the folder has a job: `ada.json` its body, `ada.job.json` all of it.
pub(super) fn is_job(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".json") && !name.starts_with('.') && path.parent().is_some_and(|folder| folder.ends_with(FOLDER))
}

fn read(path: &Path, topic: &TopicId) -> Result<JobSpec, String> {
    if path.to_string_lossy().ends_with(WHOLE) {
        let document = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        return new_job(&document, topic).map(|job| job.spec);
    }
    let data = std::fs::read(path).map_err(|error| error.to_string())?;
    Ok(JobSpec::new(topic.clone(), Payload { data, content_type: Some("application/json".into()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bodies_or_whole_jobs_and_come_before_the_last_job() {
        let folder = tempfile::tempdir().unwrap();
        let topic: TopicId = "acme/mail".parse().unwrap();
        let last = LastJobs::default();
        assert!(of(folder.path(), &topic, &last).is_empty());
        let spec = JobSpec::new(topic.clone(), Payload { data: b"last".to_vec(), content_type: None });
        let (now, id) = (gristmill_core::time::Timestamp::now(), spec.id.clone());
        last.0.lock().insert(topic.clone(), Arc::new(Job { spec, enqueued_at: now, due_at: now }));
        assert_eq!(of(folder.path(), &topic, &last)[0].0, format!("the last job, {id}"));

        let jobs = folder.path().join(FOLDER);
        std::fs::create_dir(&jobs).unwrap();
        std::fs::write(jobs.join("b.job.json"), r#"{"body": [1], "metadata": {"width": "200"}}"#).unwrap();
        std::fs::write(jobs.join("a.json"), r#"{"body": [1]}"#).unwrap();
        std::fs::write(jobs.join("c.job.json"), r#"{"bdoy": [1]}"#).unwrap();
        std::fs::write(jobs.join("notes.txt"), "x").unwrap();
        let [(a, body), (b, whole), (c, bad)] = of(folder.path(), &topic, &last).try_into().unwrap();
        assert_eq!([a, b, c], ["jobs/a.json", "jobs/b.job.json", "jobs/c.job.json"]);
        assert_eq!(body.unwrap().body.data, br#"{"body": [1]}"#);
        let whole = whole.unwrap();
        assert_eq!((&*whole.body.data, &*whole.metadata), (&b"[1]"[..], &[("width".into(), "200".into())][..]));
        assert!(bad.unwrap_err().contains("bdoy"));
    }
}
