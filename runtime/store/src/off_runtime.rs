//! Work that keeps its thread for long.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs what computes for long, or reads files for which a file system may keep it waiting: other tasks of this thread go on elsewhere
/// meanwhile, where the runtime has several threads. Not for tasks of a `LocalSet`.
pub fn off_runtime<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}
