//! Logs: where they go and in which form. What is logged, and at which level, is decided where it happens. No secret is in them, whoever
//! wrote it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::{LogFormat, Logs};
use crate::exit::{Code, Failure};

/// Files of a log that are kept, one a day.
const FILES_MAX: usize = 7;
/// What a file holds unless somebody says otherwise: who names one wants something in it.
const FILE_LEVEL: &str = "info";

/// Begins to log as the arguments say, or else the environment; without either, at the level `unless_set`, if there is one.
///
/// # Errors
/// When the filter, the form or the file cannot be used.
pub(crate) fn begin(logs: &Logs, unless_set: Option<&str>) -> Result<(), Failure> {
    let file = logs.file.clone().or_else(|| variable("SEGUE_LOG_FILE").map(PathBuf::from));
    let asked = logs.level.clone().or_else(|| variable("SEGUE_LOG"));
    let usual = if file.is_some() { Some(FILE_LEVEL) } else { unless_set };
    let Some(filter) = asked.or(usual.map(str::to_owned)) else { return Ok(()) };
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        Failure::new(Code::User, format!("log at `{filter}`: {error}"))
            .with_hint("say error, warn, info, debug or trace, or a filter such as `warn,handoff=debug`")
    })?;
    let format = match (logs.format, variable("SEGUE_LOG_FORMAT")) {
        (Some(format), _) => format,
        (None, Some(name)) => LogFormat::from_str(&name, true).map_err(|_| {
            Failure::new(Code::User, format!("log as `{name}`")).with_hint("SEGUE_LOG_FORMAT is text or json")
        })?,
        (None, None) => LogFormat::default(),
    };
    let place = match &file {
        Some(path) => Place::File(appender(path)?),
        None => Place::Stderr,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(place).with_ansi(false);
    // Nothing else sets a subscriber; were it so, that one may keep its place.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Returns what writes to `path`, with the day before its ending.
fn appender(path: &Path) -> Result<RollingFileAppender, Failure> {
    let unusable = |why: String| {
        Failure::new(Code::User, format!("log to {}: {why}", path.display()))
            .with_hint("name a file in a folder that you can write to")
    };
    let name = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let stem = name(path.file_stem()).ok_or_else(|| unusable("it is no file".to_owned()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(unusable("there is no such folder".to_owned()));
    }
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(stem)
        .filename_suffix(name(path.extension()).unwrap_or_else(|| "log".to_owned()))
        .max_log_files(FILES_MAX)
        .build(folder)
        .map_err(|error| unusable(error.to_string()))
}

/// Where lines go.
enum Place {
    Stderr,
    File(RollingFileAppender),
}

/// Writes a line without what looks like a secret.
struct Redacting<W>(W);

impl<'w> MakeWriter<'w> for Place {
    type Writer = Box<dyn Write + 'w>;

    fn make_writer(&'w self) -> Self::Writer {
        match self {
            Self::Stderr => Box::new(Redacting(io::stderr())),
            Self::File(file) => Box::new(Redacting(file.make_writer())),
        }
    }
}

impl<W: Write> Write for Redacting<W> {
    /// Takes a whole line: that is how the formatter writes.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(agent::redact(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m16_a_line_of_a_log_shows_no_secret() {
        let mut written = Vec::new();
        let line = "{\"fields\":{\"error\":\"refused sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z, password=hunter2hunter2\"}}\n";
        let taken = Redacting(&mut written).write(line.as_bytes()).unwrap();
        let told = String::from_utf8(written).unwrap();
        assert_eq!(taken, line.len());
        assert!(!told.contains("aB3dE5") && !told.contains("hunter2"), "{told}");
    }
}
