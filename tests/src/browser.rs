//! A real Chromium without a window, driven over WebDriver.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http_client::HttpClient;
use crate::wait::{SOON, until};

/// Switches off whatever would ask for anything but the page under test.
const FLAGS: [&str; 9] = [
    "--headless",
    // A usual screen: what a narrow one shows is for tests that ask for one.
    "--window-size=1280,900",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
/// Where `scripts/setup.sh --tests` puts axe, which looks for mistakes in accessibility.
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/axe/node_modules/axe-core/axe.min.js");

/// A browser with one empty tab and no data. Starting one takes seconds, so the next test gets it when it is dropped, with another tab.
#[derive(Debug)]
pub struct Browser(Option<Running>);

/// A browser that no test has.
static IDLE: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// A browser and its driver. Both end when it is dropped.
#[derive(Debug)]
struct Running {
    driver: HttpClient,
    session: String,
    _process: Child,
    _output: BufReader<ChildStdout>,
    _end: Child,
}

impl Browser {
    pub async fn start() -> Self {
        let idle = IDLE.lock().pop();
        if let Some(running) = idle {
            let browser = Self(Some(running));
            browser.forget().await;
            return browser;
        }
        let browser = Self(Some(Running::start().await));
        browser.command("timeouts", &json!({ "script": 120_000, "pageLoad": 120_000 })).await;
        browser
    }

    fn running(&self) -> &Running {
        self.0.as_ref().expect("it is not dropped yet")
    }

    /// Leaves nothing of an earlier test: what it set for its tab goes with the tab.
    async fn forget(&self) {
        let Running { driver, session, .. } = self.running();
        let tab = self.command("window/new", &json!({ "type": "tab" })).await;
        driver.delete(&format!("/session/{session}/window")).await;
        self.command("window", &json!({ "handle": tab["handle"] })).await;
        self.devtools("Page.bringToFront", &json!({})).await;
        self.devtools("Network.clearBrowserCookies", &json!({})).await;
        self.devtools("Network.clearBrowserCache", &json!({})).await;
        self.devtools("Storage.clearDataForOrigin", &json!({ "origin": "*", "storageTypes": "all" })).await;
        self.errors().await;
    }

    /// A command of this session; what it returns.
    async fn command(&self, name: &str, arguments: &Value) -> Value {
        self.try_command(name, arguments).await.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    async fn try_command(&self, name: &str, arguments: &Value) -> Result<Value, Value> {
        let Running { driver, session, .. } = self.running();
        let answer = driver.post(&format!("/session/{session}/{name}"), arguments).await;
        let value = answer.json()["value"].take();
        if answer.status == 200 { Ok(value) } else { Err(value) }
    }

    pub async fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url })).await;
    }

    /// Runs a function's body in the page; what it returns. It is run again until it throws nothing: what it names may have to come first.
    pub async fn run(&self, script: &str) -> Value {
        let command = json!({ "script": script, "args": [] });
        let mut thrown = Value::Null;
        let ran = async || self.try_command("execute/sync", &command).await.map_err(|error| thrown = error).ok();
        let ran = tokio::time::timeout(SOON, until("a script", 2 * SOON, ran)).await;
        ran.unwrap_or_else(|_| panic!("{}: {thrown}", script.chars().take(200).collect::<String>()))
    }

    /// Waits until an expression is true there.
    pub async fn until(&self, expression: &str) {
        let script = format!("return !!({expression})");
        let command = json!({ "script": script, "args": [] });
        // A page that is being left runs nothing.
        let met = async || self.try_command("execute/sync", &command).await.ok()?.as_bool()?.then_some(());
        if tokio::time::timeout(SOON, until(expression, 2 * SOON, met)).await.is_err() {
            panic!("{expression} did not become true of this page:\n{}", self.text().await);
        }
    }

    /// Waits until the page shows a text.
    pub async fn until_text(&self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// What the page shows.
    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks where a selector points, as a pointer does: not through what covers it. It may have to come first.
    pub async fn click(&self, selector: &str) {
        until(format!("a click on {selector}"), SOON, async || {
            let element = self.element(selector).await?;
            self.try_command(&format!("element/{element}/click"), &json!({})).await.ok().map(drop)
        })
        .await;
    }

    /// Types into the element that a selector points at.
    pub async fn fill(&self, selector: &str, text: &str) {
        until(format!("a text in {selector}"), SOON, async || {
            let element = self.element(selector).await?;
            self.try_command(&format!("element/{element}/clear"), &json!({})).await.ok()?;
            self.try_command(&format!("element/{element}/value"), &json!({ "text": text })).await.ok().map(drop)
        })
        .await;
    }

    /// Chooses a file.
    pub async fn choose_file(&self, selector: &str, path: &str) {
        let element = until(selector, SOON, async || self.element(selector).await).await;
        self.command(&format!("element/{element}/value"), &json!({ "text": path })).await;
    }

    async fn element(&self, selector: &str) -> Option<String> {
        let wanted = json!({ "using": "css selector", "value": selector });
        let element = self.try_command("element", &wanted).await.ok()?;
        element.as_object()?.values().next()?.as_str().map(str::to_owned)
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub async fn press(&self, keys: &[&str]) {
        let press = |key: &&str| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })];
        let actions: Vec<_> = keys.iter().flat_map(press).collect();
        self.command("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] })).await;
    }

    /// Makes the page so many pixels wide.
    pub async fn resize(&self, width: u32) {
        let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        _ = self.devtools("Emulation.setDeviceMetricsOverride", &screen).await;
    }

    /// Pretends that the person's system is light or dark.
    pub async fn prefer(&self, scheme: &str) {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        _ = self.devtools("Emulation.setEmulatedMedia", &media).await;
    }

    async fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).await
    }

    /// Bytes of what the page's scripts hold on to.
    pub async fn heap(&self) -> f64 {
        self.devtools("HeapProfiler.collectGarbage", &json!({})).await;
        let usage = self.devtools("Runtime.getHeapUsage", &json!({})).await;
        usage["usedSize"].as_f64().unwrap_or_else(|| panic!("{usage}"))
    }

    /// Errors of scripts and of the content security policy since the last call. Answers such as 404 are none.
    pub async fn errors(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({ "type": "browser" })).await;
        let all = log.as_array().cloned().unwrap_or_default();
        let bad = |entry: &&Value| entry["level"] == "SEVERE" && entry["source"] != "network";
        all.iter().filter(bad).map(|entry| entry["message"].to_string()).collect()
    }

    /// What axe finds wrong with the accessibility of the page as it is.
    pub async fn accessibility(&self) -> Vec<String> {
        self.mistakes("{ rules: { 'target-size': { enabled: true } } }").await
    }

    /// The same of its colours alone, which are all that a theme changes.
    pub async fn contrast(&self) -> Vec<String> {
        self.mistakes("{ runOnly: ['color-contrast'] }").await
    }

    async fn mistakes(&self, options: &str) -> Vec<String> {
        if self.run("return typeof axe").await == "undefined" {
            let axe = std::fs::read_to_string(AXE).expect("axe: run scripts/setup.sh --tests");
            self.run(&format!("{axe};")).await;
        }
        let script = format!(
            "const done = arguments[0]; axe.run({{ resultTypes: ['violations'], ...{options} }}).then(found => done(
            found.violations.flatMap(one => one.nodes.map(node => `${{one.id}}: ${{node.html}} ${{node.failureSummary}}`))))"
        );
        let found = self.command("execute/async", &json!({ "script": script, "args": [] })).await;
        found.as_array().unwrap_or_else(|| panic!("{found}")).iter().map(Value::to_string).collect()
    }
}

