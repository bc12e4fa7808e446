//! `segue db`: migrates, copies, backs up and salvages a whole database. It opens no agent.

use std::path::PathBuf;
use std::str::FromStr;

use agent::{
    BackupReport, CancellationToken, CopyOutcome, CopyReport, DatabaseAddress, FrameSender, LostEvents,
    LostRows, SalvageReport,
};
use jiff::Timestamp;
use serde_json::json;
use terminal::{ProgressUnit, Screen, sanitize_line, sanitize_path};

use crate::cli::database::{DbCommand, DbCopyArgs, DbSalvageArgs};
use crate::cli::{GlobalArgs, OutputFormat};
use crate::commands::agent_work::{progress_display, run_with_bar};
use crate::commands::import::format_count;
use crate::commands::{AgentOptions, agent_settings};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// Performs `segue db`.
///
/// # Errors
/// Fails if a URL is invalid, a database cannot be used, the source of a copy changes, or the user stops the work.
pub(crate) async fn run(global: &GlobalArgs, args: DbCommand) -> CommandResult {
    let settings = agent_settings(global, AgentOptions::default())?;
    let output = DatabaseOutput { screen: global.screen(), format: global.format() };
    let default_address = || settings.database_address();
    match args {
        DbCommand::Migrate => {
            settings.home.create()?;
            output.migrate(&default_address()?).await
        }
        DbCommand::Copy(DbCopyArgs { from, to }) => {
            let parse_or_default =
                |url: Option<String>| url.map_or_else(default_address, |url| DatabaseAddress::from_str(&url));
            output.copy(&parse_or_default(from)?, &parse_or_default(to)?).await
        }
        DbCommand::Backup { to } => {
            let path = match to {
                Some(path) => path,
                None => agent::backup_path(&settings.home, Timestamp::now())?,
            };
            output.back_up(&default_address()?, path).await
        }
        DbCommand::Salvage(DbSalvageArgs { file, to }) => output.salvage(file, to).await,
    }
}

/// Performs the subcommands and prints their results.
struct DatabaseOutput {
    /// The screen for text output.
    screen: Screen,
    /// The format of the results.
    format: OutputFormat,
}

impl DatabaseOutput {
    /// Migrates the schema of a database to the version of this program.
    ///
    /// # Errors
    /// Fails if the database cannot be opened or a migration fails.
    async fn migrate(&self, database: &DatabaseAddress) -> CommandResult {
        let (location, versions) = database.migrate().await?;
        let text = match (versions.from, versions.to) {
            (from, to) if from == to => format!("{location} is up to date: schema {to}."),
            (0, to) => format!("{location}: schema {to} was created."),
            (from, to) => format!("{location}: schema {from} was migrated to {to}."),
        };
        self.print_result(&json!({"location": location, "from": versions.from, "to": versions.to}), &text)
    }

    /// Copies everything from one database into another. An interrupted copy continues when the command is run again.
    ///
    /// # Errors
    /// Fails if a database cannot be used, if the copy is stopped, or if the source was written to meanwhile.
    async fn copy(&self, from: &DatabaseAddress, to: &DatabaseAddress) -> CommandResult {
        let copied = self
            .run_with_progress(ProgressUnit::Steps, async |frames, cancel| {
                from.copy_to(to, &frames, &cancel).await
            })
            .await??;
        match copied.outcome {
            CopyOutcome::Whole => self.print_result(&serde_json::to_value(&copied)?, &copy_text(&copied)),
            CopyOutcome::Stopped => Err(CliFailure::cancelled("copy everything")
                .with_hint("run the same command to continue where this one stopped")),
            CopyOutcome::SourceChanged => {
                let problem = format!("finish the copy of {}: it was written to meanwhile", copied.from);
                Err(CliFailure::new(ExitReason::Conflict, problem).with_hint(
                    "stop the programs that write to it, and run the same command again: it copies the changes",
                ))
            }
        }
    }

