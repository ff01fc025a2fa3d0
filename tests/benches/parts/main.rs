//! The parts of a job's way, each by itself.
//!
//! ```console
//! $ cargo bench --bench parts                 # all
//! $ cargo bench --bench parts -- 'claim|settle'   # some
//! ```

mod codec;
mod count;
mod decide;
mod sandbox;
mod store;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

criterion::criterion_group!(parts, codec::bench, count::bench, decide::bench, sandbox::bench, store::bench);
criterion::criterion_main!(parts);
