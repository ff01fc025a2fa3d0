//! What `wasi:http/types` of wasmtime keeps for an instance.

use hyper::http;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

use super::state::State;

/// Names and values of one set of headers, as they are in memory.
const HEADERS_BYTES_MAX: usize = 64 << 10;

/// Costs nothing until a guest uses it.
#[derive(Debug)]
pub(super) struct WasiHttpState {
    context: WasiHttpCtx,
    hooks: Hooks,
}

#[derive(Debug)]
struct Hooks;

impl Default for WasiHttpState {
    fn default() -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(HEADERS_BYTES_MAX);
        Self { context, hooks: Hooks }
    }
}

impl WasiHttpView for State {
    /// Each function of `wasi:http/types` begins with this, as each of WASI does with its own.
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.charge(0).ok();
        let Self { wasi_http: WasiHttpState { context, hooks }, resources, .. } = self;
        WasiHttpCtxView { hooks, table: resources, ctx: context }
    }
}

impl WasiHttpHooks for Hooks {
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
