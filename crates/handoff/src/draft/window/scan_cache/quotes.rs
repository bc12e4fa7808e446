//! The messages that texts about a conversation quote: lines of a selection, and items of an offline summary.

use facts::ConversationFacts;
use facts::formatting::to_single_line;
use protocol::Seq;

use crate::summary::coverage::CoverageClass;
use crate::summary::offline_summary::OfflineSummary;

/// Returns the seq and the text of a line of a selection, which begins with the seq of its event in brackets.
pub(super) fn parse_event_line(line: &str) -> Option<(Seq, &str)> {
    let (seq, text) = line.strip_prefix('[')?.split_once(']')?;
    Some((seq.parse().ok()?, text))
}

/// Returns the messages that the offline summary quotes, each as verbatim or truncated.
pub(super) fn quoted_messages(
    facts: &ConversationFacts,
    summary: &OfflineSummary,
) -> Vec<(Seq, CoverageClass)> {
    let lists =
        [&facts.requests, &facts.statements, &facts.requests_about_goal, &facts.statements_about_goal];
    let quotes = facts.first_request.iter().chain(lists.into_iter().flatten());
    let mut quoted: Vec<(Seq, CoverageClass)> = Vec::new();
    for quote in quotes {
        if !summary.body.iter().any(|item| item.refs.contains(&quote.seq)) {
            continue;
        }
        let is_whole = || {
            let text = to_single_line(&quote.text);
            !quote.is_cut && summary.body.iter().any(|item| item.text.contains(&text))
        };
        quoted.push((quote.seq, if is_whole() { CoverageClass::Verbatim } else { CoverageClass::Truncated }));
    }
    quoted
}
