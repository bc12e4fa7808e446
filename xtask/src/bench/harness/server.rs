//! A process of `segue serve`, and its figures in `/proc`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::client::HttpClient;
use super::home::BenchHome;

/// Clock ticks of a second in `/proc/PID/stat`. Linux uses 100 on every architecture.
const TICKS_PER_SECOND: u64 = 100;

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct ServeProcess {
    process: Child,
    address: String,
    key: String,
}

impl ServeProcess {
    /// Starts a server on a free port and returns when it accepts requests.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(home: &BenchHome) -> anyhow::Result<Self> {
        Self::start_command(home.command(&["serve", "--addr", "127.0.0.1:0", "--json"]))
    }

    /// Starts a server on a database.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_on_database(home: &BenchHome, url: &str) -> anyhow::Result<Self> {
        let mut command = home.command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
        command.env("SEGUE_DATABASE_URL", url);
        Self::start_command(command)
    }

    fn start_command(mut command: Command) -> anyhow::Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn().context("start segue serve")?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let about: Value = serde_json::from_str(&line).context("read the first line of segue serve")?;
        let text = |name: &str| about[name].as_str().unwrap_or_default().to_owned();
        let key = fs::read_to_string(text("token_file")).context("read the token")?.trim().to_owned();
        Ok(Self { process, address: text("addr"), key })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub fn connect(&self) -> anyhow::Result<HttpClient> {
        HttpClient::connect(&self.address, self.request_head())
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the headers of every request.
    pub fn request_head(&self) -> String {
        let Self { address, key, .. } = self;
        format!("host: {address}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n")
    }

    /// Returns the CPU time that the server has used.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let stat = self.read("stat")?;
        let after_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
    }

    /// Returns the resident memory in MB.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn resident_mb(&self) -> anyhow::Result<f64> {
        self.status_mb("VmRSS:")
    }

    /// Returns the peak of the resident memory since the last [`Self::reset_peak`], in MB.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn peak_mb(&self) -> anyhow::Result<f64> {
        self.status_mb("VmHWM:")
    }

    /// Sets the peak of the resident memory to its present size.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn reset_peak(&self) -> anyhow::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").context("reset the peak memory")
    }

    fn status_mb(&self, name: &str) -> anyhow::Result<f64> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kib: f64 =
            line.trim().trim_end_matches(" kB").parse().context("read the memory of the server")?;
        Ok(kib * 1.024 / 1e3)
    }

    /// Reads a file of the server in `/proc`.
    fn read(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(format!("/proc/{}/{name}", self.process.id())).context("the server has ended")
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // Both fail only if the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
