//! Recall in a thread with damaged messages: the others are found, and the damaged ones are counted.

use std::path::Path;
use std::sync::Arc;

use journal::{SqliteStore, Write};
use memory::{RecallQuery, RecallResult, RecallScope, Remaining, SearchRequest, recall, search};
use protocol::{Message, Seq, ThreadId, ToolStatus};
use serde_json::json;

use super::{RecallFixture, words_filter};

const MESSAGES: [&str; 5] = [
    "what do you know of the heron?",
    "the heron is grey as slate",
    "the heron is called Fjord",
    "the heron nests in the poplar",
    "thank you, that is all",
];

/// A thread in a file.
struct DamagedThread {
    journal: RecallFixture,
    thread_id: ThreadId,
    /// Deletes the file when it is dropped.
    _folder: tempfile::TempDir,
}

impl DamagedThread {
    /// Stores a thread of [`MESSAGES`], indexes it, and then damages messages in the closed file.
    async fn with_damaged(seqs: &[Seq]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segue.db");
        let open = || RecallFixture { store: Arc::new(SqliteStore::open(&path).unwrap()) };
        let journal = open();
        let thread_id = journal.create_thread(None).await;
        journal.append_messages(thread_id, 0, MESSAGES.map(Message::human)).await;
        journal.store.update_search_index().await.unwrap();
        // A process that has deleted a thread leaves no write-ahead log.
        let deleted = journal.create_thread(None).await;
        journal.commit(vec![Write::DeleteThread { thread_id: deleted }]).await;
        drop(journal);
        for seq in seqs {
            flip_bit_of(&path, MESSAGES[*seq as usize - 1]);
        }
        let journal = open();
        Self { journal, thread_id, _folder: folder }
    }
}

/// Flips a bit of each occurrence of a text in a file.
fn flip_bit_of(path: &Path, text: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let is_text = |position: &usize| bytes[*position..].starts_with(text.as_bytes());
    let positions: Vec<usize> = (0..bytes.len()).filter(is_text).collect();
    assert!(!positions.is_empty(), "`{text}` is stored");
    for position in positions {
        bytes[position] ^= 1;
    }
    std::fs::write(path, bytes).unwrap();
}

fn recalled_seqs(recall: &RecallResult) -> Vec<Seq> {
    let mut seqs: Vec<Seq> = recall.excerpts.iter().flatten().map(|message| message.seq).collect();
    seqs.sort_unstable();
    seqs
}

#[tokio::test]
async fn b14_a_recall_skips_damaged_matches_and_counts_them() {
    let thread = DamagedThread::with_damaged(&[2, 4]).await;
    let found = thread.journal.recall_words(thread.thread_id, "heron").await;
    assert_eq!((recalled_seqs(&found), found.damaged), (vec![1, 3], 2));
    let text = found.to_text();
    assert!(text.contains("called Fjord") && text.contains("damaged were left out: 2"), "{text}");
    assert!(!text.contains("slate") && !text.contains("poplar"), "{text}");
    let everything =
        RecallQuery { scope: RecallScope::Everything, ..RecallQuery::new(words_filter("heron")) };
    let everything = recall(&*thread.journal.store, thread.thread_id, &everything).await.unwrap();
    assert!(everything.to_text().contains("called Fjord"), "{}", everything.to_text());
    assert_eq!(everything.damaged, 2);
    let (status, answer) = thread.journal.call_tool(thread.thread_id, json!({"query": "heron"})).await;
    assert!(status == ToolStatus::Success && answer.contains("called Fjord"), "{answer}");
}

#[tokio::test]
async fn b14_a_recall_of_damaged_messages_only_says_so() {
    let thread = DamagedThread::with_damaged(&[2]).await;
    let found = thread.journal.recall_words(thread.thread_id, "slate").await;
    assert_eq!((recalled_seqs(&found), found.damaged), (Vec::new(), 1));
    assert_eq!(
        found.to_text(),
        "Nothing else was found. Messages whose stored form is damaged were left out: 1; `segue doctor` lists them."
    );
    let range = thread.journal.recall_range(thread.thread_id, 2, 2).await;
    assert_eq!((recalled_seqs(&range), range.damaged), (Vec::new(), 1));
    assert!(!range.to_text().contains("no messages"), "{}", range.to_text());
    let intact = thread.journal.recall_words(thread.thread_id, "Fjord").await;
    assert_eq!(intact.damaged, 0);
    assert!(!intact.to_text().contains("damaged"), "{}", intact.to_text());
}

#[tokio::test]
async fn b14_a_range_is_read_beyond_damaged_messages() {
    let thread = DamagedThread::with_damaged(&[2, 3]).await;
    let range = thread.journal.recall_range(thread.thread_id, 1, 5).await;
    assert_eq!((recalled_seqs(&range), range.damaged), (vec![1, 4, 5], 2));
    assert_eq!(range.remaining, Remaining::Range { next_seq: None });
}

#[tokio::test]
async fn b14_a_hit_of_a_search_keeps_its_intact_neighbour() {
    let thread = DamagedThread::with_damaged(&[2]).await;
    let results = search(&*thread.journal.store, &SearchRequest::new("Fjord")).await.unwrap();
    let [hit] = &results.hits[..] else { panic!("{results:?}") };
    let memory::SearchHitSource::Message { before, after, .. } = &hit.source else { panic!("{hit:?}") };
    assert!(before.is_none() && after.as_ref().is_some_and(|after| after.seq == 4), "{hit:?}");
}
