//! The macros that make a function the component's export.

use crate::bindings::gristmill::job::types;
use crate::{Failure, IntoOutcome};

/// Exports a function `fn(Job) -> Result<impl IntoOutcome, impl Into<Failure>>` as the component's handler.
///
/// Once per component. Outside WebAssembly it only checks the function's type.
///
/// ```
/// use gristmill_guest::{Failure, Job, handler};
///
/// fn shout(job: Job) -> Result<String, Failure> {
///     Ok(job.text()?.to_uppercase())
/// }
///
/// handler!(shout);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! handler {
    ($handle:path) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::bindings::exports::gristmill::job::handler::Guest for Exported {
                fn handle(job: $crate::Job) -> $crate::export::Answer {
                    $crate::export::answer($handle(job))
                }
            }

    $crate::bindings::export!(Exported with_types_in $crate::bindings);
        };

        #[cfg(not(target_family = "wasm"))]
        const _: fn($crate::Job) -> $crate::export::Answer = |job| $crate::export::answer($handle(job));
    };
}

/// Exports a function `fn() -> Result<(), String>` that the host calls once, with no job, before a new version of the
/// component takes traffic. An error or a panic keeps the old version.
///
/// ```
/// fn tables_are_complete() -> Result<(), String> {
///     if "a,b,c".split(',').count() == 3 { Ok(()) } else { Err("the built-in table lacks a row".into()) }
/// }
///
/// gristmill_guest::self_test!(tables_are_complete);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! self_test {
    ($check:path) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::bindings::self_test::exports::gristmill::job::self_test::Guest for Exported {
                fn check() -> ::std::result::Result<(), ::std::string::String> {
                    $check()
                }
            }

    $crate::bindings::self_test::export_self_test!(Exported with_types_in $crate::bindings::self_test);
        };

        #[cfg(not(target_family = "wasm"))]
        const _: fn() -> ::std::result::Result<(), ::std::string::String> = $check;
    };
}

/// What the contract's `handle` returns.
pub type Answer = Result<types::Outcome, types::Failure>;

/// From what an author's function returns to what the contract wants.
pub fn answer<T: IntoOutcome, E: Into<Failure>>(result: Result<T, E>) -> Answer {
    result.map_err(Into::into).and_then(IntoOutcome::into_outcome).map_err(Failure::into_wire)
}
