//! `/history`: what was said in the thread of a chat, a page at a time, its markers closed or opened. Which entries there
//! are and how they look is what `segue history` decides.

use agent::{HistoryPage, HistoryQuery};
use protocol::{RunFeedback, Seq};
use terminal::marker::Fold;

use crate::cli::history::History;
use crate::commands::chat::Chat;
use crate::commands::chat::threading::number;
use crate::commands::history::{self, stands_for};
use crate::exit::{Code, Failure};

/// Entries it shows at a time.
const ENTRIES: usize = 40;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    /// Another thread: the beginning of its id.
    thread: Option<String>,
    fold: Fold,
    before: Option<Seq>,
    after: Option<Seq>,
    around: Option<Seq>,
}

impl Chat {
    /// `/history`: shows a page, and says how to come to those around it and to what was condensed.
    pub(super) async fn history(&self, words: &[&str]) -> Result<(), Failure> {
        let wanted = read(words)?;
        let thread_id = match &wanted.thread {
            Some(prefix) => self.context.agent.threads().find(prefix).await?.thread_id,
            None => match self.current()? {
                Some(thread_id) => thread_id,
                None => return Ok(()),
            },
        };
        let query = HistoryQuery {
            before_seq: wanted.before,
            after_seq: wanted.after,
            limit: if wanted.around.is_some() { History::LIMIT_AROUND } else { ENTRIES },
            feedback: Some(RunFeedback::LOCAL.to_owned()),
            ..HistoryQuery::default()
        };
        let query = match wanted.around {
            Some(seq) => history::around(&self.context, thread_id, query, seq).await?,
            None => query,
        };
        let page = history::show_page(&self.context, thread_id, &query, wanted.fold, wanted.around).await?;
        if page.entries.is_empty() {
            return self.say("Nothing was said there.");
        }
        notes(&wanted, &page).iter().try_for_each(|note| self.say(note))
    }
}

/// Returns how to come to what is around the page, and to the originals of its markers that are not on it.
fn notes(wanted: &Wanted, page: &HistoryPage) -> Vec<String> {
    let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) else { return Vec::new() };
    let originals = page.entries.iter().filter_map(|entry| {
        let (first_seq, last_seq) = stands_for(entry).filter(|(first_seq, _)| *first_seq < first.seq)?;
        let range = Wanted {
            thread: wanted.thread.clone(),
            before: Some(last_seq + 1),
            after: Some(first_seq.saturating_sub(1)),
            ..Wanted::default()
        };
        Some(format!("Originals of marker #{}: {}", entry.seq, command(&range)))
    });
    let hint = match wanted.fold {
        Fold::Closed if page.entries.iter().any(|entry| stands_for(entry).is_some()) => {
            Some(format!("Opened: {}", command(&Wanted { fold: Fold::Open, ..wanted.clone() })))
        }
        Fold::Closed | Fold::Open => None,
    };
    let page_of = Wanted { around: None, ..wanted.clone() };
    let earlier = Wanted { before: Some(first.seq), after: None, ..page_of.clone() };
    // Within a range it goes on to the end of the range.
    let end = wanted.after.and(wanted.before);
    let later = Wanted { before: end, after: Some(last.seq), ..page_of };
    let earlier = page.has_more_before.then(|| format!("Earlier: {}", command(&earlier)));
    let later = page.has_more_after.then(|| format!("Later: {}", command(&later)));
    originals.chain(hint).chain(earlier).chain(later).collect()
}

/// Returns the line that asks for it.
fn command(wanted: &Wanted) -> String {
    let mut line = "/history".to_owned();
    line.extend(wanted.thread.iter().map(|thread| format!(" {thread}")));
    if wanted.fold == Fold::Open {
        line.push_str(" --expand");
    }
    for (name, bound) in [("--after", wanted.after), ("--before", wanted.before), ("--around", wanted.around)]
    {
        line.extend(bound.map(|seq| format!(" {name} {seq}")));
    }
    line
}

fn read(words: &[&str]) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bound = match *word {
            "--expand" => {
                wanted.fold = Fold::Open;
                continue;
            }
            "--before" => &mut wanted.before,
            "--after" => &mut wanted.after,
            "--around" => &mut wanted.around,
            word if word.starts_with("--") || wanted.thread.is_some() => {
                return Err(usage(&format!("`{word}` is none of its options")));
            }
            thread => {
                wanted.thread = Some(thread.to_owned());
                continue;
            }
        };
        let seq = words.next().ok_or_else(|| usage(&format!("`{word}` needs the number of an event")))?;
        *bound = Some(number(seq)?);
    }
    if wanted.around.is_some() && (wanted.before.is_some() || wanted.after.is_some()) {
        return Err(usage("`--around` goes without `--before` and `--after`"));
    }
    Ok(wanted)
}

fn usage(why: &str) -> Failure {
    Failure::new(Code::User, format!("read /history: {why}"))
        .with_hint("/history [ID] [--expand] [--before SEQ] [--after SEQ] [--around SEQ]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m10_a_page_is_asked_for_by_the_line_that_is_told_in_any_order() {
        let check_wanted = |line: &str, wanted: &Wanted| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(read(&words[1..]).unwrap(), *wanted, "{line}");
            let told = command(wanted);
            let told: Vec<&str> = told.split_whitespace().collect();
            assert_eq!(read(&told[1..]).unwrap(), *wanted, "{line}");
        };
        let check = |line: &str, fold: Fold, before: Option<Seq>, after: Option<Seq>| {
            check_wanted(line, &Wanted { fold, before, after, ..Wanted::default() });
        };
        check("/history", Fold::Closed, None, None);
        check("/history --expand", Fold::Open, None, None);
        check("/history --before #21 --after 8", Fold::Closed, Some(21), Some(8));
        check("/history --before 21 --expand", Fold::Open, Some(21), None);
        let (thread, around) = (Some("0192f0c1".to_owned()), Some(412));
        let elsewhere = Wanted { thread, around, ..Wanted::default() };
        check_wanted("/history 0192f0c1 --around 412", &elsewhere);
        check_wanted("/history --around #412 0192f0c1", &elsewhere);
        for bad in ["21 22", "--before", "--after x", "--expanded", "--around 3 --after 2"] {
            assert!(read(&bad.split_whitespace().collect::<Vec<_>>()).is_err(), "{bad}");
        }
    }
}
