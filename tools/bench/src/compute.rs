//! Jobs that compute, all of them ready at once: whether they are done as fast as with one slot for each thread, and how soon a short job
//! begins beside them.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::figure::{Figure, Spread};
use super::load::{drain, fill_with, job, job_with};
use super::stopwatch::figure;
use super::test_bed::{TestBed, TopicSetup, load, topic};
use gristmill_core::job::Due;
use gristmill_core::outcome::{OutcomeKind, Verdict};
use gristmill_sandbox::Sandbox;

/// Pixels of a photo.
const WIDTH: u32 = 640;
const HEIGHT: u32 = 480;

/// So many photos are made smaller by `handler`, `concurrency` at once, beside one short job every 20 ms. The rate is that of the photos,
/// the delay that of the short jobs, from push to start; and how many attempts ran out of time.
///
/// # Errors
/// If the store fails, or the component does not load.
pub async fn compute(
    bed: &TestBed,
    sandbox: &Sandbox,
    handler: &Path,
    concurrency: usize,
    photos: usize,
) -> anyhow::Result<(Figure, usize)> {
    const PERIOD: Duration = Duration::from_millis(20);
    bed.settings.progress.begin(format!("compute: {concurrency} at once"), 2 * photos);
    let compute = topic("photos");
    let component = load(sandbox, handler).await?;
    let setup = TopicSetup { topic: compute.clone(), component, concurrency, reuse: 1 };
    bed.serve(vec![bed.topic_setup(bed.topic.clone()), setup]);
    let photo = photo();
    fill_with(bed, photos, std::iter::repeat_with(|| job_with(&compute, photo.clone(), Due::Now))).await?;

    let (runner, mut records) = bed.run()?;
    let (begun, mut remaining, mut timeouts) = (Instant::now(), photos, 0);
    let (mut pushed, mut delays) = (HashMap::new(), Vec::new());
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while remaining > 0 {
        tokio::select! {
            _ = ticks.tick() => {
                let job = job(bed, Due::Now);
                pushed.insert(job.spec.id.clone(), Instant::now());
                bed.store.store.push(&[job]).await?;
            }
            Some(record) = records.recv() => {
                if let (Some(pushed), Some(run)) = (pushed.remove(&record.claim.lease.job), record.run) {
                    delays.push(run.started.saturating_duration_since(pushed));
                    continue;
                }
                timeouts += usize::from(record.outcome == OutcomeKind::TimedOut);
                if !matches!(record.verdict, Verdict::Retry { .. }) {
                    remaining -= 1;
                    bed.settings.progress.add(1);
                }
            }
        }
    }
    let jobs_per_second = Some(photos as f64 / begun.elapsed().as_secs_f64());
    runner.end().await;
    drain(bed, &bed.topic).await?;
    let case = format!("{photos} photos, {concurrency} at once");
    Ok((Figure { delay: Spread::of(delays), jobs_per_second, ..figure(bed, "compute", photos).case(case) }, timeouts))
}

/// A picture as a PNG whose pixels are not compressed.
fn photo() -> Vec<u8> {
    let row = |y: u32| std::iter::once(0).chain((0..WIDTH).flat_map(move |x| [x as u8, y as u8, (x * y / 64) as u8]));
    let pixels: Vec<u8> = (0..HEIGHT).flat_map(row).collect();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let head: Vec<u8> = [WIDTH.to_be_bytes(), HEIGHT.to_be_bytes()].concat();
    chunk(&mut png, b"IHDR", &[&head, &[8, 2, 0, 0, 0][..]].concat());
    chunk(&mut png, b"IDAT", &stored(&pixels));
    chunk(&mut png, b"IEND", &[]);
    png
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let content = [kind, data].concat();
    png.extend((data.len() as u32).to_be_bytes());
    png.extend(&content);
    png.extend(crc32(&content).to_be_bytes());
}

/// A zlib stream of blocks that are stored as they are.
fn stored(data: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 0xffff;
    let mut stream = vec![0x78, 0x01];
    let blocks = data.chunks(BLOCK);
    let last = blocks.len();
    for (number, block) in blocks.enumerate() {
        let length = block.len() as u16;
        stream.push(u8::from(number + 1 == last));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend(((high << 16) | low).to_be_bytes());
    stream
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !data.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert!(stored(b"Wikipedia").ends_with(&[0x11, 0xe6, 0x03, 0x98]));
        assert!(photo().len() < 1 << 20);
    }
}
