//! The destination and the format of the log. Each crate decides which entries it logs and at which level. Secrets are
//! redacted from every entry, whichever crate logged it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use jiff::Timestamp;
use jiff::civil::Date;
use parking_lot::Mutex;
use serde_json::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::{LogArgs, LogFormat};
use crate::exit::{CliFailure, ExitReason};

/// The number of log files that are retained. Each day with entries has one file.
const FILES_MAX: usize = 7;
/// The default level of a log file. It is more verbose than that of stderr, because a user who names a file expects
/// entries in it.
const FILE_LEVEL: &str = "info";

/// The use of the environment variables of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogVariables {
    /// The variables are read.
    Read,
    /// Every variable counts as unset.
    Ignore,
}

impl LogVariables {
    /// Returns the value of a variable; an empty value counts as unset.
    fn value(self, name: &str) -> Option<String> {
        match self {
            Self::Read => std::env::var(name).ok().filter(|value| !value.trim().is_empty()),
            Self::Ignore => None,
        }
    }
}

/// Starts logging with the settings of the arguments, else of the environment. If neither sets a level, `default_level`
/// is used; `None` disables logging unless a file is named.
///
/// # Errors
/// Fails if the filter or the format is invalid, or the file cannot be written.
pub(crate) fn init_logging(
    logs: &LogArgs,
    variables: LogVariables,
    default_level: Option<&str>,
) -> Result<(), CliFailure> {
    let file = logs.file.clone().or_else(|| variables.value("SEGUE_LOG_FILE").map(PathBuf::from));
    let level = logs.level.clone().or_else(|| variables.value("SEGUE_LOG"));
    let default_level = if file.is_some() { Some(FILE_LEVEL) } else { default_level };
    let Some(filter) = level.or(default_level.map(str::to_owned)) else { return Ok(()) };
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        CliFailure::new(ExitReason::User, format!("log at `{filter}`: {error}"))
            .with_hint("use error, warn, info, debug or trace, or a filter such as `warn,handoff=debug`")
    })?;
    let format = match (logs.format, variables.value("SEGUE_LOG_FORMAT")) {
        (Some(format), _) => format,
        (None, Some(name)) => <LogFormat as ValueEnum>::from_str(&name, true).map_err(|_| {
            CliFailure::new(ExitReason::User, format!("log as `{name}`"))
                .with_hint("SEGUE_LOG_FORMAT is text or json")
        })?,
        (None, None) => LogFormat::default(),
    };
    let destination = match &file {
        Some(path) => LogDestination::File(DailyLogFile::create(path)?),
        None => LogDestination::Stderr,
    };
    let writer = LogWriter { destination, format };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    // The program sets no other subscriber. If a library has set one, it stays.
    let _ = match format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// The destination of log entries.
enum LogDestination {
    /// Standard error.
    Stderr,
    /// A file for each day.
    File(DailyLogFile),
}

/// A log with one file for each day in UTC: `segue.2026-03-01.log` for `segue.log`. Only the owner can read the files.
struct DailyLogFile {
    /// The folder of the files.
    folder: PathBuf,
    /// The file name before the day.
    stem: String,
    /// The file name after the day.
    extension: String,
    /// The day of the last entry, and its file.
    current: Mutex<Option<(String, File)>>,
}

