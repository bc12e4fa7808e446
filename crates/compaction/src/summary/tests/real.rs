//! A test of ten consecutive compactions of real conversations, read from files next to the workspace. The files may be
//! absent; the test is skipped then.

use std::path::{Path, PathBuf};

use facts::TranscriptItem;
use jiff::Timestamp;
use protocol::{Event, ThreadId};
use transcripts::{
    ConversationInfo, SessionFormat, SinkError, TranscriptEntry, TranscriptProblem, TranscriptSink,
    TranscriptSource as File,
};

use super::*;

/// The number of messages that are compacted in total.
const MESSAGES: usize = 5_000;
/// The number of consecutive compactions.
const COMPACTIONS: usize = 10;

/// A sink that collects the messages of a session file.
struct SessionCollector {
    format: SessionFormat,
    items: Vec<TranscriptItem>,
}

impl TranscriptSink for SessionCollector {
    fn begin_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        let new = entry.into_event(self.format, Timestamp::UNIX_EPOCH)?;
        let event = Event::from_new(new, ThreadId::generate(), 1);
        let item = TranscriptItem::from_event(&event);
        if matches!(item.kind, facts::TranscriptItemKind::Message(_)) && !item.is_subagent {
            self.items.push(item);
        }
        Ok(())
    }

    fn end_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }

    fn report_problem(&mut self, _: TranscriptProblem) {}

    fn report_progress(&mut self, _: u64) {}
}

fn collect_session_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { collect_session_files(&path, files) } else { files.push(path) }
    }
}

/// Returns [`MESSAGES`] messages of real conversations, one conversation after the other; none when there are not
/// enough.
fn read_messages() -> Vec<TranscriptItem> {
    let mut files = Vec::new();
    collect_session_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open"),
        &mut files,
    );
    files.sort();
    let mut items = Vec::new();
    for path in files {
        let source = File::from_file(&path);
        let Ok(format) = transcripts::detect_format(&source) else { continue };
        let mut reader = SessionCollector { format, items: Vec::new() };
        transcripts::read_conversations(&source, format, &mut reader).unwrap();
        items.append(&mut reader.items);
        if items.len() >= MESSAGES {
            items.truncate(MESSAGES);
            return items;
        }
    }
    Vec::new()
}

/// Returns messages with facts that contain `number`, to insert between the real messages.
fn planted_messages(number: usize) -> Vec<TranscriptItem> {
    parse_items(&format!(
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
    let mut messages = read_messages().into_iter();
    if messages.len() == 0 {
        eprintln!("skipped: no real conversations next to the workspace");
        return;
    }
    let mut previous: Option<Compaction> = None;
    for number in 0..COMPACTIONS {
        let real = messages.by_ref().take(MESSAGES / COMPACTIONS);
        let mut span: Vec<TranscriptItem> = real.chain(planted_messages(number)).collect();
        for (index, item) in span.iter_mut().enumerate() {
            item.seq = (number * MESSAGES + index + 1) as u64;
        }
        let dropped: Vec<ContextMessage> =
            span.into_iter().map(|item| ContextMessage { item, tokens: 0 }).collect();
        let outcome = summarize_offline(&dropped, previous.as_ref(), None).await;
        assert!(model::tokens::fits(&outcome.summary, OPTIONS.max_summary_tokens), "after {number}");
        let carried = &outcome.carried;
        let task = |line: &String| line.split(" → ").next().unwrap_or_default().to_owned();
        let delegations: Vec<String> = carried.delegations.iter().map(task).collect();
        for planted in 0..=number {
            let facts = [
                (&carried.files.changed, format!("src/planted_{planted}.rs")),
                (&carried.skills, format!("skill-{planted}")),
                (&delegations, format!("survey area {planted}")),
            ];
            for (list, fact) in facts {
                assert!(list.contains(&fact), "{fact} is lost after {number}: {carried:#?}");
            }
        }
        let last = carried.last_user_request.as_deref();
        assert!(last.is_some_and(|request| request.contains(&format!("keep_{number}.lock"))), "{last:?}");
        let goal = previous.as_ref().map_or(&outcome.sections.goal, |previous| &previous.sections.goal);
        assert_eq!(&outcome.sections.goal, goal, "the goal stays");
        previous = Some(to_compaction(&outcome));
    }
}
