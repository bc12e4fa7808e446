//! Proposing: when a thread has really grown and fills much of the model's window, the person is told, and chooses what to
//! do about it. When that is the case is a rule of the `handoff` room; without an answer nothing changes.

use agent::Fullness;
use terminal::{Audience, Choice, Typed, ask_amid, tokens, wrap};

use crate::commands::chat::Chat;
use crate::exit::Failure;

/// What can be done about a full context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    HandOff,
    Compact,
    GoOn,
}

const WAYS: [Choice<Way>; 3] = [
    Choice { key: 'h', label: "Hand off", answer: Way::HandOff },
    Choice { key: 'c', label: "Compact here", answer: Way::Compact },
    Choice { key: 'g', label: "Go on", answer: Way::GoOn },
];

impl Chat {
    /// Proposes what can be done about a thread that is `full`, once for each real growth. Whoever has typed ahead, or has
    /// something else to decide, is not asked before that is done.
    ///
    /// # Errors
    /// When the terminal fails; what else fails is told, and the conversation goes on.
    pub(super) async fn propose(&mut self, full: Option<Fullness>) -> Result<(), Failure> {
        let (Some(full), Some(thread)) = (full.filter(|full| full.is_due), &self.thread) else {
            return Ok(());
        };
        let (thread_id, agent, screen) = (thread.thread_id, &self.context.agent, &self.context.screen);
        if screen.audience == Audience::Program || self.typed != Typed::default() {
            return Ok(());
        }
        match agent.runs().pending_interrupts(thread_id).await {
            Ok(pending) if pending.is_empty() => {}
            Ok(_) => return Ok(()),
            Err(error) => return self.tell(error.into()),
        }
        screen.line(screen.style.warn(wrap(&told(&full), screen.text_columns(), "", "")))?;
        let way = ask_amid(screen, &WAYS, "Not now", &mut self.typed)?;
        if let Err(error) = agent.handoffs().proposed_at(thread_id, full.tokens).await {
            self.tell(error.into())?;
        }
        let done = match way {
            Some(Way::HandOff) => self.handoff(&[]).await,
            Some(Way::Compact) => self.compact(&[]).await,
            Some(Way::GoOn) | None => Ok(()),
        };
        match done {
            Ok(()) => Ok(()),
            Err(failure) => self.tell(failure),
        }
    }
}

/// Returns what a person is told.
fn told(full: &Fullness) -> String {
    let percent = (full.tokens * 100).div_ceil(full.window_tokens.max(1));
    format!(
        "This thread fills {percent} % of the model's window ({} of {} tokens). A handoff takes what matters into a fresh \
         thread, with a summary you review; this one stays as it is. Compacting goes on here: the model is sent a summary in \
         place of what is older, and you keep all of it.",
        tokens(full.tokens),
        tokens(full.window_tokens)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m15_a_person_is_told_how_full_it_is() {
        let full = Fullness { tokens: 150_400, window_tokens: 200_000, is_due: true };
        let text = told(&full);
        assert!(text.contains("fills 76 % of the model's window (150.4k of 200.0k tokens)"), "{text}");
    }
}
