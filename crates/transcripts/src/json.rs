//! Tolerant reading of JSON that other programs wrote, one record at a time and in bounded memory. It accepts wrong
//! types, several records on one line, half-written records and invalid characters. The formats of the agents are in
//! [`crate::formats`].

pub(crate) mod content;
pub(crate) mod lines;
pub(crate) mod loose;
pub(crate) mod python_repr;
pub(crate) mod record;
pub(crate) mod repair;
pub(crate) mod result_repair;
pub(crate) mod walker;

/// Maximum length of a record in bytes: 64 MiB. A longer record is reported and skipped, so that memory stays bounded.
pub(crate) const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Size of the read buffer for a file, in bytes.
pub(crate) const READ_BUFFER_BYTES: usize = 256 * 1024;
