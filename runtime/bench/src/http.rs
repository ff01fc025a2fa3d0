//! Pushes over HTTP: the server is a process of its own, so that its CPU time can be told from that of the clients, who are
//! here.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::figure::Figure;
use super::load::drain;
use super::open_store::BenchStore;
use super::stopwatch::figure;
use super::test_bed::{BenchError, TestBed};
use super::usage::cpu_of;
use gristmill_store::embedded::Durability;

/// Connections that are kept, each with one request at a time: what a web server's pool does.
const CONNECTIONS: usize = 16;
/// Jobs in a request of the bulk case, and its connections.
const BULK: usize = 1000;
const BULK_CONNECTIONS: usize = 2;

/// `gristmill run` on a free port, in a folder of its own, without handlers. Ends when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

/// One by one over 16 connections, then a thousand a request. The runner's CPU time in the figures is the server's.
///
/// # Errors
/// The server does not start, or does not take a push.
pub async fn pushes_over_http(bed: &TestBed, jobs: usize) -> Result<[Figure; 2], BenchError> {
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
) -> Result<Figure, BenchError> {
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        clients.push(connect(server.address).await?);
    }
    let (request, path) = (Bytes::from(request), format!("/v1/tenants/default/topics/{}/jobs", bed.topic.topic));
    let requests = jobs.div_ceil(jobs_a_request);
    let (server_cpu, store_cpu, begun) = (cpu_of(server.child.id()), bed.store.cpu(), Instant::now());
    let mut pushing = JoinSet::new();
    for (place, mut client) in clients.into_iter().enumerate() {
        let (request, path, progress) = (request.clone(), path.clone(), bed.settings.progress.clone());
        pushing.spawn(async move {
            for _ in (place..requests).step_by(connections) {
                push(&mut client, &path, request.clone()).await?;
                progress.add(jobs_a_request);
            }
            Ok::<_, BenchError>(())
        });
    }
    pushing.join_all().await.into_iter().collect::<Result<(), _>>()?;
    let took = begun.elapsed();
    let per_job = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / jobs as f64;
    Ok(Figure {
        jobs_per_second: Some(jobs as f64 / took.as_secs_f64()),
        runner_cpu_us_per_job: Some(per_job(server_cpu, cpu_of(server.child.id()))),
        store_cpu_us_per_job: store_cpu.zip(bed.store.cpu()).map(|(before, after)| per_job(before, after)),
        ..figure(bed, "http", jobs)
    })
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, BenchError> {
    let stream = TcpStream::connect(address).await.map_err(BenchError::Connect)?;
    stream.set_nodelay(true).map_err(BenchError::Connect)?;
    let (client, connection) = handshake(TokioIo::new(stream)).await.map_err(BenchError::Ask)?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

async fn push(client: &mut SendRequest<Full<Bytes>>, path: &str, body: Bytes) -> Result<(), BenchError> {
    let request = Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body));
    let request = request.map_err(|error| BenchError::Failed(error.to_string()))?;
    let response = client.send_request(request).await.map_err(BenchError::Ask)?;
    let status = response.status();
    let answer = response.into_body().collect().await.map_err(BenchError::Ask)?.to_bytes();
    if status.is_success() {
        return Ok(());
    }
    Err(BenchError::Failed(format!("the server answered {status}: {}", String::from_utf8_lossy(&answer))))
}

impl Server {
    async fn start(bed: &TestBed) -> Result<Self, BenchError> {
        let folder = TempDir::with_prefix("gristmill-bench-").map_err(BenchError::MakeFolder)?;
        let manifest = folder.path().join("gristmill.toml");
        let settings = format!("[http]\nlisten = \"127.0.0.1:0\"\n\n[store]\n{}", store(bed));
        std::fs::write(&manifest, settings).map_err(BenchError::WriteHandler)?;
        std::fs::create_dir(folder.path().join("handlers")).map_err(BenchError::WriteHandler)?;
        let program = std::env::current_exe().map_err(BenchError::StartRunner)?;
        let child = Command::new(program)
            .args(["run", "--log-format", "text", "--manifest"])
            .arg(&manifest)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(BenchError::StartRunner)?;
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), _folder: folder };
        server.address = server.said_address().await?;
        Ok(server)
    }

    /// Reads the log until the server says where it listens, and what comes after it, so that it never waits for a reader.
    async fn said_address(&mut self) -> Result<SocketAddr, BenchError> {
        const SAYS: &str = "listening on http://";
        let log = self.child.stderr.take();
        let (found, address) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let (mut found, mut said) = (Some(found), String::new());
            for line in log.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                let address = line.split_once(SAYS).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
                match (address, found.take()) {
                    (Some(address), Some(found)) => drop(found.send(Ok(address))),
                    (None, Some(waiting)) => {
                        said.push_str(&line);
                        said.push('\n');
                        found = Some(waiting);
                    }
                    (_, None) => {}
                }
            }
            if let Some(found) = found {
                drop(found.send(Err(said)));
            }
        });
        let failed = |said: String| BenchError::Failed(format!("the server did not start: {said}"));
        address.await.map_err(|_| failed(String::new()))?.map_err(failed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The keys of `[store]`: the bed's own Redis; but a file has one owner, so the server gets another one.
fn store(bed: &TestBed) -> String {
    match (&bed.settings.store, &bed.store.redis) {
        (BenchStore::Embedded(Durability::Process), _) => "durability = \"process\"\n".into(),
        (_, Some((url, prefix))) => format!("url = {url:?}\nprefix = {prefix:?}\n"),
        (_, None) => String::new(),
    }
}
