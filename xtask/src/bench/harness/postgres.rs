//! A PostgreSQL server of its own with an empty database, on disk and with every commit synced.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::BenchPrograms;

/// A running server. Dropping it stops it and removes its data.
#[derive(Debug)]
pub struct PostgresProcess {
    process: Child,
    socket_url: String,
    url: String,
}

impl PostgresProcess {
    /// Starts a server.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not start.
    pub fn start(programs: &BenchPrograms) -> anyhow::Result<Self> {
        let mut process = Command::new(&programs.test_postgres)
            .arg("--durable")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", programs.test_postgres.display()))?;
        let output = process.stdout.take().context("the program has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut next_url = || lines.next().transpose()?.context("PostgreSQL did not start");
        let (socket_url, url) = (next_url()?, next_url()?);
        Ok(Self { process, socket_url, url })
    }

    /// Returns the URL of the database over a Unix socket.
    pub fn socket_url(&self) -> &str {
        &self.socket_url
    }

    /// Returns the address of the server.
    ///
    /// # Errors
    /// If the URL has no address.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let host = self.url.split_once('@').and_then(|(_, rest)| rest.split('/').next());
        host.context("the URL has no host")?.parse().context("read the address of PostgreSQL")
    }

    /// Returns the URL of the database at another address, such as that of a relay, without TLS.
    ///
    /// # Errors
    /// As for [`Self::address`].
    pub fn url_at(&self, address: SocketAddr) -> anyhow::Result<String> {
        Ok(self.url.replace(&self.address()?.to_string(), &address.to_string()) + "?sslmode=disable")
    }

    /// Executes a script with `psql`, with these values of its variables.
    ///
    /// # Errors
    /// As for [`Self::query`].
    pub fn run_script(&self, script: &str, variables: &[(&str, u64)]) -> anyhow::Result<()> {
        let mut command = Command::new("psql");
        command.args(["-Xq", "-o", "/dev/null"]);
        for (name, value) in variables {
            command.args(["-v", &format!("{name}={value}")]);
        }
        let mut process =
            command.arg(&self.socket_url).stdin(Stdio::piped()).spawn().context("start psql")?;
        process.stdin.take().context("psql has no input")?.write_all(script.as_bytes())?;
        match process.wait()? {
            status if status.success() => Ok(()),
            status => bail!("psql exited with {status}"),
        }
    }

    /// Executes SQL with `psql` and returns its rows, the columns separated by `|`.
    ///
    /// # Errors
    /// If `psql` is not installed or a statement fails.
    pub fn query(&self, sql: &str) -> anyhow::Result<Vec<String>> {
        let output = Command::new("psql")
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.socket_url])
            .output()
            .context("start psql")?;
        if !output.status.success() {
            bail!("psql: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

impl Drop for PostgresProcess {
    fn drop(&mut self) {
        // The program exits when its input ends, and stops the server then.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
