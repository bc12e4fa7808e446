//! The files of a fixture: the packed home, the SQL of its PostgreSQL database, and the manifest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SandboxedHome;
use crate::sandbox::TestSandbox;

/// The environment variable with which the tests of this version's home write its fixture.
pub const WRITE_VARIABLE: &str = "SEGUE_WRITE_UPGRADE_FIXTURE";

/// Maximum size of a fixture in bytes.
const FIXTURE_BYTES_MAX: u64 = 300_000;

/// Fields that depend on the time of the command, or that a later version may compute differently.
const VOLATILE_FIELDS: [&str; 3] = ["age_seconds", "cost", "next_command"];

/// The database engine of a home.
#[derive(Debug, Clone, Copy)]
pub enum DatabaseEngine {
    Sqlite,
    Postgres,
}

/// The expected content of a home.
#[derive(Debug, Serialize, Deserialize)]
pub struct HomeManifest {
    /// The version of Segue that wrote the home.
    pub version: String,
    /// The threads and handoffs with which the test continues.
    pub subjects: HomeSubjects,
    /// The text of agent.md.
    pub agent_md: String,
    /// The outputs of commands.
    pub outputs: Vec<RecordedOutput>,
}

/// Ids of what the home contains.
#[derive(Debug, Serialize, Deserialize)]
pub struct HomeSubjects {
    /// An imported and compacted thread, the parent of `child`.
    pub compacted: String,
    /// The child of an accepted handoff, before its first turn.
    pub child: String,
    /// A pending handoff.
    pub pending_handoff: String,
    /// A thread with a pending question about a tool call.
    pub asking: String,
    /// A thread of a server that was killed, with an active and a queued run.
    pub served: String,
    /// The active run, then the queued run of `served`.
    pub runs: [String; 2],
    /// A thread that was deleted.
    pub deleted: String,
    /// The API key of the user `alice`.
    pub alice_key: String,
}

/// The output of one command.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordedOutput {
    /// The arguments of the command.
    pub args: Vec<String>,
    /// The JSON that it printed, without [`VOLATILE_FIELDS`].
    pub output: Value,
}

impl RecordedOutput {
    /// Records the present output of a command.
    pub fn record(sandbox: &TestSandbox, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let output = print_values(sandbox, &args);
        Self { args, output }
    }

    /// Checks that the command still prints everything that it printed then. New fields are allowed.
    #[track_caller]
    pub fn assert_still_given(&self, sandbox: &TestSandbox) {
        let output = print_values(sandbox, &self.args);
        let recorded = with_packages_of_version_2(self.output.clone());
        if let Err(difference) = find_missing(&recorded, &output, "$") {
            panic!("{:?}: {difference}", self.args);
        }
    }
}

/// Returns the JSON values that a command prints, without the volatile fields; of a search, the events that it found.
fn print_values(sandbox: &TestSandbox, args: &[String]) -> Value {
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The recorded folder of a thread is of another machine, and these commands cover the project of the folder that they
    // run in.
    if matches!(args[..], ["search", ..] | ["memory", "summaries" | "search" | "show", ..]) {
        args.push("--everywhere");
    }
    let output = sandbox.run(&args);
    assert_eq!(output.code, 0, "{args:?}: {output:?}");
    let values = serde_json::Deserializer::from_str(&output.stdout).into_iter::<Value>();
    let values = values.map(|value| without_volatile_fields(value.unwrap()));
    match args[0] {
        "search" => values.map(|results| list_hits(&results)).collect(),
        _ => values.collect(),
    }
}

/// Returns the events that a search found, as the fields of an object. A later version may find more, in another order and
/// with other snippets.
fn list_hits(results: &Value) -> Value {
    let hits = results["hits"].as_array().unwrap().iter();
    hits.map(|hit| (format!("{}#{}", hit["thread_id"].as_str().unwrap(), hit["seq"]), Value::Bool(true)))
        .collect()
}

fn without_volatile_fields(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !VOLATILE_FIELDS.contains(&name.as_str()))
            .map(|(name, value)| (name, without_volatile_fields(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_volatile_fields).collect(),
        value => value,
    }
}

/// Returns a recorded value in which the handoff packages of version 1 have the names of version 2, under which every command
/// prints them (contract §4).
fn with_packages_of_version_2(value: Value) -> Value {
    match value {
        Value::Object(mut fields) => {
            // The event of a compaction keeps its name.
            if fields.contains_key("tldr")
                && let Some(Value::Object(mut facts)) = fields.remove("carry_over")
            {
                let lists = [("files_modified", "changed"), ("files_read", "read")];
                let files = lists.map(|(old, new)| (new.to_owned(), facts.remove(old).unwrap_or_default()));
                facts.insert("files".to_owned(), files.into_iter().collect());
                fields.insert("carried".to_owned(), Value::Object(facts));
                fields.insert("schema_version".to_owned(), 2.into());
            }
            let convert = |(name, value): (String, Value)| match name.as_str() {
                // The payload of an interrupt is printed as it was stored.
                "payload" => (name, value),
                _ => (name, with_packages_of_version_2(value)),
            };
            fields.into_iter().map(convert).collect()
        }
        Value::Array(items) => items.into_iter().map(with_packages_of_version_2).collect(),
        value => value,
    }
}

