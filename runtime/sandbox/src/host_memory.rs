//! What the host keeps in its own memory for a guest: all that the guest's handles lead to.

use std::any::Any;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::p2::DynInputStream;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::types::{Method, Scheme};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody};
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};

/// Of one attempt, at most, beside the memory that its topic allows.
pub(super) const HOST_BYTES_MAX: usize = 16 << 20;

/// What a guest may write at once into the body of a request or an answer. Two such chunks wait for a reader.
pub(super) const CHUNK_BYTES: usize = 16 << 10;

/// Names and values of one set of headers, as they are in memory.
pub(super) const HEADERS_BYTES_MAX: usize = 64 << 10;

/// A body that a guest writes: its chunks, the trailers after it, and what holds them.
const WRITTEN_BODY: usize = 2 * CHUNK_BYTES + HEADERS_BYTES_MAX;
/// A body that a guest reads: what was read ahead of it.
const READ_BODY: usize = 64 << 10;
/// Any handle.
const HANDLE: usize = 256;
/// A header, beside its name and its value.
const HEADER: usize = 64;
/// What may be added between two weighings, about.
const ADDED_MAX: u64 = 8 << 20;

/// The guest made the host keep more for it than it may. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("the host keeps too much for the guest")]
pub(super) struct HostMemoryFull;

/// The account of one attempt. What handles lead to is weighed now and then: a guest that has few handles costs next to nothing.
#[derive(Debug, Default)]
pub(super) struct HostMemory {
    peak: usize,
    /// Since it was last weighed.
    calls: u64,
}

/// What a table holds.
#[derive(Debug, Default)]
struct Weight {
    bytes: usize,
    /// What was looked at.
    entries: usize,
}

impl HostMemory {
    /// The guest calls a function that may make a handle lead to more: at most so many bytes. Returns how much work it was to weigh.
    pub(super) fn note_call(&mut self, table: &mut ResourceTable, bytes_per_call: u64) -> usize {
        self.calls += 1;
        if self.calls.saturating_mul(bytes_per_call) < ADDED_MAX { 0 } else { self.weigh(table).entries }
    }

    /// Bytes that the handles lead to.
    pub(super) fn bytes(&mut self, table: &mut ResourceTable) -> usize {
        self.weigh(table).bytes
    }

    fn weigh(&mut self, table: &mut ResourceTable) -> Weight {
        let mut weight = Weight::default();
        table.iter_mut().for_each(|entry| weight.add(entry));
        *self = Self { peak: self.peak.max(weight.bytes), calls: 0 };
        weight
    }

    pub(super) fn check(&self) -> Result<(), HostMemoryFull> {
        if self.peak > HOST_BYTES_MAX { Err(HostMemoryFull) } else { Ok(()) }
    }

    /// Bytes.
    pub(super) fn peak(&self) -> u64 {
        self.peak as u64
    }
}

impl Weight {
    fn add(&mut self, entry: &(dyn Any + Send)) {
        self.entries += 1;
        self.bytes += HANDLE;
        if let Some(headers) = entry.downcast_ref::<FieldMap>() {
            self.add_headers(headers);
        } else if let Some(request) = entry.downcast_ref::<HostOutgoingRequest>() {
            let HostOutgoingRequest { method, scheme, authority, path_with_query, headers, body } = request;
            let texts = [authority, path_with_query].into_iter().flatten().map(String::len);
            self.bytes += texts.sum::<usize>() + method_bytes(method) + scheme.as_ref().map_or(0, scheme_bytes);
            self.bytes += body.as_ref().map_or(0, |_| WRITTEN_BODY);
            self.add_headers(headers);
        } else if let Some(answer) = entry.downcast_ref::<HostOutgoingResponse>() {
            self.bytes += answer.body.as_ref().map_or(0, |_| WRITTEN_BODY);
            self.add_headers(&answer.headers);
        } else if let Some(answer) = entry.downcast_ref::<HostIncomingResponse>() {
            self.bytes += READ_BODY;
            self.add_headers(&answer.headers);
        } else if entry.is::<HostFutureIncomingResponse>() {
            self.bytes += WRITTEN_BODY;
        } else if entry.is::<HostIncomingBody>() || entry.is::<HostFutureTrailers>() || entry.is::<DynInputStream>() {
            self.bytes += READ_BODY;
        }
    }

    fn add_headers(&mut self, headers: &FieldMap) {
        self.entries += headers.len();
        self.bytes += headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER).sum::<usize>();
    }
}

fn method_bytes(method: &Method) -> usize {
    if let Method::Other(name) = method { name.len() } else { 0 }
}

fn scheme_bytes(scheme: &Scheme) -> usize {
    if let Scheme::Other(name) = scheme { name.len() } else { 0 }
}
