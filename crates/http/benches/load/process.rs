//! The programs under load: the scripted model and `segue serve`, each a process of its own with a folder of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::text;

/// Ticks of a second in `/proc/PID/stat`; Linux has had this one for every architecture.
const TICKS: u64 = 100;
const KIB: u64 = 1_024;

/// Where the programs are, and a folder that is emptied first.
pub struct Programs {
    pub segue: PathBuf,
    pub scripted: PathBuf,
    pub folder: PathBuf,
}

/// The programs at work; both end with this value.
pub struct Served {
    pub address: String,
    pub key: String,
    server: Child,
    _model: Child,
}

impl Programs {
    pub async fn serve(&self) -> Result<Served, String> {
        let _ = fs::remove_dir_all(&self.folder);
        let home = self.folder.join("home");
        fs::create_dir_all(&home).map_err(text)?;
        let script = self.folder.join("script.json");
        let replies = r#"{"replies":[{"always":true,"text":["An ","answer."]}],"requests_kept":8}"#;
        fs::write(&script, replies).map_err(text)?;
        let (model, model_url) = begun(Command::new(&self.scripted).arg(&script)).await?;
        let mut serve = Command::new(&self.segue);
        serve.args(["serve", "--addr", "127.0.0.1:0", "--json"]);
        serve
            .env("SEGUE_HOME", &home)
            .env("ANTHROPIC_BASE_URL", &model_url)
            .env("ANTHROPIC_API_KEY", "bench");
        serve.current_dir(&self.folder);
        let (server, told) = begun(&mut serve).await?;
        let told: serde_json::Value = serde_json::from_str(&told).map_err(text)?;
        let url = told["url"].as_str().ok_or_else(|| format!("`segue serve` said no url: {told}"))?;
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let key = fs::read_to_string(home.join("token")).map_err(text)?.trim().to_owned();
        Ok(Served { address, key, server, _model: model })
    }
}

/// Begins a program and returns the first line it prints.
async fn begun(command: &mut Command) -> Result<(Child, String), String> {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(text)?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    let line = lines.next_line().await.map_err(text)?.ok_or("a program ended at once")?;
    // What it prints later is nobody's business, and must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((child, line))
}

impl Served {
    /// Returns the CPU time the server has used.
    pub fn cpu(&self) -> Result<Duration, String> {
        let stat = self.read("stat")?;
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = behind_name.split_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        Ok(Duration::from_millis((ticks() + ticks()) * 1_000 / TICKS))
    }

    /// Returns the server's resident memory.
    pub fn resident_mib(&self) -> Result<u64, String> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(text)?;
        Ok(kib / KIB)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let id = self.server.id().ok_or("the server has ended")?;
        fs::read_to_string(format!("/proc/{id}/{name}")).map_err(text)
    }
}
