//! Ten compactions in a row of real conversations, read from the files beside the workspace; they may be absent.

use std::path::{Path, PathBuf};

use facts::Item;
use jiff::Timestamp;
use protocol::{Event, ThreadId};
use transcripts::{Conversation, Entry, Format, Problem, Sink, SinkError, Source as File};

use super::*;

/// Messages that are condensed altogether, and in how many compactions.
const MESSAGES: usize = 5_000;
const CHAINED: usize = 10;

struct Reader {
    format: Format,
    items: Vec<Item>,
}

impl Sink for Reader {
    fn begin(&mut self, _: &Conversation) -> Result<(), SinkError> {
        Ok(())
    }

    fn entry(&mut self, entry: Entry) -> Result<(), SinkError> {
        let new = entry.into_event(self.format, Timestamp::UNIX_EPOCH)?;
        let event = Event::stored(new, ThreadId::generate(), 1);
        let item = Item::from_event(&event);
        if matches!(item.what, facts::What::Message(_)) && !item.side {
            self.items.push(item);
        }
        Ok(())
    }

    fn end(&mut self, _: &Conversation) -> Result<(), SinkError> {
        Ok(())
    }

    fn problem(&mut self, _: Problem) {}

    fn progress(&mut self, _: u64) {}
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// Returns so many messages of real conversations, one after the other.
fn messages() -> Vec<Item> {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open"), &mut files);
    files.sort();
    let mut items = Vec::new();
    for path in files {
        let source = File::file(&path);
        let Ok(format) = transcripts::detect(&source) else { continue };
        let mut reader = Reader { format, items: Vec::new() };
        transcripts::read(&source, format, &mut reader).unwrap();
        items.append(&mut reader.items);
        if items.len() >= MESSAGES {
            items.truncate(MESSAGES);
            return items;
        }
    }
    Vec::new()
}

/// Returns facts that are said between the messages.
fn planted(number: usize) -> Vec<Item> {
    items(&format!(
        "U: In part {number}, never touch the file keep_{number}.lock.\n\
         C: w{number} write_file {{\"path\": \"src/planted_{number}.rs\", \"content\": \"x\"}}\n\
         T: w{number} ok\n\
         C: s{number} load_skill {{\"name\": \"skill-{number}\"}}\n\
         T: s{number} Read.\n\
         C: d{number} task {{\"description\": \"survey area {number}\"}}\n\
         T: d{number} Surveyed.\n\
         A: Done with part {number}."
    ))
}

#[tokio::test]
async fn e12_ten_compactions_of_5_000_real_messages_keep_every_fact_that_is_carried_over() {
    let mut messages = messages().into_iter();
    if messages.len() == 0 {
        eprintln!("skipped: no real conversations beside the workspace");
        return;
    }
    let mut previous: Option<Compaction> = None;
    for number in 0..CHAINED {
        let real = messages.by_ref().take(MESSAGES / CHAINED);
        let mut span: Vec<Item> = real.chain(planted(number)).collect();
        for (at, item) in span.iter_mut().enumerate() {
            item.seq = (number * MESSAGES + at + 1) as u64;
        }
        let dropped: Vec<Unit> = span.into_iter().map(|item| Unit { item, tokens: 0 }).collect();
        let told = extracted(&dropped, previous.as_ref(), None).await;
        assert!(model::tokens::fits(&told.summary, OPTIONS.max_summary_tokens), "after {number}");
        let carried = &told.carry_over;
        for planted in 0..=number {
            let facts = [
                (&carried.files_modified, format!("src/planted_{planted}.rs")),
                (&carried.skills, format!("skill-{planted}")),
                (&carried.delegations, format!("survey area {planted}")),
            ];
            for (list, fact) in facts {
                assert!(list.contains(&fact), "{fact} is lost after {number}: {carried:#?}");
            }
        }
        let last = carried.last_user_request.as_deref();
        assert!(last.is_some_and(|request| request.contains(&format!("keep_{number}.lock"))), "{last:?}");
        let goal = previous.as_ref().map_or(&told.sections.goal, |previous| &previous.sections.goal);
        assert_eq!(&told.sections.goal, goal, "the goal stays");
        previous = Some(stored(&told));
    }
}