/// Compares two values: each field of `old` must be in `new` with an equal value, and lists must have equal items, except the
/// history of a thread, which may have more.
fn find_missing(old: &Value, new: &Value, path: &str) -> Result<(), String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old.iter().try_for_each(|(name, value)| {
            let path = format!("{path}.{name}");
            // A field without a value may be absent.
            find_missing(value, new.get(name).unwrap_or(&Value::Null), &path)
        }),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => old
            .iter()
            .zip(new)
            .enumerate()
            .try_for_each(|(at, (old, new))| find_missing(old, new, &format!("{path}[{at}]"))),
        // A later version shows more events of a thread as entries.
        (Value::Array(old), Value::Array(new)) if path.ends_with(".history") => {
            let mut remaining = new.iter();
            old.iter().try_for_each(|old| match remaining.any(|new| find_missing(old, new, path).is_ok()) {
                true => Ok(()),
                false => Err(format!("at {path}, {old} is missing")),
            })
        }
        (old, new) if old == new => Ok(()),
        (old, new) => Err(format!("at {path}, {old} became {new}")),
    }
}

/// The fixture of one version and one engine.
pub struct UpgradeFixture {
    pub engine: DatabaseEngine,
    folder: PathBuf,
}

impl UpgradeFixture {
    pub fn of_version(version: &str, engine: DatabaseEngine) -> Self {
        let name = match engine {
            DatabaseEngine::Sqlite => "sqlite",
            DatabaseEngine::Postgres => "postgresql",
        };
        Self { engine, folder: folder().join(version).join(name) }
    }

    pub fn manifest(&self) -> HomeManifest {
        serde_json::from_slice(&unzip(&self.folder.join("manifest.json.gz"))).unwrap()
    }

    /// Unpacks the home into the sandbox.
    pub fn unpack_home(&self, sandbox: &TestSandbox) {
        let parent = sandbox.home().parent().unwrap().to_owned();
        let archive = self.folder.join("home.tar.gz");
        let mut tar = Command::new("tar");
        // The archive may have been packed by another user.
        tar.args(["--no-same-owner", "-xzf"]).arg(archive).arg("-C").arg(parent);
        assert!(tar.status().unwrap().success());
    }

    /// Returns the statements that create the PostgreSQL database.
    pub fn database_sql(&self) -> String {
        String::from_utf8(unzip(&self.folder.join("database.sql.gz"))).unwrap()
    }

    /// Writes the fixture. Fails if it exists: the home of a released version is never replaced.
    pub fn write(&self, home: &SandboxedHome, manifest: &HomeManifest) {
        fs::create_dir_all(self.folder.parent().unwrap()).unwrap();
        fs::create_dir(&self.folder).expect("the fixture does not exist yet");
        let parent = home.sandbox.home().parent().unwrap().to_owned();
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(self.folder.join("home.tar.gz")).arg("-C").arg(parent).arg("home");
        assert!(tar.status().unwrap().success());
        if let Some(database) = &home.database {
            zip(dump_database(&database.socket_url()).as_bytes(), &self.folder.join("database.sql.gz"));
        }
        zip(&serde_json::to_vec_pretty(manifest).unwrap(), &self.folder.join("manifest.json.gz"));
        let sizes = fs::read_dir(&self.folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        let bytes: u64 = sizes.sum();
        assert!(bytes <= FIXTURE_BYTES_MAX, "{bytes} bytes");
    }
}

/// Returns the folder of the fixtures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/database/upgrade")
}

/// Returns the versions with a fixture, sorted.
pub fn versions() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Returns the statements that create the tables and rows of a database, for any user and any supported server.
fn dump_database(url: &str) -> String {
    let output = Command::new("pg_dump")
        .args(["--inserts", "--no-owner", "--no-privileges", "--no-comments", "--dbname", url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // Settings of the session come before the first table, and some exist only in the newest servers. All names have a
    // schema. Lines with a backslash are commands of psql.
    let (_, statements) = text.split_once("\nCREATE ").unwrap();
    let statements = match statements.rsplit_once("\n\\unrestrict ") {
        Some((statements, _)) => statements,
        None => statements,
    };
    format!("CREATE {statements}\n")
}

fn zip(bytes: &[u8], path: &Path) {
    let plain = path.with_extension("");
    fs::write(&plain, bytes).unwrap();
    let status = Command::new("gzip").args(["--best", "--no-name"]).arg(plain).status().unwrap();
    assert!(status.success());
}

fn unzip(path: &Path) -> Vec<u8> {
    let input = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let output = Command::new("gzip").arg("-dc").stdin(input).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    output.stdout
}
