//! What a component imports and its topic does not grant.

use gristmill::store::{JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{TestRunner, tenant};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Report, Script, Step};

const NO_CLOCK: &str = "[topics.work]\nhandler = \"worker\"\nclock = false\n";

fn result(view: &JobView) -> &[u8] {
    match &view.result {
        Some(ResultView::Complete(Some(payload))) => &payload.data,
        other => panic!("no result but {other:?}"),
    }
}

fn idle() -> Vec<u8> {
    Script::new([Step::SleepMs(1)]).to_json()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_until_the_topic_grants_what_its_handler_imports() {
    let runner = TestRunner::start(NO_CLOCK, &[("worker", guests::PUPPET)]).await;
    let job = runner.push("work", &idle()).await;
    // Another topic's job is done meanwhile: it is not that nothing runs yet.
    runner.drop_in("echo", &std::fs::read(guests::ECHO).unwrap());
    runner.work("echo", b"hello").await;
    assert_eq!(runner.store.job(&tenant(), &job).await.unwrap().unwrap().state, JobState::Ready);
    runner.rewrite(&NO_CLOCK.replace("false", "true"));
    assert_eq!(runner.end_of(&job).await.state, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_wants_more_than_is_granted_does_not_replace_one_that_is_content() {
    let runner = TestRunner::start(NO_CLOCK, &[("worker", guests::ECHO)]).await;
    runner.drop_in("worker", &std::fs::read(guests::PUPPET).unwrap());
    // Known to have been looked at once a component that came later serves.
    runner.drop_in("later", &std::fs::read(guests::ECHO).unwrap());
    runner.work("later", b"hello").await;
    let view = runner.work("work", b"hello").await;
    assert_eq!(result(&view), b"hello");
    runner.rewrite(&NO_CLOCK.replace("false", "true"));
    let version = Script::end(End::Version).to_json();
    until("the newer version to serve", SOON, async || {
        (result(&runner.work("work", &version).await) != version).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_grant_is_shown_with_the_lines_that_add_it() {
    let project = TestProject::new("[defaults]\nclock = false\n[topics.worker]", &[("worker", guests::PUPPET)]).await;
    let lines = ["does not grant what its handler `worker` imports: `clock`", "[topics.worker]", "clock = true"];
    let says_all = |text: &str| lines.iter().all(|line| text.contains(line));
    let invoked = project.run(&["invoke", guests::PUPPET, "--topic", "worker"]);
    assert!(says_all(&invoked.ended(1).err) && !invoked.err.contains("error: error"), "{}", invoked.err);
    let checked = project.run(&["check"]);
    assert!(says_all(&checked.ended(1).text()), "{}", checked.text());
    let runner = project.serve().await;
    assert!(says_all(&runner.log()), "{}", runner.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_sees_the_environment_that_its_topic_is_granted_and_no_more() {
    let manifest =
        "[topics.puppet.env]\nGRANTED = \"yes\"\nOTHER = { env = \"PATH\" }\n[topics.bare]\nhandler = \"puppet\"";
    let runner = TestRunner::start(manifest, &[("puppet", guests::PUPPET)]).await;
    let look = Script::end(End::Report { config: Vec::new(), secrets: Vec::new() }).to_json();
    let seen = async |topic: &str| {
        serde_json::from_slice::<Report>(result(&runner.work(topic, &look).await)).unwrap().environment
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(seen("puppet").await, [pair("GRANTED", "yes"), pair("OTHER", &std::env::var("PATH").unwrap())]);
    assert!(seen("bare").await.is_empty());
}
