//! A handler that counts visits by a handle of `wasi:keyvalue/atomics`, and keeps the last visitor by `wasi:keyvalue/batch`.

#![cfg(target_os = "wasi")]

use bindings::wasi::keyvalue::atomics::{Cas, CasError, swap};
use bindings::wasi::keyvalue::batch;
use bindings::wasi::keyvalue::store::{self, Bucket};
use gristmill_guest::{Failure, Job, handler};

/// Made of `bucket.wit` by `tests/it/bindings.rs`.
mod bindings {
    #![allow(clippy::allow_attributes_without_reason, unreachable_pub, unsafe_code, reason = "it is generated")]
    include!("bindings/bucket.rs");
}

fn visit(job: Job) -> Result<String, Failure> {
    let name = job.text()?;
    let bucket = store::open("").map_err(failure)?;
    let visits = count(&bucket, name)?;
    let before = batch::get_many(&bucket, &["last".into(), "none".into()]).map_err(failure)?;
    batch::set_many(&bucket, &[("last".into(), name.into()), ("gone".into(), vec![0xff])]).map_err(failure)?;
    batch::delete_many(&bucket, &["gone".into(), "none".into()]).map_err(failure)?;
    let before = before.into_iter().map(|pair| pair.map(|(_, last)| String::from_utf8_lossy(&last).into_owned()));
    Ok(format!("{visits} {:?}", before.collect::<Vec<_>>()))
}

/// The first swap of a visitor who is in a hurry comes too late, and its handle is made anew.
fn count(bucket: &Bucket, name: &str) -> Result<u64, Failure> {
    let mut cas = Cas::new(bucket, "visits").map_err(failure)?;
    if name == "hurry" {
        bucket.set("visits", b"10").map_err(failure)?;
    }
    loop {
        let seen = cas.current().map_err(failure)?.map(|seen| String::from_utf8_lossy(&seen).parse().unwrap_or(0));
        let visits: u64 = seen.unwrap_or(0) + 1;
        match swap(cas, visits.to_string().as_bytes()) {
            Ok(()) => return Ok(visits),
            Err(CasError::CasFailed(newer)) => cas = newer,
            Err(CasError::StoreError(error)) => return Err(failure(error)),
        }
    }
}

fn failure(error: store::Error) -> Failure {
    Failure::reject("keyvalue", format!("{error:?}"))
}

handler!(visit);
