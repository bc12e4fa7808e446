//! The doctor: looks at everything a handoff relies on and says what is wrong and what to do. It changes nothing.

use journal::{HealthDepth, PoolFigures};
use memory::AgentFile;
use protocol::HandoffStatus;
use serde::Serialize;

use crate::agent::services::AdminService;
use crate::assembly::models::is_offline;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Works, but a person should know.
    Warn,
    /// Does not work.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    pub verdict: Verdict,
    /// One line.
    pub detail: String,
    /// What to do, when something is wrong.
    pub hint: Option<String>,
}

impl Check {
    /// Returns a finding.
    pub fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { name, verdict, detail: detail.into(), hint: None }
    }

    /// Sets what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl AdminService<'_> {
    /// Looks at the home folder, the database, the block, pending handoffs, cut-off runs and models.
    pub async fn doctor(self) -> Vec<Check> {
        let mut checks = vec![self.home_check(), self.database_check().await, self.block_check()];
        checks.extend(self.token_check());
        checks.extend(self.connections_check());
        checks.push(self.pending_check().await);
        checks.push(self.runs_check().await);
        checks.push(self.models_check());
        checks.extend(self.summarisers_check());
        checks.extend(self.agent.handoffs().mirror_check().await);
        checks
    }

    fn home_check(self) -> Check {
        let root = self.agent.settings.home.root();
        let detail = root.display().to_string();
        match std::fs::metadata(root) {
            Ok(metadata) if is_private(&metadata) => Check::new("home", Verdict::Ok, detail),
            Ok(_) => Check::new("home", Verdict::Warn, format!("{detail} can be read by others"))
                .with_hint(format!("chmod 700 {detail}")),
            Err(error) => Check::new("home", Verdict::Fail, format!("{detail}: {error}")),
        }
    }

    /// Looks at the install token; without one nobody has served yet, and there is nothing to say.
    fn token_check(self) -> Option<Check> {
        let path = self.agent.settings.home.token();
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        let detail = path.display().to_string();
        Some(match metadata.is_file() && is_private(&metadata) {
            true => Check::new("token", Verdict::Ok, format!("{detail}: only you can read it")),
            false => {
                Check::new("token", Verdict::Fail, format!("{detail} can be read by others, or is no file"))
                    .with_hint(format!("remove {detail}: the next `segue serve` makes a new token"))
            }
        })
    }

    async fn database_check(self) -> Check {
        match self.agent.store.health(HealthDepth::Integrity).await {
            Ok(health) if health.problems.is_empty() => Check::new(
                "database",
                Verdict::Ok,
                format!(
                    "{}: schema {}, {} threads, {} events, {} bytes",
                    health.location, health.schema_version, health.threads, health.events, health.bytes
                ),
            ),
            Ok(health) => Check::new("database", Verdict::Fail, health.problems.join("; ")).with_hint(
                match self.connections() {
                    None => format!("copy {} away before anything else writes to it", health.location),
                    Some(_) => "`segue db backup` saves what can be read, before anything else writes to it"
                        .to_owned(),
                },
            ),
            Err(error) => Check::new("database", Verdict::Fail, error.to_string()),
        }
    }

    /// Looks at the connections to the database's server; where it is a file there are none.
    fn connections_check(self) -> Option<Check> {
        let PoolFigures { connections, idle, max, gets, waited, timed_out, broken, .. } =
            self.connections()?;
        let detail = format!(
            "{connections} of {max} ({idle} idle); asked for {gets} times, waited for {waited}, in vain {timed_out}; {broken} broke"
        );
        Some(match timed_out {
            0 => Check::new("pool", Verdict::Ok, detail),
            _ => Check::new("pool", Verdict::Warn, detail).with_hint(
                "raise `[database] max_connections`, as far as the server's max_connections allows",
            ),
        })
    }

    fn block_check(self) -> Check {
        let path = self.agent.settings.home.agent_md(&self.agent.settings.assistant_id);
        match AgentFile::new(path.clone()).read() {
            Ok(snapshot) if !snapshot.problems.is_empty() => {
                let problems: Vec<String> = snapshot.problems.iter().map(ToString::to_string).collect();
                Check::new("agent.md", Verdict::Warn, format!("{}: {}", path.display(), problems.join("; ")))
                    .with_hint("the next handoff repairs the block and keeps a copy of the file")
            }
            Ok(snapshot) => {
                let state = match snapshot.block.as_deref() {
                    None => "no block yet",
                    Some(text) if text == memory::block::PLACEHOLDER => "the block is empty",
                    Some(_) => "the block holds the summary of a thread that has not had its first turn",
                };
                Check::new("agent.md", Verdict::Ok, format!("{}: {state}", path.display()))
            }
            Err(error) => Check::new("agent.md", Verdict::Warn, error.to_string()).with_hint(error.hint()),
        }
    }

    async fn pending_check(self) -> Check {
        match self.agent.handoffs().pending(None).await {
            Ok(pending) if pending.is_empty() => Check::new("handoffs", Verdict::Ok, "none is pending"),
            Ok(pending) => {
                let lines: Vec<String> = pending
                    .iter()
                    .map(|pending| {
                        format!(
                            "{} of thread {}",
                            pending.proposal.summary_json.title, pending.handoff.parent_thread_id
                        )
                    })
                    .collect();
                Check::new(
                    "handoffs",
                    Verdict::Warn,
                    format!("{} wait for a decision: {}", lines.len(), lines.join("; ")),
                )
                .with_hint("`segue handoff THREAD` shows it again")
            }
            Err(error) => Check::new("handoffs", Verdict::Fail, error.to_string()),
        }
    }

    async fn runs_check(self) -> Check {
        let cut_off = match self.agent.store.active_runs(None).await {
            Ok(runs) => runs
                .into_iter()
                .filter(|run| self.agent.runs().is_cut_off(run))
                .map(|run| run.thread_id.to_string())
                .collect::<Vec<_>>(),
            Err(error) => return Check::new("runs", Verdict::Fail, error.to_string()),
        };
        let unseeded = journal::HandoffFilter {
            statuses: vec![HandoffStatus::Accepted],
            ..journal::HandoffFilter::default()
        };
        let unfinished = match self.agent.store.handoffs(unseeded).await {
            Ok(handoffs) => handoffs.len(),
            Err(error) => return Check::new("runs", Verdict::Fail, error.to_string()),
        };
        let mut found = Vec::new();
        if !cut_off.is_empty() {
            found.push(format!("cut off in {}", cut_off.join(", ")));
        }
        if unfinished > 0 {
            found.push(format!("{unfinished} accepted handoffs are not finished"));
        }
        if found.is_empty() {
            return Check::new("runs", Verdict::Ok, "none was cut off");
        }
        Check::new("runs", Verdict::Warn, found.join("; ")).with_hint(
            "`segue chat -t THREAD` goes on where it stopped; the next handoff finishes the others",
        )
    }

    fn models_check(self) -> Check {
        let status = self.agent.models();
        match (status.default, self.agent.models.open()) {
            (Some(name), Ok(Some(_))) => Check::new("models", Verdict::Ok, format!("{name} is used")),
            (Some(name), Err(error)) => Check::new("models", Verdict::Fail, format!("{name}: {error}"))
                .with_hint("`segue models` shows what is missing"),
            (_, _) => {
                Check::new("models", Verdict::Warn, "none is configured: handoffs use the offline extract")
                    .with_hint("`segue models` shows how to set one up")
            }
        }
    }

    /// Looks at the models that settings name for summaries; nothing is said where none is named.
    fn summarisers_check(self) -> Vec<Check> {
        let compaction = self.agent.config.compaction.model.as_deref();
        // For memory the extract is a choice like another.
        let memory = self.agent.config.memory.model.as_deref().filter(|name| !is_offline(name));
        let named = [
            ("compaction.model", compaction, "the model of the conversation condenses it"),
            ("memory.model", memory, "old turns are extracted"),
        ];
        let check = |(setting, name, instead): (&'static str, Option<&str>, &str)| {
            let name = name?;
            Some(match self.agent.models.fault(name) {
                None => Check::new(setting, Verdict::Ok, format!("{name} writes summaries")),
                Some(fault) => Check::new(
                    setting,
                    Verdict::Warn,
                    format!("{name} is not used: failed to {fault}; {instead}"),
                )
                .with_hint("mend the name in config.toml; `segue models` shows what is configured"),
            })
        };
        named.into_iter().filter_map(check).collect()
    }
}

#[cfg(unix)]
fn is_private(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 == 0
}

#[cfg(not(unix))]
const fn is_private(_metadata: &std::fs::Metadata) -> bool {
    true
}
