//! The status of a conversation on one line: the model, how full its window is, what was spent, what waits. It is shown
//! before a line is read, and changes nothing.

use agent::{ContextReport, CostReport};
use protocol::ThreadId;

use crate::commands::{Context, approval};
use crate::exit::Failure;
use crate::terminal::text::safe::one_line;
use crate::terminal::text::wrap::wrap;
use crate::terminal::work::stream::Spent;

/// Shows where the thread stands; a part that cannot be worked out is left out.
///
/// # Errors
/// When stdout cannot be written to.
pub(super) async fn show(
    context: &Context,
    thread_id: ThreadId,
    spent: Option<&Spent>,
) -> Result<(), Failure> {
    let agent = &context.agent;
    let mut parts: Vec<String> = Vec::new();
    let model = spent.and_then(|spent| spent.model.clone()).or_else(|| agent.models().default);
    parts.extend(model.map(|model| one_line(&model)));
    parts.extend(agent.context(thread_id).await.ok().as_ref().and_then(share));
    parts.extend(spent.and_then(turn));
    parts.extend(agent.cost(thread_id).await.ok().as_ref().and_then(thread));
    let (screen, style) = (&context.screen, context.screen.style);
    let line = wrap(&parts.join(" · "), screen.columns.saturating_sub(1), "", "  ");
    if !parts.is_empty() {
        screen.line(style.dim(line))?;
    }
    if let Some(waits) = waiting(context, thread_id).await {
        screen.line(style.warn(wrap(&waits, screen.columns.saturating_sub(1), "", "  ")))?;
    }
    Ok(())
}

/// Returns how full the window is.
fn share(report: &ContextReport) -> Option<String> {
    let window = report.window_tokens.filter(|window| *window > 0)?;
    Some(format!("ctx {} %", (report.tokens * 100).div_ceil(window)))
}

/// Returns what the turn took.
fn turn(spent: &Spent) -> Option<String> {
    let usage = spent.usage;
    if usage.total_tokens() == 0 {
        return None;
    }
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({} cached)", tokens(cached)),
    };
    Some(format!("{} in{cached} · {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)))
}

/// Returns what the thread took so far.
fn thread(report: &CostReport) -> Option<String> {
    let total: u64 = report.models.iter().map(|model| model.usage.total_tokens()).sum();
    if total == 0 {
        return None;
    }
    Some(match report.dollars {
        Some(dollars) => format!("thread {} tokens · {}", tokens(total), self::dollars(dollars)),
        None => format!("thread {} tokens", tokens(total)),
    })
}

/// Returns what waits for the person, and how to come to it.
async fn waiting(context: &Context, thread_id: ThreadId) -> Option<String> {
    let pending = context.agent.pending(thread_id).await.ok()?;
    let calls = pending.iter().filter(|interrupt| approval::is_about_calls(interrupt)).count();
    match (calls, pending.len() - calls) {
        (0, 0) => None,
        (0, _) => Some("A handoff waits for a decision: /handoff shows it.".to_owned()),
        (_, _) => Some("A tool call waits for a decision: /approve shows it.".to_owned()),
    }
}

/// Returns a number of tokens in a few characters.
pub(super) fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Returns an amount of money.
pub(super) fn dollars(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.01 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (tokens(9_999), tokens(12_340), tokens(2_560_000)),
            ("9999".into(), "12.3k".into(), "2.5M".into())
        );
        assert_eq!(
            (dollars(0.0), dollars(0.0012), dollars(1.5)),
            ("$0.00".into(), "$0.0012".into(), "$1.50".into())
        );
    }

    #[test]
    fn the_share_of_the_window_is_never_told_too_small() {
        let report = |tokens, window| ContextReport {
            model: String::new(),
            window_tokens: window,
            parts: Vec::new(),
            tokens,
            message_count: 0,
        };
        assert_eq!(share(&report(1, Some(200_000))).as_deref(), Some("ctx 1 %"));
        assert_eq!(share(&report(100_000, Some(200_000))).as_deref(), Some("ctx 50 %"));
        assert_eq!(share(&report(1, None)), None);
    }
}