impl DailyLogFile {
    /// Creates the log and the file of the current day.
    ///
    /// # Errors
    /// Fails if the folder of `path` does not exist, or the file cannot be written.
    fn create(path: &Path) -> Result<Self, CliFailure> {
        let unusable = |reason: String| {
            CliFailure::new(ExitReason::User, format!("log to {}: {reason}", path.display()))
                .with_hint("name a file in a folder that you can write to")
        };
        let to_text = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let stem =
            to_text(path.file_stem()).ok_or_else(|| unusable("the path has no file name".to_owned()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let extension = to_text(path.extension()).unwrap_or_else(|| "log".to_owned());
        let daily = Self { folder: folder.to_owned(), stem, extension, current: Mutex::default() };
        // The first write happens here, so that an unusable path fails at the start.
        daily.write_line(b"").map_err(|error| unusable(error.to_string()))?;
        Ok(daily)
    }

    /// Appends a line to the file of the current day. Opens a new file when the day has changed.
    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
        let mut open = self.current.lock();
        if open.as_ref().is_none_or(|(day, _)| *day != today) {
            let file = self.open_day(&today)?;
            *open = Some((today, file));
        }
        open.as_mut().map_or(Ok(()), |(_, file)| file.write_all(line))
    }

    /// Opens the file of a day, and deletes the oldest files beyond [`FILES_MAX`].
    fn open_day(&self, day: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(self.folder.join(format!("{}.{day}.{}", self.stem, self.extension)))?;
        // If the folder cannot be listed, no file is deleted.
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut days: Vec<String> =
            entries.filter_map(|entry| self.day_of_file(&entry.file_name())).collect();
        days.sort_unstable();
        for old in days.iter().rev().skip(FILES_MAX) {
            // A file that cannot be deleted does no harm.
            let _ = std::fs::remove_file(self.folder.join(format!("{}.{old}.{}", self.stem, self.extension)));
        }
        Ok(file)
    }

    /// Returns the day in the name of a file of this log, or `None` for any other file.
    fn day_of_file(&self, name: &OsStr) -> Option<String> {
        let remaining = name.to_str()?.strip_prefix(&self.stem)?.strip_prefix('.')?;
        let day = remaining.strip_suffix(&self.extension)?.strip_suffix('.')?;
        Date::from_str(day).is_ok_and(|date| date.to_string() == day).then(|| day.to_owned())
    }
}

/// A writer that redacts secrets from each line.
struct RedactingWriter<W> {
    /// The destination.
    inner: W,
    /// The format of the lines, which determines how they are redacted.
    format: LogFormat,
}

/// The factory of the writers that the formatter of `tracing_subscriber` writes entries to.
struct LogWriter {
    /// The destination of the entries.
    destination: LogDestination,
    /// The format of the entries.
    format: LogFormat,
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = Box<dyn Write + 'w>;

    fn make_writer(&'w self) -> Self::Writer {
        let format = self.format;
        match &self.destination {
            LogDestination::Stderr => Box::new(RedactingWriter { inner: io::stderr(), format }),
            LogDestination::File(file) => Box::new(RedactingWriter { inner: file, format }),
        }
    }
}

impl Write for &DailyLogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        DailyLogFile::write_line(self, line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    /// Writes one whole line. The formatter writes each entry with one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let fields = match self.format {
            LogFormat::Json => serde_json::from_str::<Value>(&text).ok(),
            LogFormat::Text => None,
        };
        // JSON escapes can hide the shape of a secret, so each value is redacted on its own.
        let redacted = fields
            .map_or_else(|| agent::redact(&text).into_owned(), |fields| format!("{}\n", redact_json(fields)));
        self.inner.write_all(redacted.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Redacts all strings of a JSON value.
fn redact_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(agent::redact(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(redact_json).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, redact_json(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a line through a redacting writer and returns the output.
    fn write_redacted(format: LogFormat, line: &str) -> String {
        let mut written = Vec::new();
        let count = RedactingWriter { inner: &mut written, format }.write(line.as_bytes()).unwrap();
        assert_eq!(count, line.len());
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn m16_a_log_entry_contains_no_secret_in_either_format() {
        let secrets =
            "refused\nsk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z, password=\"hunter2hunter2\" was it";
        for (format, line) in [
            (LogFormat::Text, format!("WARN {secrets}\n")),
            (
                LogFormat::Json,
                format!("{}\n", serde_json::json!({"level": "WARN", "fields": {"error": secrets}})),
            ),
        ] {
            let written = write_redacted(format, &line);
            assert!(!written.contains("aB3dE5") && !written.contains("hunter2"), "{written}");
            assert!(written.contains("refused") && written.ends_with('\n'), "{written}");
            assert!(
                format == LogFormat::Text || serde_json::from_str::<Value>(&written).is_ok(),
                "{written}"
            );
        }
    }

    #[test]
    fn only_the_newest_files_of_the_log_are_kept_and_no_other_file_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        (1..=9).for_each(|day| touch(&format!("segue.2020-01-0{day}.log")));
        let others = ["segue-b.2020-01-01.log", "segue.notes.log", "segue.2020-01-01.log.gz", "segue.log"];
        others.into_iter().for_each(touch);
        let daily = DailyLogFile::create(&folder.path().join("segue.log")).unwrap();
        daily.write_line(b"a line\n").unwrap();
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(others.iter().all(|other| names.contains(&(*other).to_owned())), "{names:?}");
        names.retain(|name| daily.day_of_file(OsStr::new(name)).is_some());
        names.sort_unstable();
        assert_eq!((names.len(), names[0].as_str()), (FILES_MAX, "segue.2020-01-04.log"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let newest = std::fs::metadata(folder.path().join(&names[FILES_MAX - 1])).unwrap();
            assert_eq!(newest.permissions().mode() & 0o777, 0o600);
        }
    }
}
