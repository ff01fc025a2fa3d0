//! Runs Gristmill inside this program: one topic is served by an async function, and each component in `handlers/` serves
//! another. Components need no other program: they are compiled in this process.

use gristmill::Gristmill;
use gristmill::config::Listen;
use gristmill::job::{Due, JobSpec, NewJob, Payload};
use gristmill::runner::native::{HandlerError, NativeJob};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (greetings, mut greeted) = mpsc::channel(1);
    let greet = move |job: NativeJob| {
        let greetings = greetings.clone();
        async move {
            // An error is a failed attempt: the job is tried again, as with a component.
            let greeting = format!("Hello, {}!", std::str::from_utf8(job.body())?);
            greetings.send(greeting).await?;
            Ok::<(), HandlerError>(())
        }
    };

    let gristmill =
        Gristmill::builder().store("sqlite::memory:")?.listen(Listen::Off).handler("greet", greet)?.start().await?;
    let body = Payload { data: b"Ada".to_vec(), content_type: None };
    gristmill.push(NewJob { spec: JobSpec::new("greet".parse()?, body), due: Due::Now }).await?;
    println!("{}", greeted.recv().await.unwrap_or_default());
    gristmill.shutdown(CancellationToken::new()).await;
    Ok(())
}
