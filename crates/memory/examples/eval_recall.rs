//! Ranks the turns of real conversations for questions about them, as `recall` shows them to an agent. It judges
//! nothing: `eval_retrieval.py --run`, which comes with the data, scores what this prints.
//!
//! `eval_recall LOCOMO.json matches` prints `{"q", "ranked"}` for each question: the turns that match. `passages` in its
//! place also lists the turns next to them, in the order of reading. Last, on standard error, how large answers were.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use journal::{Sqlite, Store, Transaction, Write};
use memory::{RecallQuery, Wanted, recall};
use protocol::{AssistantId, Message, NewEvent, Seq, Thread, ThreadId};
use serde_json::Value;

/// A conversation in a thread.
struct Conversation {
    thread_id: ThreadId,
    /// The name of the turn at each seq, from 1 on.
    names: Vec<String>,
}

#[derive(Default)]
struct Measured {
    questions: u32,
    tokens: u64,
    time: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(shown)) = (args.next(), args.next()) else {
        return Err("usage: eval_recall LOCOMO.json matches|passages".into());
    };
    let samples: Vec<Value> = serde_json::from_slice(&std::fs::read(path)?)?;
    let store: Arc<dyn Store> = Arc::new(Sqlite::in_memory()?);
    let mut measured = Measured::default();
    for sample in &samples {
        let conversation = store_conversation(&*store, &sample["conversation"]).await?;
        for (number, question) in array(&sample["qa"]).iter().enumerate() {
            let text = question["question"].as_str().unwrap_or_default();
            let query = RecallQuery::of(Wanted::Words(text.to_owned()));
            let begun = Instant::now();
            let Ok(found) = recall(&*store, conversation.thread_id, &query).await else { continue };
            measured.time += begun.elapsed();
            measured.questions += 1;
            measured.tokens += model::tokens::estimate(&found.to_text());
            let passages = found.excerpts.iter().flatten();
            let ranked: Vec<&str> = passages
                .filter(|passage| passage.is_match || shown == "passages")
                .map(|passage| conversation.name(passage.seq))
                .collect();
            let id = format!("{}:{number}", sample["sample_id"].as_str().unwrap_or_default());
            println!("{}", serde_json::json!({"q": id, "ranked": ranked}));
        }
    }
    let questions = measured.questions.max(1);
    eprintln!(
        "{questions} questions, {} tokens and {:?} each",
        measured.tokens / u64::from(questions),
        measured.time / questions
    );
    Ok(())
}

impl Conversation {
    fn name(&self, seq: Seq) -> &str {
        let place = usize::try_from(seq).unwrap_or_default();
        place.checked_sub(1).and_then(|at| self.names.get(at)).map_or("", String::as_str)
    }
}

/// Stores the sessions of a conversation in order, its two people in the roles of a person and an assistant.
async fn store_conversation(store: &dyn Store, source: &Value) -> Result<Conversation, Box<dyn Error>> {
    let thread_id = ThreadId::generate();
    let mut conversation = Conversation { thread_id, names: Vec::new() };
    let mut events = Vec::new();
    let sessions =
        (1..).map(|number| &source[format!("session_{number}")]).take_while(|session| session.is_array());
    for turn in sessions.flat_map(array) {
        let field = |name: &str| turn[name].as_str().unwrap_or_default();
        let mut text = format!("{}: {}", field("speaker"), field("text"));
        if !field("blip_caption").is_empty() {
            text.push_str(&format!(" [image: {}]", field("blip_caption")));
        }
        let message =
            if turn["speaker"] == source["speaker_a"] { Message::human(text) } else { Message::ai(text) };
        events.push(NewEvent::message(&message, Timestamp::UNIX_EPOCH)?);
        conversation.names.push(field("dia_id").to_owned());
    }
    let thread = Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH);
    let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
    store.commit(Transaction { fence: None, writes }).await?;
    Ok(conversation)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
