//! The status line of the chat: the model, the use of its context window, tokens and cost, and pending decisions. It is
//! printed before each prompt and changes nothing.

use agent::{Agent, ContextUsage, CostReport};
use protocol::{Seq, Thread, ThreadId, Usage};
use terminal::{Audience, TurnTotals, format_dollars, format_tokens, sanitize_line, shorten, width, wrap};

use crate::commands::{CommandContext, approval};
use crate::exit::CliFailure;

/// The largest thread, in events, whose cost is computed before its first prompt. A longer thread would delay the
/// prompt.
const IMMEDIATE_COST_EVENTS_MAX: Seq = 2_000;
/// The largest thread, in events, whose context use is computed before its first prompt. A longer thread would delay
/// the prompt noticeably.
const IMMEDIATE_FULLNESS_EVENTS_MAX: Seq = 20_000;
/// The screen width, in columns, below which the parts of the line are shortened.
const NARROW_COLUMNS: usize = 80;
/// The separator between two parts of the line.
const SEPARATOR: &str = " · ";
/// The fewest columns to which the first part is shortened. If the second part then does not fit, it is omitted.
const FIRST_COLUMNS_MIN: usize = 8;

/// The tokens and the cost of a thread, including its sub-agents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ThreadTotals {
    /// The tokens of all model calls.
    tokens: u64,
    /// The cost in US dollars; `None` if the price of a model is unknown.
    dollars: Option<f64>,
}

impl ThreadTotals {
    /// Returns the totals of a report over the whole thread.
    fn from_report(report: &CostReport) -> Self {
        let tokens = report.models.iter().map(|model| model.usage.total_tokens()).sum();
        Self { tokens, dollars: report.dollars }
    }

    /// Adds the usage of a run and of its sub-agents.
    pub(super) fn add(&mut self, agent: &Agent, totals: &TurnTotals) {
        self.add_usage(agent, totals.model.as_deref(), &totals.usage);
        for (model, usage) in &totals.subagent_usage {
            self.add_usage(agent, model.as_deref(), usage);
        }
    }

    /// Adds the usage of one model. The cost becomes unknown if the model's price is unknown.
    fn add_usage(&mut self, agent: &Agent, model: Option<&str>, usage: &Usage) {
        if usage.total_tokens() == 0 {
            return;
        }
        self.tokens += usage.total_tokens();
        let price = model.and_then(|model| agent.admin().usage_price(model, usage));
        self.dollars = self.dollars.zip(price).map(|(sum, price)| sum + price);
    }
}

/// Prints the status line, and pending decisions below it. Returns the context use of the thread if it was computed.
///
/// Parts that cannot be computed are omitted, and so are the last parts if they do not fit the screen. If
/// `thread_totals` is `None`, the totals are computed from the whole thread. For a long thread this happens only after
/// a first turn (`turn_totals`), so that the user can write at once after opening it.
pub(super) async fn show_status(
    context: &CommandContext,
    thread: &Thread,
    turn_totals: Option<&TurnTotals>,
    thread_totals: &mut Option<ThreadTotals>,
) -> Result<Option<ContextUsage>, CliFailure> {
    let (agent, thread_id) = (&context.agent, thread.thread_id);
    let is_short = thread.last_seq <= IMMEDIATE_COST_EVENTS_MAX;
    let is_read = thread_totals.is_some() || turn_totals.is_some() || is_short;
    if thread_totals.is_none() && is_read {
        *thread_totals =
            agent.threads().cost_report(thread_id).await.ok().as_ref().map(ThreadTotals::from_report);
    }
    let model = turn_totals.and_then(|totals| totals.model.clone()).or_else(|| agent.model_status().default);
    let mut parts: Vec<String> = Vec::new();
    let is_narrow = context.screen.columns < NARROW_COLUMNS;
    parts.extend(model.map(|model| match model.split_once('/') {
        Some((_, name)) if is_narrow => sanitize_line(name),
        Some(_) | None => sanitize_line(&model),
    }));
    let context_usage = match is_read || thread.last_seq <= IMMEDIATE_FULLNESS_EVENTS_MAX {
        true => agent.handoffs().context_usage(thread_id).await.ok().flatten(),
        false => None,
    };
    parts.extend(context_usage.as_ref().map(window_share_text));
    parts.extend(thread_totals.as_ref().and_then(cost_text));
    parts.extend(turn_totals.and_then(|totals| turn_usage_text(totals, context.screen.columns)));
    parts.extend(thread_totals.as_ref().and_then(thread_tokens_text));
    let (screen, style) = (&context.screen, context.screen.style);
    let columns = screen.columns.saturating_sub(1);
    if !parts.is_empty() {
        screen.print_line(style.dim(fit_parts(&parts, columns)))?;
    }
    if let Some(notice) = pending_notice(context, thread_id).await {
        screen.print_line(style.warn(wrap(&notice, columns, "", "  ")))?;
    }
    Ok(context_usage)
}

