//! Tests of pins through the agent's public interface: every request contains them, over compactions, rewinds and forks, and
//! the report of the context shows their size.

use agent::{Agent, PinRequest};
use protocol::ThreadId;

use super::{
    CODE_WORD_SENTENCE, agent_of, append, compact_thread, filled_thread, good_server, send_message,
    split_requests, turns,
};
use crate::environment::TestEnvironment;

/// A text that no message contains.
const RULE: &str = "The release is on the 3rd,\nnot earlier.";

async fn pin_text(agent: &Agent, thread: ThreadId, text: &str) -> u64 {
    agent.memory().pin(thread, &PinRequest::Text(text.to_owned())).await.unwrap().pin.number
}

/// Returns the pinned texts of the thread.
async fn pins(agent: &Agent, thread: ThreadId) -> Vec<String> {
    agent.memory().pins(thread).await.unwrap().into_iter().map(|pin| pin.text).collect()
}

#[tokio::test]
async fn every_request_contains_the_pins_after_two_compactions() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    pin_text(&agent, thread, RULE).await;
    // No summary contains the code word of the first answer.
    let events = agent.threads().events(thread).await.unwrap();
    let answer = events.iter().find(|event| event.content.get().contains(CODE_WORD_SENTENCE)).unwrap().seq;
    let quoted = agent.memory().pin(thread, &PinRequest::Message(answer)).await.unwrap().pin;
    assert!(quoted.text.contains(CODE_WORD_SENTENCE), "{}", quoted.text);
    let mut stable = Vec::new();
    for round in 0..2 {
        compact_thread(&agent, thread).await.unwrap();
        send_message(&agent, thread, "And now?").await;
        let request = split_requests(&server).1.pop().unwrap().body;
        let system = request["system"].as_array().unwrap().clone();
        assert!(
            !request["messages"].to_string().contains("walnut-17"),
            "round {round}: the message is compacted"
        );
        let section = system.iter().find(|block| block["text"].as_str().unwrap().contains("<pins>")).unwrap();
        let text = section["text"].as_str().unwrap().to_owned();
        assert!(text.contains(RULE) && text.contains(&quoted.text), "round {round}: {text}");
        stable.push(text);
        append(&agent, thread, &turns(9 + 8 * round..17 + 8 * round, 12_000)).await;
    }
    assert_eq!(stable[0], stable[1], "a compaction does not change the section");
}

#[tokio::test]
async fn b18_the_report_of_the_context_shows_the_size_of_the_pins() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 300).await;
    let size = async || {
        let parts = agent.threads().context_report(thread).await.unwrap().parts;
        parts.into_iter().find(|part| part.name == "Pins").map_or(0, |part| part.tokens)
    };
    assert_eq!(size().await, 0);
    let text = "word ".repeat(400);
    let number = pin_text(&agent, thread, &text).await;
    assert!(size().await > 400, "{}", size().await);
    agent.memory().unpin(thread, number).await.unwrap();
    assert_eq!(size().await, 0);
}

#[tokio::test]
async fn pins_follow_rewinds_and_forks_like_other_events() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    pin_text(&agent, thread, "early").await;
    send_message(&agent, thread, "One.").await;
    send_message(&agent, thread, "Two.").await;
    pin_text(&agent, thread, "late").await;
    send_message(&agent, thread, "Three.").await;
    let fork = agent.threads().fork(thread, None).await.unwrap().thread_id;
    let prompts = agent.threads().prompts(thread, 9).await.unwrap();
    let second = prompts.iter().find(|prompt| prompt.text == "Two.").unwrap();
    agent.threads().rewind(thread, second.seq - 1).await.unwrap();
    assert_eq!(pins(&agent, thread).await, ["early"]);
    assert_eq!(pins(&agent, fork).await, ["early", "late"]);
    agent.memory().unpin(fork, 1).await.unwrap();
    assert_eq!(pins(&agent, thread).await, ["early"], "the pins of a fork are its own");
    send_message(&agent, fork, "Four.").await;
    let request = split_requests(&server).1.pop().unwrap().body["system"].to_string();
    assert!(request.contains("\\nlate\\n") && !request.contains("\\nearly\\n"), "{request}");
    agent.threads().delete(thread).await.unwrap();
    assert!(agent.memory().pins(thread).await.unwrap_err().is_not_found());
    assert_eq!(pins(&agent, fork).await, ["late"]);
}
