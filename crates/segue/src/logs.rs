//! Logs: where they go and in which form. What is logged, and at which level, is decided where it happens. No secret is in them, whoever
//! wrote it.

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
        (None, Some(name)) => <LogFormat as ValueEnum>::from_str(&name, true).map_err(|_| {
            Failure::new(Code::User, format!("log as `{name}`")).with_hint("SEGUE_LOG_FORMAT is text or json")
        })?,
        (None, None) => LogFormat::default(),
    };
    let place = match &file {
        Some(path) => Place::File(Daily::at(path)?),
        None => Place::Stderr,
    };
    let lines = Lines { place, format };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines).with_ansi(false);
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

/// Where lines go.
enum Place {
    Stderr,
    File(Daily),
}

/// A file for each day, in the world's time, with the day before its ending. Only the owner may read it.
struct Daily {
    folder: PathBuf,
    stem: String,
    ending: String,
    /// The day that is written, and its file.
    open: Mutex<Option<(String, File)>>,
}

impl Daily {
    /// Returns what writes to `path`, in a folder that must be there.
    fn at(path: &Path) -> Result<Self, Failure> {
        let unusable = |why: String| {
            Failure::new(Code::User, format!("log to {}: {why}", path.display()))
                .with_hint("name a file in a folder that you can write to")
        };
        let name = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let stem = name(path.file_stem()).ok_or_else(|| unusable("it is no file".to_owned()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let ending = name(path.extension()).unwrap_or_else(|| "log".to_owned());
        let daily = Self { folder: folder.to_owned(), stem, ending, open: Mutex::default() };
        daily.write(b"").map_err(|error| unusable(error.to_string()))?;
        Ok(daily)
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
        let mut open = self.open.lock();
        if open.as_ref().is_none_or(|(day, _)| *day != today) {
            let file = self.begin(&today)?;
            *open = Some((today, file));
        }
        open.as_mut().map_or(Ok(()), |(_, file)| file.write_all(line))
    }

    /// Begins the file of a day; of those before, the newest stay.
    fn begin(&self, day: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(self.folder.join(format!("{}.{day}.{}", self.stem, self.ending)))?;
        // A folder that cannot be listed keeps them all.
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut days: Vec<String> = entries.filter_map(|entry| self.day_of(&entry.file_name())).collect();
        days.sort_unstable();
        for old in days.iter().rev().skip(FILES_MAX) {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_file(self.folder.join(format!("{}.{old}.{}", self.stem, self.ending)));
        }
        Ok(file)
    }

    /// Returns the day of a file of this log; another file has none.
    fn day_of(&self, name: &OsStr) -> Option<String> {
        let rest = name.to_str()?.strip_prefix(&self.stem)?.strip_prefix('.')?;
        let day = rest.strip_suffix(&self.ending)?.strip_suffix('.')?;
        Date::from_str(day).is_ok_and(|date| date.to_string() == day).then(|| day.to_owned())
    }
}

/// Writes a line without what looks like a secret.
struct Redacting<W> {
    inner: W,
    format: LogFormat,
}

/// Lines of one form on their way to a place.
struct Lines {
    place: Place,
    format: LogFormat,
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = Box<dyn Write + 'w>;

    fn make_writer(&'w self) -> Self::Writer {
        let format = self.format;
        match &self.place {
            Place::Stderr => Box::new(Redacting { inner: io::stderr(), format }),
            Place::File(file) => Box::new(Redacting { inner: file, format }),
        }
    }
}

impl Write for &Daily {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        Daily::write(self, line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Write for Redacting<W> {
    /// Takes a whole line: that is how the formatter writes.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let fields = match self.format {
            LogFormat::Json => serde_json::from_str::<Value>(&text).ok(),
            LogFormat::Text => None,
        };
        // A secret in an escaped text does not look like one, so JSON is redacted value by value.
        let shown = fields
            .map_or_else(|| agent::redact(&text).into_owned(), |fields| format!("{}\n", withheld(fields)));
        self.inner.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn withheld(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(agent::redact(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(withheld).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, withheld(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: LogFormat, line: &str) -> String {
        let mut written = Vec::new();
        let taken = Redacting { inner: &mut written, format }.write(line.as_bytes()).unwrap();
        assert_eq!(taken, line.len());
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn m16_a_line_of_a_log_shows_no_secret_in_either_form() {
        let secrets =
            "refused\nsk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z, password=\"hunter2hunter2\" was it";
        for (format, line) in [
            (LogFormat::Text, format!("WARN {secrets}\n")),
            (
                LogFormat::Json,
                format!("{}\n", serde_json::json!({"level": "WARN", "fields": {"error": secrets}})),
            ),
        ] {
            let told = written(format, &line);
            assert!(!told.contains("aB3dE5") && !told.contains("hunter2"), "{told}");
            assert!(told.contains("refused") && told.ends_with('\n'), "{told}");
            assert!(format == LogFormat::Text || serde_json::from_str::<Value>(&told).is_ok(), "{told}");
        }
    }

    #[test]
    fn of_the_days_before_the_newest_stay_and_so_does_every_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        (1..=9).for_each(|day| touch(&format!("segue.2020-01-0{day}.log")));
        let others = ["segue-b.2020-01-01.log", "segue.notes.log", "segue.2020-01-01.log.gz", "segue.log"];
        others.into_iter().for_each(touch);
        let daily = Daily::at(&folder.path().join("segue.log")).unwrap();
        daily.write(b"a line\n").unwrap();
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(others.iter().all(|other| names.contains(&(*other).to_owned())), "{names:?}");
        names.retain(|name| daily.day_of(OsStr::new(name)).is_some());
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