/// Returns as many of the parts as fit on a line. The first part, a model's name, may be long: it is shortened so that the
/// second part fits too, but not to fewer than [`FIRST_COLUMNS_MIN`] columns.
fn fit_parts(parts: &[String], columns: usize) -> String {
    let fits = |count: &usize| width(&parts[..*count].join(SEPARATOR)) <= columns;
    match ((1..=parts.len()).rev().find(fits), parts) {
        (Some(count), _) if count > 1 || parts.len() == 1 => parts[..count].join(SEPARATOR),
        (_, [first, second, ..]) => {
            let second = format!("{SEPARATOR}{second}");
            match columns.checked_sub(width(&second)).filter(|remaining| *remaining >= FIRST_COLUMNS_MIN) {
                Some(remaining) => format!("{}{second}", shorten(first, remaining)),
                None => shorten(first, columns).into_owned(),
            }
        }
        (_, _) => shorten(&parts.concat(), columns).into_owned(),
    }
}

/// Returns the used share of the context window in percent, rounded up.
fn window_share_text(usage: &ContextUsage) -> String {
    format!("ctx {} %", (usage.tokens * 100).div_ceil(usage.window_tokens.max(1)))
}

/// Returns the tokens of the turn, including its sub-agents; `None` if there are none.
/// On a narrow screen the share of cached tokens is omitted.
fn turn_usage_text(totals: &TurnTotals, columns: usize) -> Option<String> {
    let mut usage = totals.usage;
    totals.subagent_usage.iter().for_each(|(_, subagent)| usage.add(*subagent));
    if usage.total_tokens() == 0 {
        return None;
    }
    let cached = match usage.cache_read_tokens {
        _ if columns < NARROW_COLUMNS => String::new(),
        0 => String::new(),
        cached => format!(" ({} cached)", format_tokens(cached)),
    };
    Some(format!(
        "{} in{cached} · {} out",
        format_tokens(usage.input_tokens),
        format_tokens(usage.output_tokens)
    ))
}

/// Returns the cost of the thread; `None` if it is unknown or no tokens were used.
fn cost_text(total: &ThreadTotals) -> Option<String> {
    total.dollars.filter(|_| total.tokens > 0).map(format_dollars)
}

/// Returns the tokens of the thread; `None` if there are none.
fn thread_tokens_text(total: &ThreadTotals) -> Option<String> {
    (total.tokens > 0).then(|| format!("thread {} tokens", format_tokens(total.tokens)))
}

/// Returns a notice about the thread's pending decision and the command that shows it; `None` if no decision is
/// pending. For a program, the notice contains the calls, because the chat cannot ask a program.
pub(super) async fn pending_notice(context: &CommandContext, thread_id: ThreadId) -> Option<String> {
    let pending = context.agent.runs().pending_interrupts(thread_id).await.ok()?;
    let tool_approval = pending.iter().find(|interrupt| approval::is_tool_approval(interrupt));
    match tool_approval {
        None if pending.is_empty() => None,
        None => Some("A handoff needs a decision: /handoff shows it.".to_owned()),
        Some(interrupt) if context.screen.audience == Audience::Program => {
            let (id, calls) = (interrupt.interrupt_id, approval::call_lines(interrupt).join("; "));
            Some(format!(
                "A tool call needs a decision: `segue decide {id}` with --approve or --reject ({calls})."
            ))
        }
        Some(_) => Some("A tool call needs a decision: /approve shows it.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_fits_the_screen_and_loses_its_last_parts_first() {
        let parts: Vec<String> =
            ["anthropic/claude", "ctx 3 %", "$0.12", "1300 in · 64 out"].map(str::to_owned).to_vec();
        let check = |columns, expected: &str| assert_eq!(fit_parts(&parts, columns), expected);
        check(59, "anthropic/claude · ctx 3 % · $0.12 · 1300 in · 64 out");
        check(40, "anthropic/claude · ctx 3 % · $0.12");
        check(20, "anthropic… · ctx 3 %");
        check(10, "anthropic…");
    }

    #[test]
    fn the_share_of_the_window_is_rounded_up() {
        let share =
            |tokens| window_share_text(&ContextUsage { tokens, window_tokens: 200_000, is_due: false });
        assert_eq!(share(1), "ctx 1 %");
        assert_eq!(share(100_000), "ctx 50 %");
    }
}
