//! The server that is attacked, and the tokens that the attackers and the honest tenant have.

use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::Process;
use gristmill_tests::test_project::TestProject;
use serde_json::json;

/// A server in a process of its own, with the tenants `honest` and `evil`.
pub(super) struct Target {
    pub(super) project: TestProject,
    process: Process,
    operator: HttpClient,
}

impl Target {
    /// Starts a server with this manifest and these components in its folder: name and path.
    pub(super) async fn start(manifest: &str, handlers: &[(&str, &str)]) -> Self {
        let project = TestProject::new(manifest, handlers).await;
        let process = project.serve_with(&["--log", "gristmill=info"]).await;
        let said = project.run(&["token", "create", "--all-tenants", "--scope", "push,work,read,admin"]).done();
        let token = said.split_whitespace().find(|word| word.starts_with("gm_")).expect("a token").to_owned();
        let server = HttpClient::new(project.address().expect("a server"));
        Self { project, process, operator: server.with_token(&token) }
    }

    /// Begins to measure the peak of the server's memory anew; the bytes that it has now.
    pub(super) fn reset_peak(&self) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.pid()), "5").unwrap();
        self.peak()
    }

    /// The most bytes that the server had in memory since then.
    pub(super) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        kib.map_or(0, |kib: u64| kib << 10)
    }

    /// A client with a token for every tenant and everything.
    pub(super) fn operator(&self) -> &HttpClient {
        &self.operator
    }

    /// A client with a new token of this tenant.
    pub(super) async fn client(&self, tenant: &str, scopes: &[&str]) -> HttpClient {
        let new = json!({ "tenant": tenant, "scopes": scopes });
        let made = self.operator.post("/v1/tokens", &new).await;
        assert_eq!(made.status, 201, "{}", made.text());
        self.operator.with_token(made.json()["text"].as_str().expect("its text"))
    }

    /// Holds the server to being the same process as at its start, without a panic.
    pub(super) fn assert_unharmed(&mut self) {
        let ended = self.process.ended();
        let log = self.process.log();
        assert!(ended.is_none(), "the server ended: {ended:?}");
        // What a guest says stands behind the time, or is indented.
        let panicked = log.lines().find(|line| line.starts_with("thread '") && line.contains("panicked"));
        assert!(panicked.is_none(), "{panicked:?}");
    }
}
