//! Where a conversation is read from: a file of the user, or standard input spooled to a temporary file. It does not
//! look into the content.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// A readable input with the name that reports give it.
///
/// Everything is a file, because a SQLite database needs one and some formats are read twice.
#[derive(Debug)]
pub struct TranscriptSource {
    path: PathBuf,
    display_name: PathBuf,
    /// Keeps the spooled copy alive for as long as the source.
    _spooled: Option<NamedTempFile>,
}

impl TranscriptSource {
    /// Returns the source for a file of the user, or for a folder of single events.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { display_name: path.clone(), path, _spooled: None }
    }

    /// Copies `input` to a temporary file in `folder`, gone with the source, and returns the source for it, shown as `shown_as` in reports.
    ///
    /// # Errors
    /// When `input` cannot be read or the temporary file cannot be written.
    pub fn from_reader(input: &mut impl Read, shown_as: &str, folder: &Path) -> Result<Self, Error> {
        let io = |source| Error::io(shown_as, source);
        let mut spooled = NamedTempFile::new_in(folder).map_err(io)?;
        std::io::copy(input, &mut spooled).map_err(io)?;
        spooled.flush().map_err(io)?;
        Ok(Self::from_temp_file(spooled, shown_as))
    }

    /// Returns the source for a temporary file, gone with the source, shown as `shown_as` in reports.
    pub fn from_temp_file(file: NamedTempFile, shown_as: &str) -> Self {
        Self { path: file.path().to_owned(), display_name: PathBuf::from(shown_as), _spooled: Some(file) }
    }

    /// Returns the path to read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path or name to show.
    pub fn display_name(&self) -> &Path {
        &self.display_name
    }

    /// Returns the size in bytes, the end point of [`Sink::progress`](crate::TranscriptSink::report_progress); 0 when unknown.
    pub fn bytes(&self) -> u64 {
        self.path.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns the name without folders: the conversation's name when the file holds only one.
    pub(crate) fn name(&self) -> String {
        self.display_name.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    pub(crate) fn open(&self) -> Result<File, Error> {
        File::open(&self.path).map_err(|source| self.io_error(source))
    }

    /// Returns the error for a failed read of this source.
    pub(crate) fn io_error(&self, source: std::io::Error) -> Error {
        Error::io(&self.display_name, source)
    }
}
