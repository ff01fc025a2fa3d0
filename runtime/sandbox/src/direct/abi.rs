//! The canonical ABI of the contract's types: how they lie in a guest's memory.
//!
//! Offsets, sizes and alignments follow from `wit/job.wit` by
//! <https://github.com/WebAssembly/component-model/blob/main/design/mvp/CanonicalABI.md>. Values are put down in wasmtime's order, so that the guest's
//! allocator has the same work by either way.

use std::cell::Cell;

use wasmtime::{AsContextMut, Error};

use super::super::adapters::handler::HandleResult;
use super::super::bindings::queue::{NewJob, Priority};
use super::super::bindings::types::{Failure, FailureDetail, Job, Outcome, PayloadResult};
use super::super::state::State;
use super::super::tried::Ports;
use super::BYTES_MAX;

const JOB_BYTES: u32 = 112;
const JOB_ALIGN: u32 = 8;
const ANSWER_BYTES: u32 = 72;
const ANSWER_ALIGN: u32 = 8;
const NEW_JOB_BYTES: u32 = 96;
const NEW_JOB_ALIGN: u32 = 8;
/// Two texts.
const PAIR_BYTES: u32 = 16;
const PAIR_ALIGN: u32 = 4;

/// Where something lies, and how many bytes or elements it has.
type Span = (u32, u32);

/// Puts a job into the guest's memory, and returns where it is.
pub(super) fn lower_job(store: impl AsContextMut<Data = State>, job: &Job<'_>) -> wasmtime::Result<u32> {
    let mut guest = Lowering::new(store)?;
    let place = guest.allocate(JOB_ALIGN, JOB_BYTES)?;
    let id = guest.bytes(job.id.as_bytes())?;
    let tenant = guest.bytes(job.tenant.as_bytes())?;
    let topic = guest.bytes(job.topic.as_bytes())?;
    let data = guest.bytes(job.body.data)?;
    let content_type = guest.some(job.body.content_type.map(str::as_bytes))?;
    let metadata = guest.pairs(job.metadata)?;
    let key = guest.some(job.key.map(str::as_bytes))?;
    let checkpoint = guest.some(job.checkpoint)?;

    let record = guest.place(place, JOB_ALIGN, JOB_BYTES)?;
    put_span(record, 0, id);
    put_span(record, 8, tenant);
    put_span(record, 16, topic);
    put_span(record, 24, data);
    put_option(record, 32, content_type);
    put_span(record, 44, metadata);
    put_option(record, 52, key);
    put(record, 64, job.attempt.to_le_bytes());
    put(record, 68, job.max_attempts.to_le_bytes());
    put(record, 72, job.enqueued_at.to_le_bytes());
    put(record, 80, job.due_at.to_le_bytes());
    put(record, 88, job.deadline.to_le_bytes());
    put_option(record, 96, checkpoint);
    Ok(place)
}

/// Reads what `handle` returned.
pub(super) fn lift_answer(memory: &View<'_>, place: u32) -> wasmtime::Result<HandleResult> {
    memory.check(place, ANSWER_ALIGN, ANSWER_BYTES)?;
    let at = |offset: u32| place.wrapping_add(offset);
    Ok(match (memory.tag(at(0))?, memory.tag(at(8))?) {
        (0, 0) => Ok(Outcome::Complete(memory.option(at(16), 4, |at| memory.payload(at))?)),
        (0, 1) => Ok(Outcome::Snooze(memory.u64(at(16))?)),
        (1, 0) => Err(Failure::Retry((memory.failure(at(16))?, memory.option(at(56), 8, |at| memory.u64(at))?))),
        (1, 1) => Err(Failure::Reject(memory.failure(at(16))?)),
        _ => return Err(no_value("an answer")),
    })
}

