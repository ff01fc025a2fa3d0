//! The whole product, as a program embeds it. The other scenarios start a runner by itself.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::figure::Figure;
use super::load::job_with;
use super::open_store::BenchStore;
use super::stopwatch::Stopwatch;
use super::test_bed::{TestBed, counted, reach, temporary_folder};
use gristmill::runner::native::HandlerError;
use gristmill::{Builder, Gristmill};
use gristmill_config::Listen;
use gristmill_core::job::Due;
use gristmill_store::embedded::Durability;

/// Jobs in one push.
const PUSH: usize = 1000;

/// A full queue is worked off by [`Gristmill::builder`]: with a manifest and a watched folder of handlers, its store calls timed, its bill
/// written, without an HTTP server. Then the same with a native handler that does nothing, as workers of other queues have them.
///
/// # Errors
/// If the store fails, or the handler does not load.
pub async fn product(bed: &TestBed, jobs: usize) -> anyhow::Result<[Figure; 2]> {
    bed.settings.progress.begin(format!("product, {}", bed.settings.store), 4 * jobs);
    let component = measured(bed, jobs, |product, handlers| {
        std::fs::copy(&bed.settings.handler, handlers.join("bench.wasm")).context("failed to copy the handler")?;
        Ok(product)
    });
    let component = component.await?.case("a component");
    let native = measured(bed, jobs, |product, _| Ok(product.handler("bench", async |_| Ok::<_, HandlerError>(()))?));
    Ok([component, native.await?.case("a native handler")])
}

/// `add` puts the handler into the folder, or into the program.
async fn measured(
    bed: &TestBed,
    jobs: usize,
    add: impl FnOnce(Builder, &Path) -> anyhow::Result<Builder>,
) -> anyhow::Result<Figure> {
    let folder = temporary_folder()?;
    let handlers = folder.path().join("handlers");
    std::fs::create_dir(&handlers).context("failed to make a folder of handlers")?;
    let (observer, done) = counted();
    let product = add(Gristmill::builder().manifest_text(&manifest(bed, folder.path())?)?, &handlers)?;
    let product = product.handlers(&handlers).listen(Listen::Off).observer(observer).start().await?;
    let figure = work_off(bed, &product, &done, jobs).await;
    product.shutdown(CancellationToken::new()).await;
    figure
}

async fn work_off(bed: &TestBed, product: &Gristmill, done: &AtomicUsize, jobs: usize) -> anyhow::Result<Figure> {
    let job = || job_with(&bed.topic, bed.settings.body.to_vec(), Due::Now);
    // Its handler is compiled for the first one.
    product.push(job()).await?;
    reach(done, 1, &bed.settings.progress).await;
    let store = product.store();
    store.set_paused(&bed.topic, true).await?;
    for chunk in (0..jobs).step_by(PUSH) {
        let batch: Vec<_> = std::iter::repeat_with(job).take(PUSH.min(jobs - chunk)).collect();
        store.push(&batch).await?;
        bed.settings.progress.add(batch.len());
    }
    let stopwatch = Stopwatch::begin(bed, None);
    store.set_paused(&bed.topic, false).await?;
    reach(done, 1 + jobs, &bed.settings.progress).await;
    Ok(stopwatch.end(bed, "product", jobs))
}

/// The same store and limits as those of the bed.
fn manifest(bed: &TestBed, folder: &Path) -> anyhow::Result<String> {
    let settings = &bed.settings;
    let mut manifest = String::from("[store]\n");
    match &settings.store {
        BenchStore::Embedded(durability) => {
            let durability = if *durability == Durability::Power { "power" } else { "process" };
            let file = folder.join("product.db");
            write!(manifest, "url = \"sqlite:{}\"\ndurability = \"{durability}\"\n", file.display())?;
        }
        _ => writeln!(manifest, "url = \"{}\"", bed.store.redis()?.0)?,
    }
    let (threads, concurrency) = (settings.threads, settings.concurrency);
    write!(
        manifest,
        "[server]\nconcurrency = {concurrency}\nthreads = {threads}\n[topics.{}]\nconcurrency = {concurrency}\n",
        bed.topic.topic
    )?;
    Ok(manifest)
}
