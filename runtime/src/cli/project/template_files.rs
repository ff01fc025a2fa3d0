//! Which files a new project has, as folders of `templates/`: the build script packs them, and `gristmill new` writes them.

/// Files by their paths below a folder.
pub(crate) struct Folder {
    pub(crate) path: &'static str,
    pub(crate) files: &'static [&'static str],
}

/// The contract of handlers.
pub(crate) const CONTRACT: Folder = Folder { path: "wit", files: &["job.wit"] };

pub(crate) const RUST: Folder = Folder {
    path: "examples/welcome-rust",
    files: &[
        ".cargo/config.toml",
        ".gitignore",
        "Cargo.toml",
        "README.md",
        "gristmill.toml",
        "handler.toml",
        "src/lib.rs",
        "src/tests.rs",
    ],
};

pub(crate) const RUST_SDK: Folder = Folder {
    path: "guest-sdk/rust",
    files: &[
        "Cargo.toml",
        "README.md",
        "src/bindings.rs",
        "src/bindings/http.rs",
        "src/bindings/job_handler.rs",
        "src/bindings/self_test.rs",
        "src/bindings/state.rs",
        "src/config.rs",
        "src/context.rs",
        "src/export.rs",
        "src/failure.rs",
        "src/host.rs",
        "src/http.rs",
        "src/job.rs",
        "src/lib.rs",
        "src/log.rs",
        "src/outcome.rs",
        "src/payload.rs",
        "src/queue.rs",
        "src/state.rs",
        "src/testing/answer.rs",
        "src/testing/fake.rs",
        "src/testing/host.rs",
        "src/testing/job.rs",
        "src/testing/mod.rs",
        "src/testing/run.rs",
    ],
};

pub(crate) const JAVASCRIPT: Folder = Folder {
    path: "examples/welcome-javascript",
    files: &[
        ".gitignore",
        "README.md",
        "gristmill.toml",
        "handler.js",
        "handler.test.js",
        "handler.toml",
        "package.json",
    ],
};

pub(crate) const TYPESCRIPT: Folder = Folder {
    path: "examples/welcome-typescript",
    files: &[
        ".gitignore",
        "README.md",
        "gristmill.toml",
        "handler.test.ts",
        "handler.toml",
        "handler.ts",
        "package.json",
        "tsconfig.json",
    ],
};

pub(crate) const JAVASCRIPT_SDK: Folder = Folder {
    path: "guest-sdk/javascript",
    files: &[
        "README.md",
        "build.js",
        "component.js",
        "host.js",
        "index.js",
        "native/host.js",
        "native/main.js",
        "native/replay.js",
        "native/start",
        "package.json",
        "testing.js",
        "types/index.d.ts",
        "types/testing.d.ts",
        "web/clock.js",
        "web/clone.js",
        "web/crypto.js",
        "web/events.js",
        "web/fetch.js",
        "web/globals.js",
        "web/http.js",
        "web/loop.js",
        "web/quickjs.js",
        "web/starlingmonkey.js",
        "web/url.js",
    ],
};

pub(crate) const PYTHON: Folder = Folder {
    path: "examples/welcome-python",
    files: &[
        ".gitignore",
        "README.md",
        "gristmill.toml",
        "handler.py",
        "handler.toml",
        "requirements.txt",
        "test_handler.py",
    ],
};

pub(crate) const PYTHON_SDK: Folder = Folder {
    path: "guest-sdk/python",
    files: &[
        "README.md",
        "_build.py",
        "gristmill_guest/__init__.py",
        "gristmill_guest/_attempt.py",
        "gristmill_guest/_component_host.py",
        "gristmill_guest/_context.py",
        "gristmill_guest/_failure.py",
        "gristmill_guest/_host.py",
        "gristmill_guest/_http.py",
        "gristmill_guest/_job.py",
        "gristmill_guest/_native_http.py",
        "gristmill_guest/_payload.py",
        "gristmill_guest/_queue.py",
        "gristmill_guest/_replay.py",
        "gristmill_guest/_sockets.py",
        "gristmill_guest/_state.py",
        "gristmill_guest/check.py",
        "gristmill_guest/component.py",
        "gristmill_guest/job.wit",
        "gristmill_guest/native.py",
        "gristmill_guest/py.typed",
        "gristmill_guest/testing.py",
        "pyproject.toml",
    ],
};

pub(crate) const GO: Folder = Folder {
    path: "examples/welcome-go",
    files: &[".gitignore", "README.md", "go.mod", "gristmill.toml", "handler.go", "handler.toml", "handler_test.go"],
};

