//! Pushes over HTTP. The server is a process of its own, so that its CPU time is measured apart from that of the clients,
//! which are in this process.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::request::Builder;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::figure::Figure;
use super::load::drain;
use super::open_store::BenchStore;
use super::stopwatch::Stopwatch;
use super::test_bed::{TestBed, temporary_folder};
use gristmill_store::embedded::Durability;

/// Connections that are kept, each with one request at a time: what a web server's pool does.
const CONNECTIONS: usize = 16;
/// Jobs in a request of the bulk case, and its connections.
const BULK: usize = 1000;
const BULK_CONNECTIONS: usize = 2;

/// `gristmill run` on a free port, in a folder of its own, without handlers. Ends when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    _folder: TempDir,
}

/// One by one over 16 connections, then a thousand a request. The runner's CPU time in the figures is the server's.
///
/// # Errors
/// The server does not start, or does not take a push.
pub async fn pushes_over_http(bed: &TestBed, jobs: usize) -> anyhow::Result<[Figure; 2]> {
    bed.settings.progress.begin(format!("pushes over HTTP, {}", bed.settings.store), 2 * jobs);
    let server = Server::start(bed).await?;
    let text = String::from_utf8_lossy(&bed.settings.body).into_owned();
    let one = json!({ "body": text }).to_string();
    let bulk = json!({ "jobs": vec![json!({ "body": text }); BULK] }).to_string();

    let singles = measured(bed, &server, CONNECTIONS, one, 1, jobs).await?;
    let bulks = measured(bed, &server, BULK_CONNECTIONS, bulk, BULK, jobs.next_multiple_of(BULK)).await?;
    drop(server);
    // What a Redis keeps of it; the server's own file goes with its folder.
    if bed.settings.store.is_redis() {
        drain(bed, &bed.topic).await?;
    }
    let case = |figure: Figure, each: &str, connections: usize| {
        figure.case(format!("{each} a request, {connections} connections"))
    };
    Ok([case(singles, "one", CONNECTIONS), case(bulks, "1,000", BULK_CONNECTIONS)])
}

async fn measured(
    bed: &TestBed,
    server: &Server,
    connections: usize,
    request: String,
    jobs_a_request: usize,
    jobs: usize,
) -> anyhow::Result<Figure> {
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        clients.push(connect(server.address).await?);
    }
    let (request, path) = (Bytes::from(request), format!("/v1/tenants/default/topics/{}/jobs", bed.topic.topic));
    let requests = jobs.div_ceil(jobs_a_request);
    let stopwatch = Stopwatch::begin(bed, Some(server.child.id()));
    let mut pushing = JoinSet::new();
    for (place, mut client) in clients.into_iter().enumerate() {
        let (request, path, progress) = (request.clone(), path.clone(), bed.settings.progress.clone());
        pushing.spawn(async move {
            for _ in (place..requests).step_by(connections) {
                push(&mut client, &path, request.clone()).await?;
                progress.add(jobs_a_request);
            }
            anyhow::Ok(())
        });
    }
    pushing.join_all().await.into_iter().collect::<Result<(), _>>()?;
    Ok(stopwatch.end(bed, "http", jobs))
}

pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.context("failed to connect with the server")?;
    stream.set_nodelay(true).context("failed to connect with the server")?;
    let (client, connection) =
        handshake(TokioIo::new(stream)).await.context("failed to send a request to the server")?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

async fn push(client: &mut SendRequest<Full<Bytes>>, path: &str, body: Bytes) -> anyhow::Result<()> {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    ask(client, request, body).await
}

/// Reads the answer to its end.
pub(super) async fn ask(client: &mut SendRequest<Full<Bytes>>, request: Builder, body: Bytes) -> anyhow::Result<()> {
    let request = request.header(header::HOST, "localhost").body(Full::new(body))?;
    let response = client.send_request(request).await.context("failed to send a request to the server")?;
    let status = response.status();
    let answer = response.into_body().collect().await.context("failed to send a request to the server")?.to_bytes();
    ensure!(status.is_success(), "the server answered {status}: {}", String::from_utf8_lossy(&answer));
    Ok(())
}

impl Server {
    pub(super) async fn start(bed: &TestBed) -> anyhow::Result<Self> {
        let folder = temporary_folder()?;
        let (manifest, log) = (folder.path().join("gristmill.toml"), folder.path().join("run.log"));
        std::fs::create_dir(folder.path().join("handlers"))?;
        std::fs::write(&manifest, format!("[http]\nlisten = \"127.0.0.1:0\"\n\n[store]\n{}", store(bed)))?;
        let program = &bed.settings.gristmill;
        let child = Command::new(program)
            .args(["run", "--log-format", "text", "--manifest"])
            .arg(&manifest)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("failed to start {}; build it, or name it with --gristmill", program.display()))?;
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), _folder: folder };
        server.address = server.logged_address(&log).await?;
        Ok(server)
    }

    /// Reads the log until it says where the server listens.
    async fn logged_address(&mut self, log: &Path) -> anyhow::Result<SocketAddr> {
        const SAYS: &str = "listening on http://";
        loop {
            let ended = self.child.try_wait()?.is_some();
            let log = std::fs::read_to_string(log)?;
            let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let mut addresses =
                lines.filter_map(|line| line.split_once(SAYS)?.1.split_whitespace().next()?.parse().ok());
            if let Some(address) = addresses.next() {
                return Ok(address);
            }
            ensure!(!ended, "failed to start a server: {log}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The keys of `[store]`: the bed's own Redis. A file has one owner, so the server gets another one.
fn store(bed: &TestBed) -> String {
    match (&bed.settings.store, &bed.store.redis) {
        (BenchStore::Embedded(Durability::Process), _) => "durability = \"process\"\n".into(),
        (_, Some((url, prefix))) => format!("url = {url:?}\nprefix = {prefix:?}\n"),
        (_, None) => String::new(),
    }
}
