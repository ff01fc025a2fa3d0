//! The example does what it says.

use std::process::Command;

#[test]
fn the_example_greets() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = Command::new(env!("CARGO_BIN_EXE_embed")).current_dir(folder).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, Ada!\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}
