//! PostgreSQL for tests: real servers of their own, and a proxy that breaks the way to them; used by tests only.
//!
//! - [`TestDatabase::create`] is what most tests want: an empty database, gone when it is dropped. All processes of a test
//!   run share one server, which the first of them starts and which stops some seconds after the last has ended.
//! - [`Cluster::start`] is for a test that stops, crashes or pauses its server, or wants other settings.
//! - [`Proxy::start`] is for a test of broken networks.
//!
//! Every server has a temporary folder of its own and outlives nobody: a small process beside it waits for the end of
//! its users, however they end, and then stops it and removes the folder. Nothing here knows what Segue stores.

mod cluster;
mod database;
mod error;
mod programs;
mod proxy;
mod server;
mod shared;

pub use cluster::Cluster;
pub use database::{STORE_VARIABLE, TestDatabase};
pub use error::Error;
pub use proxy::{CutPoint, Proxy};
pub use server::{ClusterSettings, DataLocation, TlsMode};
