//! Ranks the messages of real conversations for questions about them, with the same search as `segue search`. It
//! computes no score: `eval_retrieval.py --run`, which comes with the data, scores the output.
//!
//! `eval_recall LOCOMO.json` prints `{"q", "ranked"}` for each question, with the hits best first. Each conversation
//! is a journal of its own, and each session is a thread with the times of the data. At the end, the elapsed time is
//! printed on standard error.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use journal::{IndexHitKind, SqliteStore, Store, Transaction, Write};
use memory::{SearchHitSource, SearchRequest, search};
use protocol::{AssistantId, Message, NewEvent, Seq, Thread, ThreadId};
use serde_json::Value;

/// Maximum number of messages listed for a question. The scorer reads no more.
const HITS_MAX: usize = 20;
/// Assumed seconds between two messages of a session. The data has only the times of sessions.
const TURN_SECONDS: i64 = 30;

/// A session stored as a thread.
struct EvalSession {
    thread_id: ThreadId,
    /// The name of the message at each seq, beginning with seq 1.
    names: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: eval_recall LOCOMO.json")?;
    let samples: Vec<Value> = serde_json::from_slice(&std::fs::read(path)?)?;
    let (mut questions, mut time) = (0_u32, Duration::ZERO);
    for sample in &samples {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
        let sessions = store_sessions(&*store, &sample["conversation"]).await?;
        store.update_search_index().await?;
        for (number, question) in array(&sample["qa"]).iter().enumerate() {
            let text = question["question"].as_str().unwrap_or_default();
            let request = SearchRequest {
                kinds: vec![IndexHitKind::Message],
                limit: HITS_MAX,
                ..SearchRequest::new(text)
            };
            let begun = Instant::now();
            let found = search(&*store, &request).await?;
            time += begun.elapsed();
            questions += 1;
            let ranked: Vec<&str> = found.hits.iter().map(|hit| name(&sessions, &hit.source)).collect();
            let id = format!("{}:{number}", sample["sample_id"].as_str().unwrap_or_default());
            println!("{}", serde_json::json!({"q": id, "ranked": ranked}));
        }
    }
    eprintln!("{questions} questions, {:?} each", time / questions.max(1));
    Ok(())
}

/// Returns the name of the message of a hit.
fn name<'a>(sessions: &'a [EvalSession], found: &SearchHitSource) -> &'a str {
    let SearchHitSource::Message { thread_id, seq, .. } = found else { return "" };
    let session = sessions.iter().find(|session| session.thread_id == *thread_id);
    session.and_then(|session| session.names.get(turn_number(*seq))).map_or("", String::as_str)
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
        let begun = parse_start(source[format!("session_{number}_date_time")].as_str().unwrap_or_default())?;
        let mut session = EvalSession { thread_id: ThreadId::generate(), names: Vec::new() };
        let mut events = Vec::new();
        for (turn, second) in array(turns).iter().zip((0..).step_by(TURN_SECONDS as usize)) {
            let field = |name: &str| turn[name].as_str().unwrap_or_default();
            let mut text = format!("{}: {}", field("speaker"), field("text"));
            if !field("blip_caption").is_empty() {
                text.push_str(&format!(" [image: {}]", field("blip_caption")));
            }
            let is_person = turn["speaker"] == source["speaker_a"];
            let message = if is_person { Message::human(text) } else { Message::ai(text) };
            events.push(NewEvent::from_message(&message, begun + second.seconds())?);
            session.names.push(field("dia_id").to_owned());
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
