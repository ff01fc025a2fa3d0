//! A handler that its author forgot to name is found as the project is built, in every language, and replaces nothing.

use super::{require, try_build, unbuilt_project};

macro_rules! forgotten {
    ($($language:ident: $($program:literal)+, $file:literal = $source:expr, $said:literal;)*) => {$(
        #[test]
        fn $language() {
            require(&[$($program),+]);
            is_refused(stringify!($language), $file, $source, $said);
        }
    )*};
}

forgotten! {
    rust: "cargo", "src/lib.rs" = "use gristmill_guest as _;", "handler";
    javascript: "node" "npm", "handler.js" = "
import { handle } from 'gristmill-guest';
function welcome() {}
export const handler = handle(welcom());
function welcom() {}
", "Error: handle(undefined): give it the function that does the jobs\n    at handle (gristmill-guest/index.js:";
    typescript: "node" "npm", "handler.ts" = "export {};", "`handler` in handler.ts cannot be called: write `export const handler = handle(";
    python: "python3", "handler.py" = "import gristmill_guest", "write @handler above the function";
    go: "go", "handler.go" = "package main\n\nimport _ \"github.com/gristmill/gristmill/guest-sdk/go\"\n\nfunc main() {}\n", "no handler: call gristmill.Handle in an init function";
    c: "clang" "wasm-ld", "handler.c" = "#include \"gristmill.h\"\n", "gm_handle";
    assemblyscript: "node" "npm", "assembly/handler.ts" = "export function handel(): void {}", "handle";
    zig: "zig", "handler.zig" = "pub const panic = @import(\"gristmill\").panic;\n", "handler";
}

fn is_refused(language: &str, file: &str, source: &str, said: &str) {
    let folder = unbuilt_project(language);
    let project = folder.path().join("welcome");
    std::fs::write(project.join(file), source).unwrap();
    let build = try_build(&project, &[]);
    let errors = String::from_utf8_lossy(&build.stderr);
    assert!(!build.status.success(), "it was built: {errors}");
    let everything = format!("{}{errors}", String::from_utf8_lossy(&build.stdout));
    assert!(everything.contains(said) && !everything.contains("Node.js v"), "{everything}");
    assert!(!project.join("handlers/welcome.wasm").exists(), "{errors}");
}