/// Reads a job that the guest enqueues.
pub(super) fn lift_new_job(memory: &View<'_>, place: u32) -> wasmtime::Result<NewJob> {
    memory.check(place, NEW_JOB_ALIGN, NEW_JOB_BYTES)?;
    let at = |offset: u32| place.wrapping_add(offset);
    let text = |at: u32| memory.text(memory.span(at)?).map(str::to_owned);
    Ok(NewJob {
        topic: text(at(0))?,
        body: memory.payload(at(8))?,
        metadata: memory.pairs(memory.span(at(28))?)?,
        key: memory.option(at(36), 4, text)?,
        not_before: memory.option(at(48), 8, |at| memory.u64(at))?,
        unique: memory.option(at(64), 4, text)?,
        priority: match memory.tag(at(76))? {
            0 => Priority::High,
            1 => Priority::Normal,
            2 => Priority::Low,
            _ => return Err(no_value("a priority")),
        },
        unique_window: memory.option(at(80), 8, |at| memory.u64(at))?,
    })
}

fn no_value(of: &str) -> Error {
    Error::msg(format!("this is no value of {of}"))
}

/// Writes to a value's place, at a constant offset within it. What lies between the fields stays as it is.
pub(super) fn put<const N: usize>(value: &mut [u8], offset: usize, bytes: [u8; N]) {
    if let Some(place) = value.get_mut(offset..offset + N) {
        place.copy_from_slice(&bytes);
    }
}

pub(super) fn put_span(value: &mut [u8], offset: usize, (place, length): Span) {
    put(value, offset, place.to_le_bytes());
    put(value, offset + 4, length.to_le_bytes());
}

/// An option of a text or a list of bytes.
pub(super) fn put_option(value: &mut [u8], offset: usize, some: Option<Span>) {
    put(value, offset, [some.is_some().into()]);
    if let Some(span) = some {
        put_span(value, offset + 4, span);
    }
}

/// Puts values into the memory that the guest gives for them.
pub(super) struct Lowering<C> {
    store: C,
    ports: Ports,
}

impl<C: AsContextMut<Data = State>> Lowering<C> {
    pub(super) fn new(store: C) -> wasmtime::Result<Self> {
        let ports = store.as_context().data().ports()?.clone();
        Ok(Self { store, ports })
    }

    /// Has the guest allocate. It may call nothing meanwhile.
    fn allocate(&mut self, align: u32, bytes: u32) -> wasmtime::Result<u32> {
        let mut store = self.store.as_context_mut();
        store.data_mut().tried()?.may_not_leave = true;
        let place = self.ports.realloc.call(&mut store, (0, 0, align, bytes))?;
        store.data_mut().tried()?.may_not_leave = false;
        View::of(self.ports.memory.data(&store)).check(place, align, bytes)?;
        Ok(place)
    }

    /// Where a value is to be written that has this alignment and so many bytes.
    pub(super) fn place(&mut self, place: u32, align: u32, bytes: u32) -> wasmtime::Result<&mut [u8]> {
        View::of(self.ports.memory.data(&self.store)).check(place, align, bytes)?;
        let (memory, from) = (self.ports.memory.data_mut(&mut self.store), place as usize);
        memory.get_mut(from..from + bytes as usize).ok_or_else(|| no_value("a place"))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> wasmtime::Result<Span> {
        let length = u32::try_from(bytes.len())?;
        let place = self.allocate(1, length)?;
        self.place(place, 1, length)?.copy_from_slice(bytes);
        Ok((place, length))
    }

    pub(super) fn some(&mut self, bytes: Option<&[u8]>) -> wasmtime::Result<Option<Span>> {
        bytes.map(|bytes| self.bytes(bytes)).transpose()
    }

    fn pairs(&mut self, pairs: &[(&str, &str)]) -> wasmtime::Result<Span> {
        let length = u32::try_from(pairs.len())?;
        let place = self.allocate(PAIR_ALIGN, length.saturating_mul(PAIR_BYTES))?;
        for (number, (name, value)) in (0..).zip(pairs) {
            let (name, value) = (self.bytes(name.as_bytes())?, self.bytes(value.as_bytes())?);
            let pair = self.place(place.wrapping_add(PAIR_BYTES * number), PAIR_ALIGN, PAIR_BYTES)?;
            put_span(pair, 0, name);
            put_span(pair, 8, value);
        }
        Ok((place, length))
    }
}

/// A guest's memory, as it is read for one call. What does not lie in it or is no text is an error, and so is what has more than [`BYTES_MAX`] bytes together: a
/// guest may pass the same text a thousand times.
pub(super) struct View<'a> {
    memory: &'a [u8],
    remaining: Cell<usize>,
}

