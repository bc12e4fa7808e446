//! The growth prompt: when a thread fills much of the model's context window, it offers a handoff or a compaction. A rule of
//! the `handoff` crate decides when the prompt is due. Without an answer nothing changes.

use agent::ContextUsage;
use terminal::{Audience, KeyChoice, TypeAheadBuffer, ask_while_typing, format_tokens, wrap};

use crate::commands::chat::ChatSession;
use crate::exit::CliFailure;

/// An answer to the growth prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrowthAction {
    /// Draft a handoff of this thread.
    HandOff,
    /// Compact the older messages of this thread.
    Compact,
    /// Change nothing.
    Continue,
}

/// The answers of the growth prompt with their keys.
const GROWTH_CHOICES: [KeyChoice<GrowthAction>; 3] = [
    KeyChoice { key: 'h', label: "Hand off", answer: GrowthAction::HandOff },
    KeyChoice { key: 'c', label: "Compact here", answer: GrowthAction::Compact },
    KeyChoice { key: 'g', label: "Continue", answer: GrowthAction::Continue },
];

impl ChatSession {
    /// Shows the growth prompt if `usage` says that it is due, and performs the answer.
    ///
    /// The prompt is deferred while lines are typed ahead or a question is pending. The thread's current size is
    /// recorded, so the prompt appears once for each significant growth.
    ///
    /// # Errors
    /// Fails only if the terminal cannot be read or written. Other failures are printed, and the chat continues.
    pub(super) async fn propose_growth_action(
        &mut self,
        usage: Option<ContextUsage>,
    ) -> Result<(), CliFailure> {
        let (Some(usage), Some(thread)) = (usage.filter(|usage| usage.is_due), &self.thread) else {
            return Ok(());
        };
        let (thread_id, agent, screen) = (thread.thread_id, &self.context.agent, &self.context.screen);
        if screen.audience == Audience::Program || self.type_ahead != TypeAheadBuffer::default() {
            return Ok(());
        }
        match agent.runs().pending_interrupts(thread_id).await {
            Ok(pending) if pending.is_empty() => {}
            Ok(_) => return Ok(()),
            Err(error) => return self.report_failure(error.into()),
        }
        screen.print_line(screen.style.warn(wrap(&growth_notice(&usage), screen.text_columns(), "", "")))?;
        let action = ask_while_typing(screen, &GROWTH_CHOICES, "Not now", &mut self.type_ahead)?;
        if let Err(error) = agent.handoffs().record_proposed_size(thread_id, usage.tokens).await {
            self.report_failure(error.into())?;
        }
        let result = match action {
            Some(GrowthAction::HandOff) => self.run_handoff(&[]).await,
            Some(GrowthAction::Compact) => self.run_compact(&[]).await,
            Some(GrowthAction::Continue) | None => Ok(()),
        };
        match result {
            Ok(()) => Ok(()),
            Err(failure) => self.report_failure(failure),
        }
    }
}

/// Returns the text above the question. The percentage is rounded up.
/// The text explains both answers, because the user may see the prompt for the first time.
fn growth_notice(usage: &ContextUsage) -> String {
    let percent = (usage.tokens * 100).div_ceil(usage.window_tokens.max(1));
    format!(
        "This thread fills {percent} % of the model's window ({} of {} tokens). A handoff continues in a fresh thread \
         with a summary that you review; this thread does not change. A compaction continues in this thread: the model \
         gets a summary instead of the older messages, and you keep all of them.",
        format_tokens(usage.tokens),
        format_tokens(usage.window_tokens)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m15_the_growth_prompt_says_how_full_the_window_is() {
        let usage = ContextUsage { tokens: 150_400, window_tokens: 200_000, is_due: true };
        let text = growth_notice(&usage);
        assert!(text.contains("fills 76 % of the model's window (150.4k of 200.0k tokens)"), "{text}");
    }
}
