//! The input of a reader: a file of the user, or a stream that was copied to a temporary file. The content is not
//! inspected here.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// A readable input and the name under which reports show it.
///
/// Every source is a file on disk, because SQLite needs one and some formats are read twice.
#[derive(Debug)]
pub struct TranscriptSource {
    /// The path to read.
    path: PathBuf,
    /// The path or name that reports show.
    display_name: PathBuf,
    /// The temporary copy of a stream. It is deleted when the source is dropped.
    spooled: Option<NamedTempFile>,
}

impl TranscriptSource {
    /// Returns the source for a file of the user, or for a folder of single events. The file is not opened.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { display_name: path.clone(), path, spooled: None }
    }

    /// Copies `input` to a temporary file in `folder` and returns the source for it.
    ///
    /// The temporary file is deleted when the source is dropped. Reports show the source as `display_name`.
    ///
    /// # Errors
    /// [`Error::Io`] if `input` cannot be read or the temporary file cannot be written.
    pub fn from_reader(input: &mut impl Read, display_name: &str, folder: &Path) -> Result<Self, Error> {
        let io = |source| Error::io(display_name, source);
        let mut spooled = NamedTempFile::new_in(folder).map_err(io)?;
        std::io::copy(input, &mut spooled).map_err(io)?;
        spooled.flush().map_err(io)?;
        Ok(Self::from_temp_file(spooled, display_name))
    }

    /// Returns the source for a temporary file, which is deleted when the source is dropped. Reports show the source as
    /// `display_name`.
    pub fn from_temp_file(file: NamedTempFile, display_name: &str) -> Self {
        Self { path: file.path().to_owned(), display_name: PathBuf::from(display_name), spooled: Some(file) }
    }

    /// Returns the path to read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path under which a later import finds the session; `None` for a copy of a stream.
    pub fn lasting_path(&self) -> Option<PathBuf> {
        match self.spooled {
            Some(_) => None,
            None => std::path::absolute(&self.path).ok(),
        }
    }

    /// Returns the path or name to show.
    pub fn display_name(&self) -> &Path {
        &self.display_name
    }

    /// Returns the size of the file in bytes; 0 if it is unknown. [`TranscriptSink::report_progress`] counts up to it.
    ///
    /// [`TranscriptSink::report_progress`]: crate::TranscriptSink::report_progress
    pub fn bytes(&self) -> u64 {
        self.path.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns the file name of the display name. Formats with one conversation per file use it as the conversation's
    /// name.
    pub(crate) fn name(&self) -> String {
        self.display_name.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Opens the file from its start.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Folder`] or [`Error::Io`], also for a pipe, which has no end and can be read only once.
    pub(crate) fn open(&self) -> Result<File, Error> {
        // Opening a pipe that nobody writes to would never return.
        if self.path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Err(
                self.io_error(std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
            );
        }
        File::open(&self.path).map_err(|source| self.io_error(source))
    }

    /// Returns the error for a failed read of this source.
    pub(crate) fn io_error(&self, source: std::io::Error) -> Error {
        Error::io(&self.display_name, source)
    }
}
