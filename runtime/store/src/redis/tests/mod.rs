//! What only Redis does. What every store does is tested in the conformance suite, `tests/store/it/conformance/`.

mod batches;
mod claiming;
mod cluster;
mod confirm;
mod damage;
mod finding;
mod gathering;
mod key_rates;
mod ledger;
mod leftovers;
mod outage;
mod plain;
mod raw;
mod sentinels;
mod server;
mod spread;
mod stopped;
mod tls;
mod waking;