/// The port that the driver says it has chosen.
fn port_of(output: &mut BufReader<ChildStdout>) -> u16 {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        let port = line.trim_end().trim_end_matches('.').rsplit(' ').next().and_then(|word| word.parse().ok());
        if let (true, Some(port)) = (line.contains("started successfully"), port) {
            return port;
        }
        line.clear();
    }
    panic!("chromedriver does not say on which port it listens");
}

impl Running {
    async fn start() -> Self {
        let mut command = Command::new("chromedriver");
        let started = command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = started.expect("chromedriver: run scripts/setup.sh --tests");
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let port = port_of(&mut output);
        let driver = HttpClient::new(SocketAddr::from(([127, 0, 0, 1], port)));
        let profile = TempDir::with_prefix("gristmill-browser-").unwrap().keep();
        let flags = FLAGS.iter().map(|flag| (*flag).to_owned());
        let flags: Vec<_> = flags.chain([format!("--user-data-dir={}", profile.display())]).collect();
        let wanted = json!({ "goog:chromeOptions": { "args": flags }, "goog:loggingPrefs": { "browser": "ALL" } });
        let answer = driver.post("/session", &json!({ "capabilities": { "alwaysMatch": wanted } })).await.json();
        let session = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        let pid = answer["value"]["capabilities"]["goog:processID"].as_u64().unwrap_or_else(|| panic!("{answer}"));
        // Ends all of it when this process has ended, too, however it did: what is static is not dropped.
        let mut end = Command::new("sh");
        let script = "read -r _; kill -9 $1 $2; until rm -rf \"$3\"; do sleep 0.1; done";
        end.args(["-c", script, "sh", &process.id().to_string(), &pid.to_string()]).arg(profile);
        let _end = end.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { driver, session, _process: process, _output: output, _end }
    }
}

impl Drop for Browser {
    /// A test that failed may have left anything.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            IDLE.lock().extend(self.0.take());
        }
    }
}
