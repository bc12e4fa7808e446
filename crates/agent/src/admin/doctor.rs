//! The doctor: checks everything a handoff relies on, and reports problems with a remedy. It changes nothing.

mod database_check;

use futures::future::BoxFuture;
use journal::{EmbeddingCounts, PoolStatistics};
use memory::AgentFile;
use protocol::HandoffStatus;
use runtime::FrameSender;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tools::{SandboxConfig, SandboxMode, SandboxNetwork, SandboxStatus};

use crate::assembly::models::is_offline_summary;
use crate::assembly::project_notes;
use crate::memories::embeddings::EmbeddingStatus;
use crate::{AdminService, Error, MemoryError};

/// The remedy for a system without a sandbox.
const SANDBOX_HINT: &str = "use Linux 5.13 or newer with Landlock enabled (`lsm=landlock,…`), or macOS";

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Everything is in order.
    Ok,
    /// It works, but a person should know about a problem.
    Warn,
    /// It does not work.
    Fail,
}

/// One check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorCheck {
    /// The short name of the subject.
    pub name: &'static str,
    /// The result.
    pub verdict: CheckStatus,
    /// The details, in one line.
    pub detail: String,
    /// The remedy; `None` if nothing is wrong or no remedy is known.
    pub hint: Option<String>,
}

