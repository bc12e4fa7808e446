//! Benchmarks of the readers on real session files, one for each format. Nothing is stored.

use std::path::{Path, PathBuf};

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use transcripts::{
    ConversationInfo, DigestChain, SessionFormat, SinkError, TranscriptEntry, TranscriptProblem,
    TranscriptSink, TranscriptSource,
};

fn main() {
    divan::main();
}

/// Real session files, relative to a data folder outside the workspace. A missing file is skipped.
const FILES: [&str; 9] = [
    "claude/cc-cli-0442a060.jsonl",
    "codex/cx-agentv-019f03e0.jsonl",
    "copilot/cp-agentv-10fb4666.jsonl",
    "pi/pi-before-compaction.jsonl",
    "opencode/oc-nimbus-30bfbb6f.parent.json",
    "taubench/tau-gpt4o-airline-t0-24.json",
    "openhands/oh-multi-swe-1.jsonl",
    "aider/aider-chat-history-a.md",
    "langgraph/lg-tau-airline.sqlite",
];

/// A sink that drops all entries.
struct DiscardSink;

impl TranscriptSink for DiscardSink {
    fn begin_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }
    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        black_box(entry);
        Ok(())
    }
    fn end_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }
    fn report_problem(&mut self, _: TranscriptProblem) {}
    fn report_progress(&mut self, _: u64) {}
}

/// A sink that adds every entry to a digest chain, as an import does.
#[derive(Default)]
struct DigestSink(DigestChain);

impl TranscriptSink for DigestSink {
    fn begin_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }
    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        black_box(self.0.push(&entry));
        Ok(())
    }
    fn end_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }
    fn report_problem(&mut self, _: TranscriptProblem) {}
    fn report_progress(&mut self, _: u64) {}
}

/// Returns the source of a file with its format and its size in bytes; `None` if the file is missing.
fn open(file: &str) -> Option<(TranscriptSource, SessionFormat, u64)> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open").join(file);
    let bytes = path.metadata().ok()?.len();
    let source = TranscriptSource::from_file(path);
    let format = transcripts::detect_format(&source).ok()?;
    Some((source, format, bytes))
}

#[divan::bench(args = FILES)]
fn read(bencher: Bencher, file: &str) {
    let Some((source, format, bytes)) = open(file) else { return };
    bencher
        .counter(BytesCount::new(bytes))
        .bench(|| transcripts::read_conversations(&source, format, &mut DiscardSink));
}

#[divan::bench(args = FILES)]
fn read_and_chain(bencher: Bencher, file: &str) {
    let Some((source, format, bytes)) = open(file) else { return };
    bencher
        .counter(BytesCount::new(bytes))
        .bench(|| transcripts::read_conversations(&source, format, &mut DigestSink::default()));
}
