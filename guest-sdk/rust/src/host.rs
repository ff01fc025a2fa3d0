//! The host functions: the real ones in a component, the fakes of [`crate::testing`] everywhere else.

#[cfg(target_family = "wasm")]
pub(crate) use crate::bindings::gristmill::job::*;
#[cfg(target_family = "wasm")]
pub(crate) use crate::bindings::http::gristmill::job::http;
#[cfg(target_family = "wasm")]
pub(crate) use crate::bindings::state::gristmill::job::state;
#[cfg(not(target_family = "wasm"))]
pub(crate) use crate::testing::fake::*;
