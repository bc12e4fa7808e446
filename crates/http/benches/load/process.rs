//! The processes under load: the scripted model server and `segue serve`, with a folder of their own.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::error_text;

/// Clock ticks per second in `/proc/PID/stat`. Linux uses 100 on every architecture.
const TICKS_PER_SECOND: u64 = 100;
/// Bytes in a KiB, and KiB in a MiB.
const KIB: u64 = 1_024;

/// The paths of the programs, and a folder that is emptied before the start.
pub struct LoadPrograms {
    pub segue: PathBuf,
    pub scripted: PathBuf,
    pub folder: PathBuf,
}

/// The running programs. Dropping this kills both.
pub struct LoadServer {
    pub address: String,
    pub key: String,
    server: Child,
    _model: Child,
}

impl LoadPrograms {
    /// Starts the model server and `segue serve`, and returns when both accept connections.
    pub async fn serve(&self) -> Result<LoadServer, String> {
        let _ = fs::remove_dir_all(&self.folder);
        let home = self.folder.join("home");
        fs::create_dir_all(&home).map_err(error_text)?;
        let script = self.folder.join("script.json");
        let replies = r#"{"replies":[{"always":true,"text":["An ","answer."]}],"requests_kept":8}"#;
        fs::write(&script, replies).map_err(error_text)?;
        let (model, model_url) = spawn_and_read_line(Command::new(&self.scripted).arg(&script)).await?;
        let mut serve = Command::new(&self.segue);
        serve.args(["serve", "--addr", "127.0.0.1:0", "--json"]);
        serve
            .env("SEGUE_HOME", &home)
            .env("ANTHROPIC_BASE_URL", &model_url)
            .env("ANTHROPIC_API_KEY", "bench");
        serve.current_dir(&self.folder);
        let (server, info) = spawn_and_read_line(&mut serve).await?;
        let info: serde_json::Value = serde_json::from_str(&info).map_err(error_text)?;
        let url = info["url"].as_str().ok_or_else(|| format!("`segue serve` printed no url: {info}"))?;
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let key = fs::read_to_string(home.join("token")).map_err(error_text)?.trim().to_owned();
        Ok(LoadServer { address, key, server, _model: model })
    }
}

/// Starts a program and returns it with the first line of its output.
async fn spawn_and_read_line(command: &mut Command) -> Result<(Child, String), String> {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(error_text)?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    let line = lines.next_line().await.map_err(error_text)?.ok_or("a program ended at once")?;
    // The remaining output is read and dropped, so that the pipe does not fill up.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((child, line))
}

impl LoadServer {
    /// Returns the CPU time that the server has used.
    pub fn cpu_time(&self) -> Result<Duration, String> {
        let stat = self.read("stat")?;
        let after_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let mut fields = after_name.split_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        Ok(Duration::from_millis((ticks() + ticks()) * 1_000 / TICKS_PER_SECOND))
    }

    /// Returns the server's resident memory, in MiB.
    pub fn resident_mib(&self) -> Result<u64, String> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(error_text)?;
        Ok(kib / KIB)
    }

    /// Reads a file of the server in `/proc`.
    fn read(&self, name: &str) -> Result<String, String> {
        let id = self.server.id().ok_or("the server has ended")?;
        fs::read_to_string(format!("/proc/{id}/{name}")).map_err(error_text)
    }
}
