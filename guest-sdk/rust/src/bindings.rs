//! What wit-bindgen makes of `wit/job.wit`. The only generated code; everything else wraps it.

wit_bindgen::generate!({
    path: "wit",
    world: "job-handler",
    additional_derives: [PartialEq],
    // `handler!` expands in the author's crate, and finds the macro and the types here.
    pub_export_macro: true,
    default_bindings_module: "gristmill_guest::bindings",
});

/// Requests over HTTP. A world of its own, so that a component which sends none imports nothing of it.
pub mod http {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package gristmill:http-only;
            world http-only { import gristmill:job/http@0.1.0; }
        ",
        generate_all,
        additional_derives: [PartialEq],
        default_bindings_module: "gristmill_guest::bindings::http",
    });
}

/// The state of the job's key. A world of its own for the same reason.
pub mod state {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package gristmill:state-only;
            world state-only { import gristmill:job/state@0.1.0; }
        ",
        generate_all,
        additional_derives: [PartialEq],
        default_bindings_module: "gristmill_guest::bindings::state",
    });
}

/// The optional export. A world of its own, because a component that exports `check` must implement it.
pub mod self_test {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package gristmill:self-test-only;
            world self-test-only { export gristmill:job/self-test@0.1.0; }
        ",
        pub_export_macro: true,
        export_macro_name: "export_self_test",
        default_bindings_module: "gristmill_guest::bindings::self_test",
    });
}
