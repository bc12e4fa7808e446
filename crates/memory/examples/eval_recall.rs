//! Ranks the messages of real conversations for questions about them, with the same search as `segue search`. It
//! computes no score: `eval_retrieval.py --run`, which comes with the data, scores the output.
//!
//! `eval_recall LOCOMO.json [URL MODEL]` prints `{"q", "messages", "passages", "budget"}` for each question: the best messages, the
//! middle messages of the best passages, and the best messages that together have [`BUDGET_TOKENS`] tokens. Each
//! conversation is a journal of its own, and each session is a thread with the times of the data. At the end, the
//! elapsed time of a search is printed on standard error. With the URL and the name of an embedding model, searches compare meaning
//! too.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use journal::{IndexHitKind, QuestionEmbedder, SearchUnit, SqliteStore, Store, Transaction, Write};
use memory::{EmbeddingConfig, EmbeddingModel, EmbeddingWorker, SearchHitSource, SearchRequest, search};
use protocol::{AssistantId, Message, NewEvent, Seq, Thread, ThreadId};
use runtime::{FrameSender, RunScope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Maximum number of messages and of passages listed for a question. The scorer reads no more.
const HITS_MAX: usize = 20;
/// Number of messages that are found for [`BUDGET_TOKENS`]. They have more tokens than that.
const BUDGET_HITS: usize = 60;
/// Tokens of the messages that are listed for a budget, at [`CHARS_PER_TOKEN`].
const BUDGET_TOKENS: usize = 1_000;
/// Characters of a token, as the scorer counts them.
const CHARS_PER_TOKEN: usize = 4;
/// Assumed seconds between two messages of a session. The data has only the times of sessions.
const TURN_SECONDS: i64 = 30;

/// A session stored as a thread.
struct EvalSession {
    thread_id: ThreadId,
    /// The messages, beginning with seq 1.
    turns: Vec<EvalTurn>,
}

/// A message of a session.
#[derive(Clone, Default)]
struct EvalTurn {
    /// The name by which the evidence refers to it.
    name: String,
    /// The length of its text with the date of the session, in characters.
    chars: usize,
}

/// The number and the unit of the hits of a search.
#[derive(Clone, Copy)]
enum SearchLimit {
    Messages(usize),
    Passages(usize),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: eval_recall LOCOMO.json [URL MODEL]")?;
    let embedder = open_embedder()?;
    let samples: Vec<Value> = serde_json::from_slice(&std::fs::read(path)?)?;
    let (mut questions, mut time) = (0_u32, Duration::ZERO);
    for sample in &samples {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
        let sessions = store_sessions(&*store, &sample["conversation"]).await?;
        store.update_search_index().await?;
        if let Some(embedder) = &embedder {
            embed_messages(&store, embedder).await?;
        }
        for (number, question) in array(&sample["qa"]).iter().enumerate() {
            let text = question["question"].as_str().unwrap_or_default();
            let begun = Instant::now();
            let messages = find_turns(&*store, &sessions, text, SearchLimit::Messages(HITS_MAX)).await?;
            time += begun.elapsed();
            questions += 1;
            let passages = find_turns(&*store, &sessions, text, SearchLimit::Passages(HITS_MAX)).await?;
            let many = find_turns(&*store, &sessions, text, SearchLimit::Messages(BUDGET_HITS)).await?;
            let mut chars = 0;
            let is_within = |turn: &&EvalTurn| {
                chars += turn.chars;
                chars <= BUDGET_TOKENS * CHARS_PER_TOKEN
            };
            let budget: Vec<&String> = many.iter().take_while(is_within).map(|turn| &turn.name).collect();
            let names = |turns: &[EvalTurn]| turns.iter().map(|turn| turn.name.clone()).collect::<Vec<_>>();
            let id = format!("{}:{number}", sample["sample_id"].as_str().unwrap_or_default());
            println!(
                "{}",
                serde_json::json!({"q": id, "messages": names(&messages), "passages": names(&passages), "budget": budget})
            );
        }
    }
    eprintln!("{questions} questions, {:?} each", time / questions.max(1));
    Ok(())
}

/// Returns the embedding model that the arguments name.
fn open_embedder() -> Result<Option<Arc<EmbeddingModel>>, Box<dyn Error>> {
    let (Some(url), Some(model)) = (std::env::args().nth(2), std::env::args().nth(3)) else {
        return Ok(None);
    };
    let config = EmbeddingConfig {
        url,
        model,
        key_variable: None,
        dimensions: None,
        daily_tokens: u64::MAX,
        message_prefix: String::new(),
        question_prefix: String::new(),
    };
    Ok(Some(Arc::new(EmbeddingModel::new(config, None)?)))
}

/// Embeds all messages of a journal, whose searches then compare meaning.
async fn embed_messages(
    store: &Arc<dyn Store>,
    embedder: &Arc<EmbeddingModel>,
) -> Result<(), Box<dyn Error>> {
    store.set_embedder(Arc::clone(embedder) as Arc<dyn QuestionEmbedder>);
    let worker = EmbeddingWorker { store: Arc::clone(store), embedder: Arc::clone(embedder) };
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    worker.embed_messages(RunScope { frames: &frames, cancel: &cancel }).await?;
    Ok(())
}

/// Returns the best messages for a question, or the middle messages of the best passages.
async fn find_turns(
    store: &dyn Store,
    sessions: &[EvalSession],
    question: &str,
    limit: SearchLimit,
) -> Result<Vec<EvalTurn>, Box<dyn Error>> {
    let kinds = vec![IndexHitKind::Message];
    let (unit, limit) = match limit {
        SearchLimit::Messages(limit) => (SearchUnit::Message, limit),
        SearchLimit::Passages(limit) => (SearchUnit::Passage, limit),
    };
    let request = SearchRequest { kinds, unit, limit, ..SearchRequest::new(question) };
    let found = search(store, &request).await?;
    Ok(found.hits.iter().map(|hit| found_turn(sessions, &hit.source)).collect())
}

/// Returns the message of a hit.
fn found_turn(sessions: &[EvalSession], found: &SearchHitSource) -> EvalTurn {
    let SearchHitSource::Message { thread_id, seq, .. } = found else { return EvalTurn::default() };
    let session = sessions.iter().find(|session| session.thread_id == *thread_id);
    session.and_then(|session| session.turns.get(turn_number(*seq))).cloned().unwrap_or_default()
}

fn turn_number(seq: Seq) -> usize {
    usize::try_from(seq).unwrap_or_default().wrapping_sub(1)
}

/// Stores the sessions of a conversation in order. Its two speakers get the roles of the user and the assistant.
async fn store_sessions(store: &dyn Store, source: &Value) -> Result<Vec<EvalSession>, Box<dyn Error>> {
    let mut sessions = Vec::new();
    for number in 1.. {
        let turns = &source[format!("session_{number}")];
        if !turns.is_array() {
            break;
        }
        let date = source[format!("session_{number}_date_time")].as_str().unwrap_or_default();
        let begun = parse_start(date)?;
        let mut session = EvalSession { thread_id: ThreadId::generate(), turns: Vec::new() };
        let mut events = Vec::new();
        for (turn, second) in array(turns).iter().zip((0..).step_by(TURN_SECONDS as usize)) {
            let field = |name: &str| turn[name].as_str().unwrap_or_default();
            let mut text = format!("{}: {}", field("speaker"), field("text"));
            if !field("blip_caption").is_empty() {
                text.push_str(&format!(" [image: {}]", field("blip_caption")));
            }
            let chars = date.chars().count() + 1 + text.chars().count();
            session.turns.push(EvalTurn { name: field("dia_id").to_owned(), chars });
            let is_person = turn["speaker"] == source["speaker_a"];
            let message = if is_person { Message::human(text) } else { Message::ai(text) };
            events.push(NewEvent::from_message(&message, begun + second.seconds())?);
        }
        let thread_id = session.thread_id;
        let thread = Thread::blank(thread_id, AssistantId::default(), begun);
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
        store.commit(Transaction { fence: None, writes }).await?;
        sessions.push(session);
    }
    Ok(sessions)
}

/// Parses a time such as `1:56 pm on 8 May, 2023`.
fn parse_start(text: &str) -> Result<Timestamp, Box<dyn Error>> {
    let time = DateTime::strptime("%I:%M %p on %d %B, %Y", text)?;
    Ok(time.to_zoned(TimeZone::UTC)?.timestamp())
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
