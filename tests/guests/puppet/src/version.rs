//! A version that a test can change without compiling: it overwrites the marker's digits in the component's bytes.

/// Stands once in the component's data. A test finds it by its first 15 bytes and writes other digits.
pub const MARKER: &[u8; 25] = b"PUPPET-VERSION-0000000000";

/// The digits with which [`check`] fails: a version that refuses itself.
const REFUSES_ITSELF: &[u8] = b"6666666666";

#[used]
static PATCHABLE: [u8; 25] = *MARKER;

/// The marker as it stands in the running component.
#[expect(unsafe_code, reason = "an ordinary read would be replaced by the constant")]
pub fn version() -> [u8; 25] {
    // SAFETY: the pointer comes from a reference to a static.
    unsafe { std::ptr::read_volatile(&raw const PATCHABLE) }
}

/// The component's self-test.
pub(crate) fn check() -> Result<(), String> {
    if version().ends_with(REFUSES_ITSELF) { Err("this version refuses itself".into()) } else { Ok(()) }
}
