//! `/history`: the messages of a thread, one page at a time, with compaction markers collapsed or expanded. The output
//! has the same format as that of `segue history`.

use agent::{HistoryPage, HistoryQuery};
use protocol::{RunFeedback, Seq};
use terminal::marker::CardFold;

use crate::cli::history::HistoryArgs;
use crate::commands::chat::ChatSession;
use crate::commands::chat::thread_commands::parse_event_seq;
use crate::commands::history::{self, covered_range};
use crate::exit::{CliFailure, ExitReason};

/// The number of entries on a page.
const PAGE_ENTRIES: usize = 40;

/// The arguments of `/history`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct HistoryPageArgs {
    /// The beginning of a thread's id; `None` selects the current thread.
    thread: Option<String>,
    /// Selects whether markers show their summaries.
    fold: CardFold,
    /// Only events before this one.
    before: Option<Seq>,
    /// Only events after this one.
    after: Option<Seq>,
    /// The event to show together with the entries around it. It cannot be combined with `before` or `after`.
    around: Option<Seq>,
}

impl ChatSession {
    /// Performs `/history`: shows a page, and the commands for the adjacent pages and for compacted messages.
    ///
    /// # Errors
    /// Fails if the arguments are invalid, the thread does not exist, or the history cannot be read.
    pub(super) async fn show_history(&self, words: &[&str]) -> Result<(), CliFailure> {
        let args = parse_args(words)?;
        let thread_id = match &args.thread {
            Some(prefix) => self.context.agent.threads().find(prefix).await?.thread_id,
            None => match self.current_thread_id()? {
                Some(thread_id) => thread_id,
                None => return Ok(()),
            },
        };
        let query = HistoryQuery {
            before_seq: args.before,
            after_seq: args.after,
            limit: if args.around.is_some() { HistoryArgs::LIMIT_AROUND_DEFAULT } else { PAGE_ENTRIES },
            feedback: Some(RunFeedback::LOCAL_USER.to_owned()),
            ..HistoryQuery::default()
        };
        let query = match args.around {
            Some(seq) => history::query_around(&self.context, thread_id, query, seq).await?,
            None => query,
        };
        let page = history::show_page(&self.context, thread_id, &query, args.fold, args.around).await?;
        if page.entries.is_empty() {
            return self.print_info("There are no messages.");
        }
        navigation_hints(&args, &page).iter().try_for_each(|hint| self.print_info(hint))
    }
}

/// Returns hints that show the commands for the earlier and the later page, for expanding the markers, and for the
/// compacted messages of a marker if they are not on the page. Each command repeats the thread of `args`, so that it can
/// be copied unchanged.
fn navigation_hints(args: &HistoryPageArgs, page: &HistoryPage) -> Vec<String> {
    let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) else { return Vec::new() };
    let compacted_messages = page.entries.iter().filter_map(|entry| {
        let (first_seq, last_seq) = covered_range(entry).filter(|(first_seq, _)| *first_seq < first.seq)?;
        let range = HistoryPageArgs {
            thread: args.thread.clone(),
            before: Some(last_seq + 1),
            after: Some(first_seq.saturating_sub(1)),
            ..HistoryPageArgs::default()
        };
        Some(format!("Messages of marker #{}: {}", entry.seq, format_command(&range)))
    });
    let with_summaries = match args.fold {
        CardFold::Closed if page.entries.iter().any(|entry| covered_range(entry).is_some()) => {
            let expanded = HistoryPageArgs { fold: CardFold::Open, ..args.clone() };
            Some(format!("With summaries: {}", format_command(&expanded)))
        }
        CardFold::Closed | CardFold::Open => None,
    };
    let without_around = HistoryPageArgs { around: None, ..args.clone() };
    let earlier = HistoryPageArgs { before: Some(first.seq), after: None, ..without_around.clone() };
    // If a range was requested, the later page ends where the range ends.
    let range_end = args.after.and(args.before);
    let later = HistoryPageArgs { before: range_end, after: Some(last.seq), ..without_around };
    let earlier = page.has_more_before.then(|| format!("Earlier: {}", format_command(&earlier)));
    let later = page.has_more_after.then(|| format!("Later: {}", format_command(&later)));
    compacted_messages.chain(with_summaries).chain(earlier).chain(later).collect()
}

/// Returns the command line for these arguments.
fn format_command(args: &HistoryPageArgs) -> String {
    let mut line = "/history".to_owned();
    line.extend(args.thread.iter().map(|thread| format!(" {thread}")));
    if args.fold == CardFold::Open {
        line.push_str(" --expand");
    }
    for (name, bound) in [("--after", args.after), ("--before", args.before), ("--around", args.around)] {
        line.extend(bound.map(|seq| format!(" {name} {seq}")));
    }
    line
}

/// Parses the arguments of `/history`. The order of the arguments does not matter. A word that is not an option is the id of a thread.
///
/// # Errors
/// Fails if an option is unknown, a bound is not a number, or the bounds exclude each other.
fn parse_args(words: &[&str]) -> Result<HistoryPageArgs, CliFailure> {
    let mut args = HistoryPageArgs::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bound = match *word {
            "--expand" => {
                args.fold = CardFold::Open;
                continue;
            }
            "--before" => &mut args.before,
            "--after" => &mut args.after,
            "--around" => &mut args.around,
            word if word.starts_with("--") || args.thread.is_some() => {
                return Err(usage_error(&format!("there is no option `{word}`")));
            }
            thread => {
                args.thread = Some(thread.to_owned());
                continue;
            }
        };
        let seq =
            words.next().ok_or_else(|| usage_error(&format!("`{word}` needs the number of an event")))?;
        *bound = Some(parse_event_seq(seq)?);
    }
    if args.around.is_some() && (args.before.is_some() || args.after.is_some()) {
        return Err(usage_error("`--around` cannot be combined with `--before` or `--after`"));
    }
    Ok(args)
}

/// Returns the failure for invalid arguments of `/history`.
fn usage_error(reason: &str) -> CliFailure {
    CliFailure::new(ExitReason::User, format!("read /history: {reason}"))
        .with_hint("/history [ID] [--expand] [--before SEQ] [--after SEQ] [--around SEQ]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m10_commands_in_navigation_hints_are_parsed_to_the_same_arguments() {
        let check_args = |line: &str, expected: &HistoryPageArgs| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(parse_args(&words[1..]).unwrap(), *expected, "{line}");
            let formatted = format_command(expected);
            let words: Vec<&str> = formatted.split_whitespace().collect();
            assert_eq!(parse_args(&words[1..]).unwrap(), *expected, "{line}");
        };
        let check = |line: &str, fold: CardFold, before: Option<Seq>, after: Option<Seq>| {
            check_args(line, &HistoryPageArgs { fold, before, after, ..HistoryPageArgs::default() });
        };
        check("/history", CardFold::Closed, None, None);
        check("/history --expand", CardFold::Open, None, None);
        check("/history --before #21 --after 8", CardFold::Closed, Some(21), Some(8));
        check("/history --before 21 --expand", CardFold::Open, Some(21), None);
        let (thread, around) = (Some("0192f0c1".to_owned()), Some(412));
        let in_other_thread = HistoryPageArgs { thread, around, ..HistoryPageArgs::default() };
        check_args("/history 0192f0c1 --around 412", &in_other_thread);
        check_args("/history --around #412 0192f0c1", &in_other_thread);
        for invalid in ["21 22", "--before", "--after x", "--expanded", "--around 3 --after 2"] {
            assert!(parse_args(&invalid.split_whitespace().collect::<Vec<_>>()).is_err(), "{invalid}");
        }
    }
}
