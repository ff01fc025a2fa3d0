//! What wit-bindgen makes of `wit/job.wit`. The only generated code; everything else wraps it. Made by `tests/it/bindings.rs`, so that no project has to
//! compile wit-bindgen's generator.
#![allow(
    clippy::allow_attributes_without_reason,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    unsafe_code,
    reason = "it is generated"
)]

include!("bindings/job_handler.rs");

/// Requests over HTTP. A world of its own, so that a component which sends none imports nothing of it.
pub mod http {
    include!("bindings/http.rs");
}

/// The state of the job's key. A world of its own for the same reason.
pub mod state {
    include!("bindings/state.rs");
}

/// The optional export. A world of its own, because a component that exports `check` must implement it.
pub mod self_test {
    include!("bindings/self_test.rs");
}
