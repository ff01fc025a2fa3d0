//! What `wasi:http/types` of wasmtime keeps for an instance.

use std::sync::Arc;

use hyper::http;
use tokio::sync::Semaphore;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

use super::host_memory::{CHUNK_BYTES, HEADERS_BYTES_MAX};
use super::state::State;

/// Requests of one attempt whose bodies are collected or sent at once. Others wait until the answer to one of them begins.
const ON_THEIR_WAY_MAX: usize = 8;

/// Costs nothing until a guest uses it.
#[derive(Debug)]
pub(super) struct WasiHttpState {
    context: WasiHttpCtx,
    hooks: Hooks,
    on_their_way: Option<Arc<Semaphore>>,
    is_used: bool,
}

#[derive(Debug)]
struct Hooks;

impl Default for WasiHttpState {
    fn default() -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(HEADERS_BYTES_MAX);
        Self { context, hooks: Hooks, on_their_way: None, is_used: false }
    }
}

impl WasiHttpState {
    /// Whether the guest has called any function of it, so that streams may wait for others.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// A permit for each request of the attempt that may be on its way: the host has the bodies of these in its memory.
    pub(super) fn on_their_way(&mut self) -> Arc<Semaphore> {
        Arc::clone(self.on_their_way.get_or_insert_with(|| Arc::new(Semaphore::new(ON_THEIR_WAY_MAX))))
    }
}

impl WasiHttpView for State {
    /// Each function of `wasi:http/types` begins with this, as each of WASI does with its own.
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.charge(0).ok();
        self.note_handles();
        self.wasi_http.is_used = true;
        let Self { wasi_http: WasiHttpState { context, hooks, .. }, resources, .. } = self;
        WasiHttpCtxView { hooks, table: resources, ctx: context }
    }
}

impl WasiHttpHooks for Hooks {
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    /// Never called: `outgoing-handler` is linked by hand, where the topic's grant is known.
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answered, Error>> + Send> {
        Box::new(async { Err(Error::HttpRequestDenied) })
    }
}

/// An answer, and what is still to be done for it: nothing, since it is here as a whole.
type Answered = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);
