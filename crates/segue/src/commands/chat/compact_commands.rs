//! The chat's commands about compaction: `/compact`, `/uncompact` and `/context`. They have the same effect as `segue
//! compact`, `segue uncompact` and `segue context`.

use terminal::TurnTotals;
use terminal::context_window::render_report;

use crate::commands::chat::ChatSession;
use crate::commands::compact::{self, CompactOptions, CompactOutcome, CompactionMode};
use crate::exit::{CliFailure, ExitReason};

/// The hint after a compaction.
const ORIGINALS_HINT: &str = "The messages are kept: /history --expand shows them, /uncompact undoes it.";

impl ChatSession {
    /// Performs `/compact`: compacts the older messages of the current thread.
    ///
    /// # Errors
    /// Fails if the arguments are invalid, or if the compaction fails. A compaction that the user stops is not a
    /// failure.
    pub(super) async fn run_compact(&mut self, words: &[&str]) -> Result<(), CliFailure> {
        let options = parse_args(words)?;
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        self.context.screen.update_width();
        // The totals are read from the journal again, because the compaction adds to the cost.
        self.thread_totals = None;
        self.is_status_stale = true;
        let mut totals = TurnTotals::default();
        let outcome =
            compact::compact_thread(&self.context, thread_id, options, &mut self.type_ahead, &mut totals)
                .await;
        if !matches!(outcome, Ok(Some(CompactOutcome::Compacted(_)))) {
            // Lines that were typed ahead may rely on the smaller context, so they are not sent unseen.
            self.type_ahead.hold_queued_lines();
        }
        let Some(outcome) = outcome? else { return self.print_info(compact::STOPPED_NOTICE) };
        self.context.screen.print_lines(compact::result_lines(&self.context.screen, &outcome))?;
        match &outcome {
            CompactOutcome::Compacted(compacted) if compacted.is_stored => {
                // A compaction makes the thread's old messages due for summarization too.
                self.background.start(&self.context.agent);
                self.print_info(ORIGINALS_HINT)
            }
            CompactOutcome::Compacted(_) | CompactOutcome::NothingToCompact(_) => Ok(()),
        }
    }

    /// Performs `/uncompact`: undoes the newest compaction of the current thread.
    ///
    /// # Errors
    /// Fails if there are arguments, or if the undo cannot be stored.
    pub(super) async fn run_uncompact(&mut self, words: &[&str]) -> Result<(), CliFailure> {
        if let Some(word) = words.first() {
            let problem = format!("read /uncompact: it has no argument `{word}`");
            return Err(CliFailure::new(ExitReason::User, problem)
                .with_hint("/uncompact always undoes the newest compaction"));
        }
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let undone = match self.context.agent.threads().undo_compaction(thread_id).await {
            Err(agent::Error::Thread(agent::ThreadError::NothingToUndo(_))) => {
                return self.print_info("There is nothing to undo: this thread has no compaction.");
            }
            undone => undone?,
        };
        self.is_status_stale = true;
        self.print_info(&compact::uncompacted_text(&undone))
    }

    /// Performs `/context`: shows what fills the model's context window.
    pub(super) async fn show_context_window(&self) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let report = compact::context_report(&self.context, thread_id).await?;
        self.context.screen.print_lines(render_report(&self.context.screen, &report))?;
        Ok(())
    }
}

/// Parses the arguments of `/compact`. Words that are not options form the focus.
///
/// # Errors
/// Fails if an option is unknown or `--keep` has no positive number.
fn parse_args(words: &[&str]) -> Result<CompactOptions, CliFailure> {
    let mut options = CompactOptions::default();
    let mut focus: Vec<&str> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--preview" => options.mode = CompactionMode::Preview,
            "--keep" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                options.keep = Some(number.ok_or_else(|| usage_error("`--keep` needs a number, 1 or more"))?);
            }
            word if word.starts_with("--") => {
                return Err(usage_error(&format!("there is no option `{word}`")));
            }
            word => focus.push(word),
        }
    }
    options.focus = Some(focus.join(" ")).filter(|focus| !focus.is_empty());
    Ok(options)
}

/// Returns the failure for invalid arguments of `/compact`.
fn usage_error(reason: &str) -> CliFailure {
    CliFailure::new(ExitReason::User, format!("read /compact: {reason}"))
        .with_hint("/compact [focus…] [--preview] [--keep N]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e16_compact_takes_a_focus_and_options_in_any_order() {
        let check = |line: &str, focus: Option<&str>, keep: Option<u64>, mode: CompactionMode| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let expected = CompactOptions { focus: focus.map(str::to_owned), keep, mode };
            assert_eq!(parse_args(&words).unwrap(), expected, "{line}");
        };
        check("", None, None, CompactionMode::Store);
        check("the API and why", Some("the API and why"), None, CompactionMode::Store);
        check("--keep 4 the API --preview", Some("the API"), Some(4), CompactionMode::Preview);
        for invalid in ["--keep", "--keep x", "--keep 0", "--prewiev"] {
            assert!(parse_args(&invalid.split_whitespace().collect::<Vec<_>>()).is_err(), "{invalid}");
        }
    }
}
