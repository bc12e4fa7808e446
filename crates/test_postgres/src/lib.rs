//! PostgreSQL for tests: real servers, and a proxy that breaks connections to them. Only tests use this crate.
//!
//! - [`TestDatabase::create`] is the usual choice: an empty database, which is dropped with its value. All processes of a
//!   test run share one server. The first process starts it, and it stops some seconds after the last one has exited.
//! - [`Cluster::start`] is for a test that stops, crashes or pauses its server, or needs other settings.
//! - [`Proxy::start`] is for a test of broken networks.
//! - [`StatementRecorder::start`] is for a test that counts statements and round trips.
//!
//! Every server has its own temporary folder. A supervisor process waits on a file lock until all users of the server have
//! exited, even if they were killed; then it stops the server and removes the folder. The crate knows nothing of Segue's
//! tables.

mod cluster;
mod database;
mod error;
mod programs;
mod proxy;
mod recorder;
mod server;
mod shared;

pub use cluster::Cluster;
pub use database::{STORE_VARIABLE, TestDatabase};
pub use error::Error;
pub use proxy::{CutPoint, Proxy};
pub use recorder::{RecordedStatement, StatementRecorder};
pub use server::{ClusterSettings, DataLocation, TlsMode};
