//! The server's door: health for whoever watches over it, and a JSON API for producers, operators and our own commands.
//!
//! An embedded store belongs to one process; the others come in here. [`RemoteStore`] is the other end: a store like any
//! other, by way of a server. `wire/` is what both ends say to each other. Reference for people: `docs/http-api.md`.
//!
//! A request comes by `accept` (connections, in bounded number, over `tls` or not), gets its name (`request_id`), is looked at
//! (`guard`), says who it is (`door`, `caller`), and has a turn (`turns`), or a place among those that wait (`watch`, by the
//! `hub`'s signals). `room` is what every route can reach, `openapi` the list of all routes.
//!
//! Who comes in says a token, and may do what that allows. As long as there are none, everybody on this machine may do
//! everything, and `guard` keeps out what a web page makes a browser send there.

mod accept;
mod caller;
mod client;
mod components;
mod crowd;
mod dead;
mod depths;
mod door;
mod events;
mod extract;
mod guard;
mod handover;
mod health;
mod hub;
mod idempotency;
mod job;
mod jobs;
mod keyring;
mod limits;
mod list;
mod listen;
mod lmstfy;
mod measure;
mod moves;
mod openapi;
mod problem;
mod pull;
mod push;
mod quota;
mod rates;
mod receipt;
mod request_id;
mod room;
mod scrape;
mod server;
mod signals;
mod sse;
mod tls;
mod tokens;
mod topics;
mod turns;
mod watch;
mod wire;

#[cfg(test)]
mod tests;

pub use client::RemoteStore;
pub use door::DoorSettings;
pub use limits::HttpLimits;
pub use listen::{ListenError, listen};
pub use room::Phase;
pub use server::{HttpServer, OpenError};
