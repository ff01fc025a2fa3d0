//! A version that a test can change without compiling: it overwrites the marker's digits in the component's bytes.

use super::evil;

/// Stands once in the component's data. A test finds it by its first 15 bytes and writes other digits.
pub const MARKER: &[u8; 25] = b"PUPPET-VERSION-0000000000";

/// The digits with which [`check`] fails: a version that refuses itself.
const REFUSES_ITSELF: &[u8] = b"6666666666";

/// Versions that do each job worse than the others, whatever it says.
const TRAPS: &[u8] = b"7777777777";
const LOOPS: &[u8] = b"8888888888";
const COSTS_MORE: &[u8] = b"9999999999";

#[used]
static PATCHABLE: [u8; 25] = *MARKER;

/// The marker as it stands in the running component.
#[expect(unsafe_code, reason = "an ordinary read would be replaced by the constant")]
pub fn version() -> [u8; 25] {
    // SAFETY: the pointer comes from a reference to a static.
    unsafe { std::ptr::read_volatile(&raw const PATCHABLE) }
}

/// What the version does before each job.
pub(crate) fn misbehave() {
    let version = version();
    if version.ends_with(TRAPS) {
        evil::unreachable();
    } else if version.ends_with(LOOPS) {
        evil::burn(u64::MAX);
    } else if version.ends_with(COSTS_MORE) {
        evil::burn(100_000);
    }
}

/// The component's self-test.
pub(crate) fn check() -> Result<(), String> {
    if version().ends_with(REFUSES_ITSELF) { Err("this version refuses itself".into()) } else { Ok(()) }
}
