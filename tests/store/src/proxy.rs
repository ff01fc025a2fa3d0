//! Stands between a store and its Redis.

use std::io;
use std::net::SocketAddr;

use gristmill_test_servers::redis::Redis;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// Accepts connections and makes one to Redis for each.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    /// `pass` gets both connections and passes on what it wants to.
    pub async fn start<F>(redis: &Redis, pass: impl Fn(TcpStream, UnixStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = redis.socket();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                client.set_nodelay(true).unwrap();
                // While Redis is gone, the connection ends.
                if let Ok(server) = UnixStream::connect(&socket).await {
                    tokio::spawn(pass(client, server));
                }
            }
        });
        Self { address, _task: AbortOnDropHandle::new(task) }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}
