//! The worker that the documentation shows, against a server.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use gristmill::job::JobId;
use gristmill::store::{JobState, ResultView};
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};

use super::view;
use crate::languages::require;

/// Killed when dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_python_does_jobs_and_fails_what_it_cannot_read() {
    require(&["python3"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/pull-worker-python");
    let manifest = std::fs::read_to_string(folder.join("gristmill.toml")).unwrap();
    let runner = TestRunner::start_on(On::Memory, &format!("{manifest}attempts = 1\n"), &[]).await;
    let program = Command::new("python3")
        .arg(folder.join("worker.py"))
        .arg("shout")
        .env("GRISTMILL_SERVER", format!("http://{}", runner.client().address))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _worker = Worker(program);
    let (good, bad) = (runner.push("shout", b"hello").await, runner.push("shout", b"\xff").await);
    let ended = async |job: &JobId| {
        until("the end of the job", SOON, async || view(&runner, job).await.filter(|view| view.result.is_some())).await
    };
    let Some(ResultView::Complete(Some(result))) = ended(&good).await.result else { panic!("it is not done") };
    assert_eq!(result.data, b"HELLO");
    let failed = ended(&bad).await;
    assert!(matches!(failed.state, JobState::Dead { .. }));
    assert_eq!(failed.last_failure.unwrap().detail.code, "UnicodeDecodeError");
}
