//! What a guest can call: one file per interface of `wit/`, and WASI.

mod capability;
mod config;
mod context;
mod http;
mod linker;
mod log;
mod queue;
mod wasi;

pub(super) use capability::needed;
pub(super) use linker::{ALLOWED_IMPORTS, linker};
pub(super) use wasi::GuestWasi;