impl DoctorCheck {
    /// Creates a check result without a hint.
    pub fn new(name: &'static str, verdict: CheckStatus, detail: impl Into<String>) -> Self {
        Self { name, verdict, detail: detail.into(), hint: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<'a> AdminService<'a> {
    /// Checks the home folder, the keys in the configuration, the database, the block in `agent.md`, the install token, pending handoffs,
    /// cut-off runs, models and the export of handoffs. Sends progress frames, and returns `None` if it was cancelled.
    pub fn run_doctor(
        self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<Vec<DoctorCheck>>> {
        journal::box_future(async move {
            let database = self.database_check(frames, cancel).await?;
            let mut checks = vec![self.home_check(), database, self.block_check()];
            checks.extend(self.config_check());
            checks.extend(self.token_check());
            checks.extend(self.connections_check());
            checks.push(self.pending_check().await);
            checks.push(self.runs_check().await);
            checks.push(self.sandbox_check().await);
            checks.extend(self.sandboxed_programs_check().await);
            checks.push(self.models_check());
            checks.extend(self.summarizers_check());
            checks.extend(self.embeddings_check().await);
            checks.extend(self.notes_checks());
            checks.extend(self.agent.handoffs().mirror_check().await);
            Some(checks)
        })
    }

    /// Checks that the home folder exists and that only its owner can read it.
    fn home_check(self) -> DoctorCheck {
        let root = self.agent.settings.home.root();
        let detail = root.display().to_string();
        match std::fs::metadata(root) {
            Ok(metadata) if is_private(&metadata) => DoctorCheck::new("home", CheckStatus::Ok, detail),
            Ok(_) => DoctorCheck::new("home", CheckStatus::Warn, format!("{detail} can be read by others"))
                .with_hint(format!("chmod 700 {detail}")),
            Err(error) => DoctorCheck::new("home", CheckStatus::Fail, format!("{detail}: {error}")),
        }
    }

    /// Checks that only the owner can read a configuration file with API keys. Returns `None` if it contains none.
    fn config_check(self) -> Option<DoctorCheck> {
        if !self.agent.config.providers.values().any(|provider| provider.api_key.is_some()) {
            return None;
        }
        let path = self.agent.settings.home.config_path();
        let metadata = std::fs::metadata(&path).ok()?;
        let detail = path.display().to_string();
        Some(match is_private(&metadata) {
            true => DoctorCheck::new(
                "config",
                CheckStatus::Ok,
                format!("{detail}: only you can read its API keys"),
            ),
            false => DoctorCheck::new(
                "config",
                CheckStatus::Warn,
                format!("{detail} contains an API key and can be read by others"),
            )
            .with_hint(format!("chmod 600 {detail}")),
        })
    }

    /// Checks the install token. Returns `None` if the file does not exist, which means that no server has
    /// run yet.
    fn token_check(self) -> Option<DoctorCheck> {
        let path = self.agent.settings.home.token_path();
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        let detail = path.display().to_string();
        Some(match metadata.is_file() && is_private(&metadata) {
            true => DoctorCheck::new("token", CheckStatus::Ok, format!("{detail}: only you can read it")),
            false => DoctorCheck::new(
                "token",
                CheckStatus::Fail,
                format!("{detail} can be read by others, or is not a file"),
            )
            .with_hint(format!("remove {detail}: the next `segue serve` makes a new token")),
        })
    }

    /// Checks the embedding model by asking it for an embedding. Returns no check if none is configured.
    async fn embeddings_check(self) -> Option<DoctorCheck> {
        let embedder = self.agent.embedder.as_ref()?;
        let config = self.agent.config.search.embeddings.as_ref()?;
        if let Some(name) = config.key_variable.as_deref()
            && self.agent.settings.environment.variable(name).is_none()
        {
            let detail = format!(
                "no key is sent: the variable `{name}`, which `search.embeddings.key_variable` names, is not set"
            );
            return Some(
                DoctorCheck::new("embeddings", CheckStatus::Warn, detail).with_hint("set the variable"),
            );
        }
        if let Err(error) = embedder.embed_text("heron").await {
            let error = MemoryError::Embedding(error.into());
            let detail = format!("searches compare words only: failed to {error}");
            let check = DoctorCheck::new("embeddings", CheckStatus::Warn, detail);
            return Some(match Error::Memory(error).hint() {
                Some(hint) => check.with_hint(hint),
                None => check,
            });
        }
        let (verdict, detail) = match self.agent.memory().embedding_status().await {
            Ok(Some(EmbeddingStatus { model, counts: EmbeddingCounts { embeddings, missing } })) => {
                let server = match self.agent.postgres {
                    Some(_) => "; Segue compares them itself and does not use pgvector",
                    None => "",
                };
                let detail =
                    format!("{model}: embeddings: {embeddings}, messages without one: {missing}{server}");
                (CheckStatus::Ok, detail)
            }
            Ok(None) => return None,
            Err(error) => (CheckStatus::Fail, error.to_string()),
        };
        Some(DoctorCheck::new("embeddings", verdict, detail))
    }

    /// Checks that the model receives the project's notes for agents whole. Returns no check if it does.
    fn notes_checks(self) -> Vec<DoctorCheck> {
        let report = project_notes::report_notes(&self.agent.settings.workspace);
        let names: Vec<String> = report.shortened.iter().map(|path| path.display().to_string()).collect();
        let limit = project_notes::NOTES_BYTES_MAX / 1024;
        let shortened = (!names.is_empty()).then(|| {
            let detail = format!(
                "{}: the model receives only the beginning, because all notes files share {limit} KiB",
                names.join(", ")
            );
            DoctorCheck::new("notes", CheckStatus::Warn, detail).with_hint("shorten the files")
        });
        let skipped = report.skipped.into_iter().map(|(path, reason)| {
            let detail = format!("{}: the model does not receive it: {reason}", path.display());
            DoctorCheck::new("notes", CheckStatus::Warn, detail)
                .with_hint("replace it with a readable file in the project, or remove it")
        });
        shortened.into_iter().chain(skipped).collect()
    }

    /// Checks the connection pool. Returns `None` if the database is a file.
    fn connections_check(self) -> Option<DoctorCheck> {
        let PoolStatistics { connections, idle, max, checkouts, waits, timeouts, broken, .. } =
            self.connection_metrics()?;
        let detail = format!(
            "{connections} of {max} connections ({idle} idle); {checkouts} checkouts, of which {waits} had to wait and {timeouts} timed out; {broken} broken connections"
        );
        Some(match timeouts {
            0 => DoctorCheck::new("pool", CheckStatus::Ok, detail),
            _ => DoctorCheck::new("pool", CheckStatus::Warn, detail)
                .with_hint("raise `[database] max_connections`, within the server's own `max_connections`"),
        })
    }

    /// Checks the managed block in the assistant's `agent.md`.
    fn block_check(self) -> DoctorCheck {
        let path = self.agent.settings.home.agent_md_path(&self.agent.settings.assistant_id);
        let file = AgentFile::new(path.clone());
        if let Some(advice) = file.oversize_advice() {
            let detail = format!("{} is too large", path.display());
            return DoctorCheck::new("agent.md", CheckStatus::Warn, detail).with_hint(advice);
        }
        match file.read() {
            Ok(snapshot) if !snapshot.problems.is_empty() => {
                let problems: Vec<String> = snapshot.problems.iter().map(ToString::to_string).collect();
                DoctorCheck::new(
                    "agent.md",
                    CheckStatus::Warn,
                    format!("{}: {}", path.display(), problems.join("; ")),
                )
                .with_hint("the next handoff repairs the block and keeps a copy of the file")
            }
            Ok(snapshot) => {
                let state = match snapshot.block.as_deref() {
                    None => "no block yet",
                    Some(text) if text == memory::managed_block::PLACEHOLDER => "the block is empty",
                    Some(_) => {
                        "the block holds a summary, which is removed after the first turn of its thread"
                    }
                };
                DoctorCheck::new("agent.md", CheckStatus::Ok, format!("{}: {state}", path.display()))
            }
            Err(error) => {
                DoctorCheck::new("agent.md", CheckStatus::Warn, error.to_string()).with_hint(error.hint())
            }
        }
    }

    /// Lists pending handoffs, which block other handoffs of their threads.
    async fn pending_check(self) -> DoctorCheck {
        match self.agent.handoffs().pending(None).await {
            Ok(pending) if pending.is_empty() => {
                DoctorCheck::new("handoffs", CheckStatus::Ok, "none is pending")
            }
            Ok(pending) => {
                let lines: Vec<String> = pending
                    .iter()
                    .map(|pending| {
                        format!(
                            "{} (thread {})",
                            pending.proposal.summary_json.title, pending.handoff.parent_thread_id
                        )
                    })
                    .collect();
                DoctorCheck::new(
                    "handoffs",
                    CheckStatus::Warn,
                    format!("{} pending: {}", lines.len(), lines.join("; ")),
                )
                .with_hint("`segue handoff THREAD` shows it again")
            }
            Err(error) => DoctorCheck::new("handoffs", CheckStatus::Fail, error.to_string()),
        }
    }

    /// Checks for runs whose process has exited, and for accepted handoffs whose block is not written yet.
    async fn runs_check(self) -> DoctorCheck {
        let interrupted = match self.agent.store.active_runs(None).await {
            Ok(runs) => runs
                .into_iter()
                .filter(|run| self.agent.runs().is_orphaned(run))
                .map(|run| run.thread_id.to_string())
                .collect::<Vec<_>>(),
            Err(error) => return DoctorCheck::new("runs", CheckStatus::Fail, error.to_string()),
        };
        let unseeded = journal::HandoffFilter {
            statuses: vec![HandoffStatus::Accepted],
            ..journal::HandoffFilter::default()
        };
        let unfinished = match self.agent.store.handoffs(unseeded).await {
            Ok(handoffs) => handoffs.len(),
            Err(error) => return DoctorCheck::new("runs", CheckStatus::Fail, error.to_string()),
        };
        let mut problems = Vec::new();
        if !interrupted.is_empty() {
            problems.push(format!(
                "interrupted, because their process ended, in threads: {}",
                interrupted.join(", ")
            ));
        }
        if unfinished > 0 {
            problems.push(format!("accepted handoffs that are not finished: {unfinished}"));
        }
        if problems.is_empty() {
            return DoctorCheck::new("runs", CheckStatus::Ok, "none is interrupted");
        }
        DoctorCheck::new("runs", CheckStatus::Warn, problems.join("; ")).with_hint(
            "`segue chat -t THREAD` resumes the run where it stopped; the next handoff finishes the others",
        )
    }

    /// Checks whether commands run in a sandbox, and what this system supports.
    async fn sandbox_check(self) -> DoctorCheck {
        let config = self.agent.config.sandbox.clone();
        let network = match config.network {
            SandboxNetwork::Off => "without network",
            SandboxNetwork::On => "with network",
        };
        let mode = config.mode;
        let status = tokio::task::spawn_blocking(move || tools::sandbox_status(&config)).await;
        match (status.unwrap_or(SandboxStatus::Off), mode) {
            (SandboxStatus::Off, _) => DoctorCheck::new(
                "sandbox",
                CheckStatus::Warn,
                "off: an approved command can do everything that you can do",
            )
            .with_hint("remove `mode` of `[sandbox]` in config.toml"),
            (SandboxStatus::Unsupported(_), SandboxMode::Require) => DoctorCheck::new(
                "sandbox",
                CheckStatus::Fail,
                "required, and this system has none: no command runs",
            )
            .with_hint(SANDBOX_HINT),
            (SandboxStatus::Unsupported(_), SandboxMode::Auto | SandboxMode::Off) => DoctorCheck::new(
                "sandbox",
                CheckStatus::Warn,
                "this system has none: an approved command can do everything that you can do",
            )
            .with_hint(SANDBOX_HINT),
            (SandboxStatus::Active(support), _) if support.has_seatbelt => {
                DoctorCheck::new("sandbox", CheckStatus::Ok, format!("sandbox-exec; commands run {network}"))
            }
            (SandboxStatus::Active(support), _) => {
                let abi = support.landlock_abi;
                let parts = format!("Landlock ABI {abi}, a filter of system calls");
                if support.has_namespaces {
                    let detail = format!("{parts}, namespaces; commands run {network}");
                    return DoctorCheck::new("sandbox", CheckStatus::Ok, detail);
                }
                let detail = format!(
                    "{parts}, no namespaces; commands run {network}, and can read files of secrets in the workspace and \
                     change the settings of its git repository"
                );
                DoctorCheck::new("sandbox", CheckStatus::Warn, detail)
                    .with_hint("permit user namespaces, for example with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`")
            }
        }
    }

    /// Checks that the MCP servers and hooks whose settings ask for the sandbox can run. Returns `None` if no settings do.
    async fn sandboxed_programs_check(self) -> Option<DoctorCheck> {
        let config = &self.agent.config;
        let servers = config.mcp.servers.iter().filter(|(_, server)| server.enabled && server.sandbox);
        let servers = servers.map(|(name, server)| (format!("the MCP server `{name}`"), server.network));
        let hooks = config.hooks.iter().filter(|hook| hook.sandbox);
        let hooks = hooks.map(|hook| (format!("the hook `{}`", hook.display_name()), hook.network));
        let programs = servers.chain(hooks).map(|(name, network)| match network {
            true => format!("{name} with network"),
            false => name,
        });
        let programs: Vec<String> = programs.collect();
        if programs.is_empty() {
            return None;
        }
        let sandbox = SandboxConfig { mode: SandboxMode::Require, ..config.sandbox.clone() };
        let status = tokio::task::spawn_blocking(move || tools::sandbox_status(&sandbox)).await;
        let programs = programs.join(", ");
        Some(match status.unwrap_or(SandboxStatus::Off) {
            SandboxStatus::Active(_) => {
                DoctorCheck::new("programs", CheckStatus::Ok, format!("in the sandbox: {programs}"))
            }
            SandboxStatus::Unsupported(_) | SandboxStatus::Off => DoctorCheck::new(
                "programs",
                CheckStatus::Fail,
                format!("not started, because this system has no sandbox: {programs}"),
            )
            .with_hint(SANDBOX_HINT),
        })
    }

    /// Checks that a model can be used.
    fn models_check(self) -> DoctorCheck {
        let status = self.agent.model_status();
        match (status.default, self.agent.models.open_selected()) {
            (Some(name), Ok(Some(_))) => {
                DoctorCheck::new("models", CheckStatus::Ok, format!("{name} is used"))
            }
            (Some(name), Err(error)) => {
                DoctorCheck::new("models", CheckStatus::Fail, format!("{name}: {error}"))
                    .with_hint("`segue models` shows what is missing")
            }
            (_, _) => DoctorCheck::new(
                "models",
                CheckStatus::Warn,
                "none is configured: handoffs use the offline summary",
            )
            .with_hint("`segue models` shows how to set one up"),
        }
    }

    /// Checks the models that settings name for summaries. Returns nothing for a setting that names none.
    fn summarizers_check(self) -> Vec<DoctorCheck> {
        let compaction = self.agent.config.compaction.model.as_deref();
        // For memory, the offline summary is a valid choice and not a problem.
        let memory = self.agent.config.memory.model.as_deref().filter(|name| !is_offline_summary(name));
        let handoff = self.agent.config.handoff.model.as_deref().filter(|name| !is_offline_summary(name));
        let settings = [
            ("handoff.model", handoff, "the model of the run drafts handoffs"),
            ("compaction.model", compaction, "the model of the conversation compacts it"),
            ("memory.model", memory, "old messages get an offline summary"),
        ];
        let check = |(setting, name, fallback): (&'static str, Option<&str>, &str)| {
            let name = name?;
            Some(match self.agent.models.model_problem(name) {
                None => DoctorCheck::new(setting, CheckStatus::Ok, format!("{name} writes summaries")),
                Some(problem) => DoctorCheck::new(
                    setting,
                    CheckStatus::Warn,
                    format!("{name} is not used: failed to {problem}; {fallback}"),
                )
                .with_hint("fix the name in config.toml; `segue models` shows the configured models"),
            })
        };
        settings.into_iter().filter_map(check).collect()
    }
}

/// Returns whether only the owner can access the file.
#[cfg(unix)]
fn is_private(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 == 0
}

/// Returns `true`, because permissions of this kind exist on Unix only.
#[cfg(not(unix))]
const fn is_private(_metadata: &std::fs::Metadata) -> bool {
    true
}
