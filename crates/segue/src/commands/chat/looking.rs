//! `/history`: what was said in the thread of a chat, a page at a time, its markers closed or opened. Which entries there
//! are and how they look is what `segue history` decides.

use agent::{HistoryItem, HistoryPage, HistoryQuery};
use protocol::{RunFeedback, Seq};

use crate::commands::chat::Chat;
use crate::commands::chat::threading::number;
use crate::commands::history;
use crate::exit::{Code, Failure};
use crate::terminal::show::marker::Fold;

/// Entries it shows at a time.
const ENTRIES: usize = 40;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    fold: Fold,
    before: Option<Seq>,
    after: Option<Seq>,
}

impl Chat {
    /// `/history`: shows a page, and says how to come to those around it and to what was condensed.
    pub(super) async fn history(&self, words: &[&str]) -> Result<(), Failure> {
        let wanted = read(words)?;
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let query = HistoryQuery {
            before_seq: wanted.before,
            after_seq: wanted.after,
            limit: ENTRIES,
            feedback: Some(RunFeedback::LOCAL.to_owned()),
            ..HistoryQuery::default()
        };
        let page = history::show_page(&self.context, thread_id, &query, wanted.fold).await?;
        if page.entries.is_empty() {
            return self.say("Nothing was said there.");
        }
        notes(wanted, &page).iter().try_for_each(|note| self.say(note))
    }
}

/// Returns how to come to what is around the page, and to the originals of its markers that are not on it.
fn notes(wanted: Wanted, page: &HistoryPage) -> Vec<String> {
    let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) else { return Vec::new() };
    let originals = page.entries.iter().filter_map(|entry| match &entry.what {
        HistoryItem::Marker(marker) if marker.first_seq < first.seq => {
            let after = marker.first_seq.saturating_sub(1);
            let range = Wanted { fold: Fold::Closed, before: Some(marker.last_seq + 1), after: Some(after) };
            Some(format!("Originals of marker #{}: {}", entry.seq, command(range)))
        }
        HistoryItem::Marker(_)
        | HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Undone(_) => None,
    });
    let hint = match wanted.fold {
        Fold::Closed if page.entries.iter().any(|entry| matches!(entry.what, HistoryItem::Marker(_))) => {
            Some(format!("Opened: {}", command(Wanted { fold: Fold::Open, ..wanted })))
        }
        Fold::Closed | Fold::Open => None,
    };
    let earlier = Wanted { before: Some(first.seq), after: None, ..wanted };
    // Within a range it goes on to the end of the range.
    let end = wanted.after.and(wanted.before);
    let later = Wanted { before: end, after: Some(last.seq), ..wanted };
    let earlier = page.has_more_before.then(|| format!("Earlier: {}", command(earlier)));
    let later = page.has_more_after.then(|| format!("Later: {}", command(later)));
    originals.chain(hint).chain(earlier).chain(later).collect()
}

/// Returns the line that asks for it.
fn command(wanted: Wanted) -> String {
    let mut line = "/history".to_owned();
    if wanted.fold == Fold::Open {
        line.push_str(" --expand");
    }
    for (name, bound) in [("--after", wanted.after), ("--before", wanted.before)] {
        line.extend(bound.map(|seq| format!(" {name} {seq}")));
    }
    line
}

fn read(words: &[&str]) -> Result<Wanted, Failure> {
    let mut wanted = Wanted { fold: Fold::Closed, before: None, after: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bound = match *word {
            "--expand" => {
                wanted.fold = Fold::Open;
                continue;
            }
            "--before" => &mut wanted.before,
            "--after" => &mut wanted.after,
            word => return Err(usage(&format!("`{word}` is none of its options"))),
        };
        let seq = words.next().ok_or_else(|| usage(&format!("`{word}` needs the number of an event")))?;
        *bound = Some(number(seq)?);
    }
    Ok(wanted)
}

fn usage(why: &str) -> Failure {
    Failure::new(Code::User, format!("read /history: {why}"))
        .with_hint("/history [--expand] [--before SEQ] [--after SEQ]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m10_a_page_is_asked_for_by_the_line_that_is_told_in_any_order() {
        let check = |line: &str, fold: Fold, before: Option<Seq>, after: Option<Seq>| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wanted = Wanted { fold, before, after };
            assert_eq!(read(&words[1..]).unwrap(), wanted, "{line}");
            let told = command(wanted);
            let told: Vec<&str> = told.split_whitespace().collect();
            assert_eq!(read(&told[1..]).unwrap(), wanted, "{line}");
        };
        check("/history", Fold::Closed, None, None);
        check("/history --expand", Fold::Open, None, None);
        check("/history --before #21 --after 8", Fold::Closed, Some(21), Some(8));
        check("/history --before 21 --expand", Fold::Open, Some(21), None);
        for bad in ["21", "--before", "--after x", "--expanded"] {
            assert!(read(&bad.split_whitespace().collect::<Vec<_>>()).is_err(), "{bad}");
        }
    }
}
