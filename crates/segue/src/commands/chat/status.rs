//! The status of a conversation on one line: the model, how full its window is, what was spent, what waits. It is shown
//! before a line is read, and changes nothing.

use agent::{Agent, CostReport, Fullness};
use protocol::{Seq, Thread, ThreadId, Usage};
use terminal::{Audience, Spent, dollars, one_line, shorten, tokens, width, wrap};

use crate::commands::{Context, approval};
use crate::exit::Failure;

/// What a thread with more events has cost is not read before its first prompt.
const READ_AT_ONCE_EVENTS_MAX: Seq = 2_000;
/// How full a thread with more events is, is not worked out before its first prompt: it would be noticed.
const MEASURED_AT_ONCE_EVENTS_MAX: Seq = 20_000;
/// On a screen with fewer columns things are said more shortly.
const NARROW_COLUMNS: usize = 80;
/// What stands between two parts.
const SEPARATOR: &str = " · ";
/// The fewest columns the first part is shortened to beside the second.
const FIRST_COLUMNS_MIN: usize = 8;

/// What a thread has taken so far, sub-agents included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Total {
    tokens: u64,
    /// `None` where a price is not known.
    dollars: Option<f64>,
}

impl Total {
    fn of(report: &CostReport) -> Self {
        let tokens = report.models.iter().map(|model| model.usage.total_tokens()).sum();
        Self { tokens, dollars: report.dollars }
    }

    /// Adds what a run took.
    pub(super) fn add(&mut self, agent: &Agent, spent: &Spent) {
        self.add_usage(agent, spent.model.as_deref(), &spent.usage);
        for (model, usage) in &spent.subagents {
            self.add_usage(agent, model.as_deref(), usage);
        }
    }

    fn add_usage(&mut self, agent: &Agent, model: Option<&str>, usage: &Usage) {
        if usage.total_tokens() == 0 {
            return;
        }
        self.tokens += usage.total_tokens();
        let price = model.and_then(|model| agent.admin().price_of(model, usage));
        self.dollars = self.dollars.zip(price).map(|(sum, price)| sum + price);
    }
}

/// Shows where the thread stands, on one line; a part that cannot be worked out is left out, and so are the last ones
/// where they do not fit. The whole thread is read only where `total` is not known, and of a long one only once
/// something was said: whoever enters it wants to write. Returns how full the thread's context is, as far as that was
/// worked out.
pub(super) async fn show(
    context: &Context,
    thread: &Thread,
    spent: Option<&Spent>,
    total: &mut Option<Total>,
) -> Result<Option<Fullness>, Failure> {
    let (agent, thread_id) = (&context.agent, thread.thread_id);
    let is_read = total.is_some() || spent.is_some() || thread.last_seq <= READ_AT_ONCE_EVENTS_MAX;
    if total.is_none() && is_read {
        *total = agent.threads().cost_report(thread_id).await.ok().as_ref().map(Total::of);
    }
    let model = spent.and_then(|spent| spent.model.clone()).or_else(|| agent.models().default);
    let mut parts: Vec<String> = Vec::new();
    let is_narrow = context.screen.columns < NARROW_COLUMNS;
    parts.extend(model.map(|model| match model.split_once('/') {
        Some((_, name)) if is_narrow => one_line(name),
        Some(_) | None => one_line(&model),
    }));
    let full = match is_read || thread.last_seq <= MEASURED_AT_ONCE_EVENTS_MAX {
        true => agent.handoffs().fullness(thread_id).await.ok().flatten(),
        false => None,
    };
    parts.extend(full.as_ref().map(share));
    parts.extend(total.as_ref().and_then(price));
    parts.extend(spent.and_then(|spent| turn(spent, context.screen.columns)));
    parts.extend(total.as_ref().and_then(in_all));
    let (screen, style) = (&context.screen, context.screen.style);
    let columns = screen.columns.saturating_sub(1);
    if !parts.is_empty() {
        screen.line(style.dim(fitted(&parts, columns)))?;
    }
    if let Some(waits) = waiting(context, thread_id).await {
        screen.line(style.warn(wrap(&waits, columns, "", "  ")))?;
    }
    Ok(full)
}

