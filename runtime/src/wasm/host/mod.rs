//! What a guest can call: one file per interface of `wit/`, and WASI.

mod config;
mod context;
mod linker;
mod log;
mod queue;
mod wasi;

pub(super) use linker::{ALLOWED_IMPORTS, linker};