    /// Backs up a database into a file.
    /// The file is complete or does not exist: a stopped backup leaves no file.
    async fn back_up(&self, from: &DatabaseAddress, path: PathBuf) -> CommandResult {
        let backup = self
            .run_with_progress(ProgressUnit::Bytes, async |frames, cancel| {
                from.back_up(path, &frames, &cancel).await
            })
            .await??;
        match backup {
            Some(BackupReport { from, path, bytes }) => {
                let size = indicatif::HumanBytes(bytes);
                let text = format!("{from} is backed up in {} ({size}).", sanitize_path(&path));
                self.print_result(&json!({"from": from, "path": path, "bytes": bytes}), &text)
            }
            None => Err(CliFailure::cancelled("back everything up").with_hint("no file was written")),
        }
    }

    /// Saves everything that is intact in a damaged file into a new file. A stopped salvage leaves no file.
    ///
    /// # Errors
    /// Fails if the new file exists or cannot be written, or if nothing of the damaged file can be read.
    async fn salvage(&self, from: PathBuf, to: PathBuf) -> CommandResult {
        let report = self
            .run_with_progress(ProgressUnit::Steps, async |frames, cancel| {
                agent::salvage_database(from, to, &frames, &cancel).await
            })
            .await??;
        match report {
            Some(report) if self.format == OutputFormat::Json => {
                self.print_result(&serde_json::to_value(&report)?, "")
            }
            Some(report) => {
                for line in salvage_lines(&report) {
                    self.screen.print_line(sanitize_line(&line))?;
                }
                Ok(ExitReason::Success)
            }
            None => Err(CliFailure::cancelled("salvage the database").with_hint("no file was written")),
        }
    }

    /// Performs long work with a progress bar. Ctrl-C stops it.
    ///
    /// # Errors
    /// Fails if the user does not wait for the work to stop.
    async fn run_with_progress<T, W: Future<Output = T>>(
        &self,
        unit: ProgressUnit,
        work: impl FnOnce(FrameSender, CancellationToken) -> W,
    ) -> Result<T, CliFailure> {
        run_with_bar(progress_display(&self.screen, self.format, unit), work).await
    }

    /// Prints a result as text or JSON.
    fn print_result(&self, json: &serde_json::Value, text: &str) -> CommandResult {
        match self.format {
            OutputFormat::Json => self.screen.print_line(json)?,
            // The text is not wrapped, so that paths and URLs in it can be copied.
            OutputFormat::Text => self.screen.print_line(sanitize_line(text))?,
        }
        Ok(ExitReason::Success)
    }
}

/// Returns sentences about a salvage: the saved rows, and each loss.
fn salvage_lines(report: &SalvageReport) -> Vec<String> {
    let SalvageReport { threads, events, to, lost_events, lost_rows, problems, .. } = report;
    let (threads, events) = (format_count(*threads, "thread"), format_count(*events, "event"));
    let mut lines = vec![format!("{threads} and {events} are saved in {}.", to.display())];
    for LostEvents { thread_id, ranges } in lost_events {
        let ranges = ranges.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}–{last}"),
        });
        lines.push(format!("Lost events of thread {thread_id}: {}", ranges.collect::<Vec<_>>().join(", ")));
    }
    for LostRows { table, unreadable, rejected } in lost_rows {
        lines.push(format!(
            "Lost rows of table {table}: {} could not be read, {} referred to lost rows",
            format_count(*unreadable, "place"),
            format_count(*rejected, "row")
        ));
    }
    lines.extend(problems.iter().map(|problem| format!("Problem: {problem}")));
    if lines.len() == 1 {
        lines.push("Nothing was lost.".to_owned());
    }
    lines
}

/// Returns a sentence about a complete copy.
fn copy_text(copied: &CopyReport) -> String {
    let rows: u64 = copied.tables.iter().map(|table| table.rows).sum();
    let changes = match copied.changed_rows {
        0 => String::new(),
        changed => {
            format!(
                "; {} had changed since an earlier copy and were copied again",
                format_count(changed, "row")
            )
        }
    };
    format!(
        "{} is copied into {}: {} in {}, each compared{changes}.",
        copied.from,
        copied.to,
        format_count(rows, "row"),
        format_count(copied.tables.len() as u64, "table")
    )
}
