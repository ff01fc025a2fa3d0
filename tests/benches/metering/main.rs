//! What it costs to bound a guest: fuel with yield against epochs, both, and neither; and what the pool's settings cost.
//!
//! ```console
//! $ cargo bench --bench metering                           # the tables of docs/reference/metering.md
//! $ cargo bench --bench metering -- ../handlers/echo.wasm  # and a handler of yours, seen from tests/
//! ```
//!
//! Engines are the product's own but for what a variant changes. Figures are CPU time of the guest's thread, which a busy
//! machine disturbs less than the time on the wall. Variants take turns within a round, so that what disturbs one disturbs
//! all; ratios are taken within a round.

mod guest;
mod late;
mod measure;
mod sandbox;
mod table;
mod variant;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use guest::Guest;
use measure::{Effort, cost};
use sandbox::Sandbox;
use variant::Variant;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Cargo says `--bench` when it is to measure, and nothing when it is to test.
    let (bench, files): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let full = bench.iter().any(|word| word == "--bench");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let effort = if full {
        Effort { rounds: 15, turn: Duration::from_millis(60) }
    } else {
        Effort { rounds: 1, turn: Duration::ZERO }
    };
    let guests = if full { Guest::all(&files) } else { Guest::quick() };
    let guests: Vec<Rc<Guest>> = guests.into_iter().map(Rc::new).collect();
    compare(&runtime, "Metering", &Variant::metering(), &guests, effort);
    if full {
        compare(&runtime, "Pool and images", &Variant::pool(), &guests, effort);
    }
    late::compare(&runtime, &Variant::bounding(), if full { 100 } else { 1 });
    ExitCode::SUCCESS
}

fn compare(runtime: &tokio::runtime::Runtime, title: &str, variants: &[Variant], guests: &[Rc<Guest>], effort: Effort) {
    table::head(title, variants);
    for guest in guests {
        let sandboxes: Vec<Rc<Sandbox>> =
            variants.iter().map(|variant| Rc::new(Sandbox::new(variant, guest))).collect();
        table::row(&guest.name, &cost(runtime, &sandboxes, guest, effort));
    }
}