pub(crate) const GO_SDK: Folder = Folder {
    path: "guest-sdk/go",
    files: &[
        "README.md",
        "attempt.go",
        "contract.go",
        "fake.go",
        "go.mod",
        "gristmill.go",
        "http.go",
        "log.go",
        "nethttp/nethttp.go",
        "queue.go",
        "state.go",
        "wasm.go",
    ],
};

pub(crate) const C: Folder = Folder {
    path: "examples/welcome-c",
    files: &[".gitignore", "README.md", "gristmill.toml", "handler.c", "handler.toml", "handler_test.c"],
};

pub(crate) const C_SDK: Folder = Folder {
    path: "guest-sdk/c",
    files: &["README.md", "gristmill.c", "gristmill.h", "gristmill_fake.h", "json.c", "json.h"],
};

pub(crate) const ASSEMBLYSCRIPT: Folder = Folder {
    path: "examples/welcome-assemblyscript",
    files: &[
        ".gitignore",
        "README.md",
        "asconfig.json",
        "assembly/handler.ts",
        "gristmill.toml",
        "handler.toml",
        "package.json",
        "tests/handler.test.mjs",
    ],
};

pub(crate) const ASSEMBLYSCRIPT_SDK: Folder = Folder {
    path: "guest-sdk/assemblyscript",
    files: &["README.md", "contract.ts", "glue.ts", "index.ts", "json.ts", "names.mjs", "package.json", "testing.mjs"],
};

pub(crate) const ZIG: Folder = Folder {
    path: "examples/welcome-zig",
    files: &[".gitignore", "README.md", "gristmill.toml", "handler.toml", "handler.zig", "handler_test.zig"],
};

pub(crate) const ZIG_SDK: Folder = Folder {
    path: "guest-sdk/zig",
    files: &["README.md", "build.zig", "build.zig.zon", "contract.zig", "fake.zig", "gristmill.zig"],
};

pub(crate) const MINIMAL_RUST: Folder =
    Folder { path: "examples/minimal-rust", files: &["README.md", "gristmill.toml", "src/lib.rs"] };

pub(crate) const MINIMAL_JAVASCRIPT: Folder = Folder {
    path: "examples/minimal-javascript",
    files: &["README.md", "gristmill.toml", "handler.js", "handler.test.js"],
};

pub(crate) const MINIMAL_TYPESCRIPT: Folder = Folder {
    path: "examples/minimal-typescript",
    files: &["README.md", "gristmill.toml", "handler.test.ts", "handler.ts"],
};

pub(crate) const MINIMAL_PYTHON: Folder = Folder {
    path: "examples/minimal-python",
    files: &["README.md", "gristmill.toml", "handler.py", "test_handler.py"],
};

pub(crate) const MINIMAL_GO: Folder =
    Folder { path: "examples/minimal-go", files: &["README.md", "gristmill.toml", "handler.go", "handler_test.go"] };

pub(crate) const MINIMAL_C: Folder =
    Folder { path: "examples/minimal-c", files: &["README.md", "gristmill.toml", "handler.c", "handler_test.c"] };

pub(crate) const MINIMAL_ASSEMBLYSCRIPT: Folder = Folder {
    path: "examples/minimal-assemblyscript",
    files: &["README.md", "assembly/handler.ts", "gristmill.toml", "tests/handler.test.mjs"],
};

pub(crate) const MINIMAL_ZIG: Folder =
    Folder { path: "examples/minimal-zig", files: &["README.md", "gristmill.toml", "handler.zig", "handler_test.zig"] };

#[allow(dead_code, reason = "the build script's")]
pub(crate) const ALL: [Folder; 24] = [
    CONTRACT,
    RUST,
    RUST_SDK,
    JAVASCRIPT,
    TYPESCRIPT,
    JAVASCRIPT_SDK,
    PYTHON,
    PYTHON_SDK,
    GO,
    GO_SDK,
    C,
    C_SDK,
    ASSEMBLYSCRIPT,
    ASSEMBLYSCRIPT_SDK,
    ZIG,
    ZIG_SDK,
    MINIMAL_RUST,
    MINIMAL_JAVASCRIPT,
    MINIMAL_TYPESCRIPT,
    MINIMAL_PYTHON,
    MINIMAL_GO,
    MINIMAL_C,
    MINIMAL_ASSEMBLYSCRIPT,
    MINIMAL_ZIG,
];
