//! A process of the scripted model server, which answers at once.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use super::BenchContext;

/// A running model server. Dropping it stops it.
#[derive(Debug)]
pub struct ModelServer {
    process: Child,
    url: String,
}

impl ModelServer {
    /// Starts a server with these replies, in the form of the crate `test_model`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(context: &BenchContext, replies: &[Value]) -> anyhow::Result<Self> {
        fs::create_dir_all(&context.folder)?;
        let script = context.folder.join("script.json");
        fs::write(&script, json!({"replies": replies, "requests_kept": 1}).to_string())?;
        let path = &context.programs.test_model;
        let mut process = Command::new(path)
            .arg(&script)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", path.display()))?;
        let mut url = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut url)?;
        }
        Ok(Self { process, url: url.trim().to_owned() })
    }

    /// Starts a server that gives the same answer to every request.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_with_answer(context: &BenchContext, answer: &str) -> anyhow::Result<Self> {
        Self::start(context, &[json!({"always": true, "text": [answer]})])
    }

    /// Returns the address of the server.
    ///
    /// # Errors
    /// If the server has printed no address.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.url.trim_start_matches("http://").parse().context("read the address of the model server")
    }

    /// Returns a `config.toml` with this model and the given sections.
    pub fn config(&self, sections: &str) -> String {
        config_for_url(&self.url, sections)
    }
}

/// Returns a `config.toml` with the model at a URL and the given sections. Keys before the first section are of the
/// provider. The window is that of unknown models, unless one of them is `context_tokens`.
pub fn config_for_url(url: &str, sections: &str) -> String {
    format!(
        "model = \"anthropic/bench\"\n[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"none\"\n{sections}"
    )
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // Both fail only if the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
