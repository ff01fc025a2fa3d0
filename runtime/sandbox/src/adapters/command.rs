//! `wasi:cli/run`: a program. The job's body is its standard input, what it writes to standard output is the result, and its
//! exit code says what becomes of the job. Its environment describes the job; standard error goes to the job's log.

use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre, TypedFunc};
use wasmtime_wasi::I32Exit;

use super::super::classify::Stopped;
use super::super::error::LoadError;
use super::super::guest_log::GuestLog;
use super::super::program_streams::ProgramStreams;
use super::super::state::State;
use super::export;
use gristmill_core::job::Payload;
use gristmill_core::outcome::{FailureDetail, Outcome};
use gristmill_core::topic::CodeMeaning;

pub(super) const EXPORT: &str = "wasi:cli/run@0.2.0";

pub(super) type Function = TypedFunc<(), (Result<(), ()>,)>;

pub(super) fn find(pre: &InstancePre<State>) -> Result<Option<ComponentExportIndex>, LoadError> {
    export::<(), (Result<(), ()>,)>(pre, EXPORT, "run")
}

pub(super) async fn call(function: Function, store: &mut Store<State>) -> Result<Outcome, Stopped> {
    let exit_code = match function.call_async(&mut *store, ()).await {
        Ok((Ok(()),)) => 0,
        Ok((Err(()),)) => 1,
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(I32Exit(exit_code)) => *exit_code,
            None => return Err(Stopped::Running(error)),
        },
    };
    let streams = store.data_mut().program.take();
    let streams = streams.ok_or_else(|| Stopped::Running(wasmtime::Error::msg("the program was called before")))?;
    Ok(outcome(&streams, exit_code, &mut store.data().guest_log()))
}

fn outcome(streams: &ProgramStreams, exit_code: i32, guest_log: &mut GuestLog) -> Outcome {
    let meaning = streams.program.meaning(exit_code);
    if meaning == CodeMeaning::Ack {
        let written = std::mem::take(&mut *streams.output.written.lock());
        let result = (!written.is_empty()).then_some(Payload { data: written, content_type: None });
        return Outcome::Complete(result);
    }
    guest_log.end_lines();
    let mut message = guest_log.last_words();
    if message.is_empty() {
        message = format!("exited with code {exit_code}");
    }
    let detail = FailureDetail { code: format!("exit-{exit_code}"), message, context: None };
    match meaning {
        CodeMeaning::Dead => Outcome::Reject(detail),
        _ => Outcome::Retry { detail, after: None },
    }
}