/// Returns as many of the parts as fit on a line. The first one, which may be long, gives way to the second: of it at least
/// the beginning is shown.
fn fitted(parts: &[String], columns: usize) -> String {
    let whole = |count: &usize| width(&parts[..*count].join(SEPARATOR)) <= columns;
    match ((1..=parts.len()).rev().find(whole), parts) {
        (Some(count), _) if count > 1 || parts.len() == 1 => parts[..count].join(SEPARATOR),
        (_, [first, second, ..]) => {
            let rest = format!("{SEPARATOR}{second}");
            match columns.checked_sub(width(&rest)).filter(|left| *left >= FIRST_COLUMNS_MIN) {
                Some(left) => format!("{}{rest}", shorten(first, left)),
                None => shorten(first, columns).into_owned(),
            }
        }
        (_, _) => shorten(&parts.concat(), columns).into_owned(),
    }
}

/// Returns how full the window is.
fn share(full: &Fullness) -> String {
    format!("ctx {} %", (full.tokens * 100).div_ceil(full.window_tokens.max(1)))
}

/// Returns what the turn took.
fn turn(spent: &Spent, columns: usize) -> Option<String> {
    let mut usage = spent.usage;
    spent.subagents.iter().for_each(|(_, more)| usage.add(*more));
    if usage.total_tokens() == 0 {
        return None;
    }
    let cached = match usage.cache_read_tokens {
        _ if columns < NARROW_COLUMNS => String::new(),
        0 => String::new(),
        cached => format!(" ({} cached)", tokens(cached)),
    };
    Some(format!("{} in{cached} · {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)))
}

/// Returns what the thread cost so far.
fn price(total: &Total) -> Option<String> {
    total.dollars.filter(|_| total.tokens > 0).map(dollars)
}

/// Returns how many tokens the thread took so far.
fn in_all(total: &Total) -> Option<String> {
    (total.tokens > 0).then(|| format!("thread {} tokens", tokens(total.tokens)))
}

/// Returns what waits for the person, and how to come to it. A program cannot be asked in the chat.
pub(super) async fn waiting(context: &Context, thread_id: ThreadId) -> Option<String> {
    let pending = context.agent.runs().pending_interrupts(thread_id).await.ok()?;
    let asked = pending.iter().find(|interrupt| approval::is_about_calls(interrupt));
    match asked {
        None if pending.is_empty() => None,
        None => Some("A handoff waits for a decision: /handoff shows it.".to_owned()),
        Some(asked) if context.screen.audience == Audience::Program => {
            let (id, calls) = (asked.interrupt_id, approval::call_lines(asked).join("; "));
            Some(format!("A tool call waits: `segue decide {id}` with --approve or --reject ({calls})."))
        }
        Some(_) => Some("A tool call waits for a decision: /approve shows it.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_as_long_as_the_screen_at_most_and_loses_its_end_first() {
        let parts: Vec<String> =
            ["anthropic/claude", "ctx 3 %", "$0.12", "1300 in · 64 out"].map(str::to_owned).to_vec();
        let check = |columns, expected: &str| assert_eq!(fitted(&parts, columns), expected);
        check(59, "anthropic/claude · ctx 3 % · $0.12 · 1300 in · 64 out");
        check(40, "anthropic/claude · ctx 3 % · $0.12");
        check(20, "anthropic… · ctx 3 %");
        check(10, "anthropic…");
    }

    #[test]
    fn the_share_of_the_window_is_never_told_too_small() {
        let share = |tokens| share(&Fullness { tokens, window_tokens: 200_000, is_due: false });
        assert_eq!(share(1), "ctx 1 %");
        assert_eq!(share(100_000), "ctx 50 %");
    }
}
