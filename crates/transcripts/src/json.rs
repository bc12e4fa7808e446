//! Reading JSON that other programs wrote, some of it badly: records one at a time in bounded memory, tolerant of wrong
//! types, glued and half-written records and characters that are none. It knows no agent's format.

pub(crate) mod content;
pub(crate) mod lines;
pub(crate) mod loose;
pub(crate) mod python_repr;
pub(crate) mod record;
pub(crate) mod repair;
pub(crate) mod result_repair;
pub(crate) mod walker;

/// The longest record that is read; a longer one is reported and skipped, so that memory stays bounded.
pub(crate) const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much of a file is read at once.
pub(crate) const READ_BUFFER_BYTES: usize = 256 * 1024;
