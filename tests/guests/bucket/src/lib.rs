//! A handler that counts visits by a handle of `wasi:keyvalue/atomics`, and keeps the last visitor by `wasi:keyvalue/batch`.

#![cfg(target_os = "wasi")]

use gristmill_guest::{Failure, Job, handler};
use wasi::keyvalue::atomics::{Cas, CasError, swap};
use wasi::keyvalue::batch;
use wasi::keyvalue::store::{self, Bucket};

wit_bindgen::generate!({
    inline: "
        package test:bucket;
        world bucket {
            import wasi:keyvalue/store@0.2.0-draft2;
            import wasi:keyvalue/atomics@0.2.0-draft2;
            import wasi:keyvalue/batch@0.2.0-draft2;
        }
        package wasi:keyvalue@0.2.0-draft2 {
            interface store {
                variant error { no-such-store, access-denied, other(string) }
                open: func(identifier: string) -> result<bucket, error>;
                resource bucket {
                    set: func(key: string, value: list<u8>) -> result<_, error>;
                }
            }
            interface atomics {
                use store.{bucket, error};
                variant cas-error { store-error(error), cas-failed(cas) }
                resource cas {
                    new: static func(bucket: borrow<bucket>, key: string) -> result<cas, error>;
                    current: func() -> result<option<list<u8>>, error>;
                }
                swap: func(cas: cas, value: list<u8>) -> result<_, cas-error>;
            }
            interface batch {
                use store.{bucket, error};
                get-many: func(bucket: borrow<bucket>, keys: list<string>)
                    -> result<list<option<tuple<string, list<u8>>>>, error>;
                set-many: func(bucket: borrow<bucket>, key-values: list<tuple<string, list<u8>>>) -> result<_, error>;
                delete-many: func(bucket: borrow<bucket>, keys: list<string>) -> result<_, error>;
            }
        }
    ",
    generate_all,
});

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
