//! The parts that the benchmarks of the program share: homes, processes, an HTTP client, relays and statistics.

pub mod client;
pub mod home;
pub mod load;
pub mod model;
pub mod postgres;
pub mod relay;
pub mod server;
pub mod statistics;

use std::path::PathBuf;

/// The programs of a benchmark and the checkout that they were built from.
#[derive(Debug, Clone)]
pub struct BenchPrograms {
    /// The measured program.
    pub segue: PathBuf,
    /// The model server.
    pub test_model: PathBuf,
    /// The program that starts a PostgreSQL server.
    pub test_postgres: PathBuf,
    /// The checkout of `segue`, for benchmarks that cargo runs.
    pub checkout: PathBuf,
    /// The folder of cargo's output.
    pub target_folder: PathBuf,
}

/// The programs and an empty folder for one benchmark.
#[derive(Debug, Clone)]
pub struct BenchContext {
    pub programs: BenchPrograms,
    pub folder: PathBuf,
}
