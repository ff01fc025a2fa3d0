//! How soon a guest that computes without end gives its thread back, and how late its deadline is seen.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::guest::Guest;
use crate::sandbox::Sandbox;
use crate::variant::Variant;

/// What the guest is given. The timers are whole milliseconds, so it may well get one more.
const TIMEOUT: Duration = Duration::from_millis(10);

pub(crate) fn compare(runtime: &Runtime, variants: &[Variant], runs: usize) {
    println!(
        "\nAn endless loop, stopped after {TIMEOUT:?}: how long it keeps its thread, and how late it is stopped (ms)\n"
    );
    println!("{:30} {:>10} {:>10} {:>10} {:>10}", "", "kept p50", "kept p99", "late p50", "late p99");
    let guest = Guest::endless();
    for variant in variants {
        let sandbox = Sandbox::new(variant, &guest);
        let _clock = sandbox.clock();
        let (mut held, mut late) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            let ended = runtime.block_on(LocalSet::new().run_until(sandbox.run(&guest, TIMEOUT)));
            held.extend(ended.held);
            late.push(ended.late);
        }
        let [held, late] = [held, late].map(|mut times| {
            times.sort();
            [50, 99].map(|per_cent| times[times.len() * per_cent / 100].as_secs_f64() * 1e3)
        });
        println!("{:30} {:10.3} {:10.3} {:10.3} {:10.3}", variant.name, held[0], held[1], late[0], late[1]);
    }
}
