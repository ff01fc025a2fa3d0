//! Private Redis servers for tests, each on a socket or a port of its own, gone when dropped. And how tests wait.

pub mod certificates;
pub mod cluster;
pub mod redis;
pub mod sentinels;
pub mod shell;
pub mod wait;