impl<'a> View<'a> {
    pub(super) fn of(memory: &'a [u8]) -> Self {
        Self { memory, remaining: Cell::new(BYTES_MAX) }
    }

    /// A value of so many bytes lies there, with this alignment.
    fn check(&self, place: u32, align: u32, bytes: u32) -> wasmtime::Result<()> {
        let is_inside = (place as usize).checked_add(bytes as usize).is_some_and(|end| end <= self.memory.len());
        if is_inside && place.is_multiple_of(align) { Ok(()) } else { Err(no_value("a place")) }
    }

    fn array<const N: usize>(&self, place: u32) -> wasmtime::Result<[u8; N]> {
        let array = self.memory.get(place as usize..).and_then(|rest| rest.first_chunk());
        array.copied().ok_or_else(|| no_value("a place"))
    }

    fn tag(&self, place: u32) -> wasmtime::Result<u8> {
        self.array(place).map(|[tag]| tag)
    }

    fn u32(&self, place: u32) -> wasmtime::Result<u32> {
        self.array(place).map(u32::from_le_bytes)
    }

    fn u64(&self, place: u32) -> wasmtime::Result<u64> {
        self.array(place).map(u64::from_le_bytes)
    }

    fn span(&self, place: u32) -> wasmtime::Result<Span> {
        Ok((self.u32(place)?, self.u32(place.wrapping_add(4))?))
    }

    fn bytes(&self, (place, length): Span) -> wasmtime::Result<&'a [u8]> {
        let (from, length) = (place as usize, length as usize);
        self.remaining.set(self.remaining.get().checked_sub(length).ok_or_else(|| no_value("a short list"))?);
        let end = from.checked_add(length);
        end.and_then(|end| self.memory.get(from..end)).ok_or_else(|| no_value("a list"))
    }

    pub(super) fn text(&self, span: Span) -> wasmtime::Result<&'a str> {
        Ok(std::str::from_utf8(self.bytes(span)?)?)
    }

    /// What an option holds, which is aligned like this.
    fn option<T>(
        &self,
        place: u32,
        align: u32,
        some: impl FnOnce(u32) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<Option<T>> {
        match self.tag(place)? {
            0 => Ok(None),
            1 => some(place.wrapping_add(align)).map(Some),
            _ => Err(no_value("an option")),
        }
    }

    fn payload(&self, place: u32) -> wasmtime::Result<PayloadResult> {
        let data = self.bytes(self.span(place)?)?.to_vec();
        let content_type = self.option(place.wrapping_add(8), 4, |at| self.text(self.span(at)?).map(str::to_owned))?;
        Ok(PayloadResult { data, content_type })
    }

    fn failure(&self, place: u32) -> wasmtime::Result<FailureDetail> {
        Ok(FailureDetail {
            code: self.text(self.span(place)?)?.to_owned(),
            message: self.text(self.span(place.wrapping_add(8))?)?.to_owned(),
            context: self.option(place.wrapping_add(16), 4, |at| self.payload(at))?,
        })
    }

    /// Pairs of texts lie there. They are not read.
    pub(super) fn check_pairs(&self, (place, pairs): Span) -> wasmtime::Result<()> {
        let bytes = pairs.checked_mul(PAIR_BYTES).ok_or_else(|| no_value("a list"))?;
        self.check(place, PAIR_ALIGN, bytes)
    }

    pub(super) fn pairs(&self, (place, pairs): Span) -> wasmtime::Result<Vec<(String, String)>> {
        self.check_pairs((place, pairs))?;
        self.bytes((place, pairs * PAIR_BYTES))?;
        let text = |at: u32| self.text(self.span(at)?).map(str::to_owned);
        let places = (0..pairs).map(|number| place + number * PAIR_BYTES);
        places.map(|at| Ok((text(at)?, text(at + 8)?))).collect()
    }
}
