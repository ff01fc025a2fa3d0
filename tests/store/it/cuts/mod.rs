//! A scenario that uses every operation of a store, cut off at each command to Redis and at each write to a file.
//!
//! A cut connection fails the call in flight, and the scenario asks again, as a runner does. A file that was cut off is opened anew, as
//! after a crash. Whatever was acknowledged must hold: each job that was pushed ends once, and none that ended comes back.

mod cutter;
mod file;
mod operators;
mod redis;
mod scenario;
mod server;
mod waits;
