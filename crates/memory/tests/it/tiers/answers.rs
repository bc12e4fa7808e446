//! Answers of a small model: each results in a summary or in nothing at all.

use memory::{NoSummaryReason, SummarizationError, TurnWindow};
use model::UnusableAnswer;
use protocol::{Event, EventType};
use test_model::{ScriptedFault, ScriptedReply, ScriptedStop};

use super::{TierFixture, agent_id};

const CONVERSATION: [&str; 4] =
    ["U: Where does the diary go?", "A: Into ~/notes.", "U: Call it diary.md.", "A: Done: ~/notes/diary.md."];

/// Returns the error of a transfer with this answer.
async fn failure(reply: ScriptedReply) -> SummarizationError {
    let desk = TierFixture::new([reply]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let (counts, events) = (desk.counts().await, desk.events(thread_id).await);
    let failed =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([1, 4])).await.unwrap_err();
    assert_eq!(desk.counts().await, counts, "{failed}");
    // Only the usage of the calls is stored.
    let (called, others): (Vec<Event>, Vec<Event>) = desk
        .events(thread_id)
        .await
        .into_iter()
        .partition(|event| event.kind() == Some(EventType::ModelCalled));
    assert_eq!(others, events, "{failed}");
    assert_eq!(called.len(), desk.server.call_count(), "{failed}");
    assert!(!failed.hint().is_empty());
    failed
}

#[tokio::test]
async fn f6_an_answer_that_is_no_summary_is_an_error_and_stores_nothing() {
    let word = format!("They said {}", "unbroken".repeat(400));
    let long = "Each of these sentences says a little of what there was to be said. ".repeat(100);
    for (reply, why) in [
        (ScriptedReply::text(""), "it is empty"),
        (ScriptedReply::text(" \n\t\u{3000}"), "it is empty"),
        (ScriptedReply::text("They chose a").with_stop(ScriptedStop::MaxTokens), "it was cut off"),
        (
            ScriptedReply::text("They chose a file.").with_stop(ScriptedStop::Refusal),
            "the model declined to write it",
        ),
        (
            ScriptedReply::text("I'm sorry, I can't summarise that."),
            "it is an error or a refusal and no summary",
        ),
        (ScriptedReply::text("API Error: 529 overloaded"), "it is an error or a refusal and no summary"),
        (ScriptedReply::text("- \n- …\n"), "it says nothing"),
        (ScriptedReply::text(word.clone()), "it is too long: 803 tokens where 400 are allowed"),
        (ScriptedReply::text(long.clone()), "it is too long: 1700 tokens where 400 are allowed"),
    ] {
        let error = failure(reply).await;
        assert_eq!(error.to_string(), format!("read the summary of anthropic/small: {why}"));
        assert!(matches!(error, SummarizationError::NoSummary { .. }), "{error:?}");
    }
    let blank = failure(ScriptedReply::text("")).await;
    let empty = NoSummaryReason::NoAnswer(UnusableAnswer::Empty);
    assert!(matches!(blank, SummarizationError::NoSummary { why, .. } if why == empty), "{blank:?}");
    for (reply, sort) in [
        (ScriptedReply::text("They").with_fault(ScriptedFault::Half), "read the answer"),
        (ScriptedReply::text("They").with_fault(ScriptedFault::Cut), "read the answer"),
        (ScriptedReply::text("They").with_fault(ScriptedFault::Overloaded), "use anthropic/small"),
        (ScriptedReply::fault(ScriptedFault::BrokenJson), "read the answer"),
        (ScriptedReply::fault(ScriptedFault::Empty), "read the answer"),
        (ScriptedReply::status(401, "{}"), "use anthropic/small: the provider refused the key (401)"),
        (ScriptedReply::status(500, "{}"), "ask anthropic/small"),
    ] {
        let error = failure(reply).await;
        assert!(matches!(error, SummarizationError::Model(_)), "{error:?}");
        assert!(error.to_string().starts_with(sort), "{error}");
    }
}

#[tokio::test]
async fn f6_a_slightly_too_long_summary_is_cut_after_a_whole_sentence() {
    let sentence = "They named the file diary.md and put it where notes are kept. ";
    let desk = TierFixture::new([ScriptedReply::text(sentence.repeat(40))]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let summary =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([1, 4])).await.unwrap().unwrap();
    let (_, text) = summary.summary_text.split_once('\n').unwrap();
    assert!(text.ends_with("where notes are kept."), "{text}");
    let tokens = model::tokens::estimate_tokens(text);
    assert!((380..=400).contains(&tokens), "{tokens}");
}

#[tokio::test]
async fn m16_secrets_are_redacted_before_and_after_the_small_model() {
    let key = "sk-ant-api03-abcdefghijklmnop1234";
    let desk = TierFixture::new([ScriptedReply::text(format!("They spoke of {key} and of the diary."))]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(
        thread_id,
        &[&format!("U: The key is {key}, keep it."), "A: Better not: password=hunter2hunter2"],
    )
    .await;
    let summary =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([1, 2])).await.unwrap().unwrap();
    let asked = desk.model_prompts().concat();
    assert!(!asked.contains(key) && !asked.contains("hunter2") && asked.contains("[redacted]"), "{asked}");
    assert!(!summary.summary_text.contains(key), "{}", summary.summary_text);
    let archived = desk.archived_events(thread_id).await;
    assert_eq!(archived[0].withheld, 4, "two in the turns, one in the answer, one in the thread's name");
    let json = serde_json::to_string(&archived[0]).unwrap();
    assert!(!json.contains(key) && !json.contains("hunter2"), "{json}");
}

#[tokio::test]
async fn m16_an_offline_summary_contains_no_secret() {
    let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let desk = TierFixture::new([]);
    let thread_id = desk.create_thread().await;
    let talk = [
        format!("U: Deploy the harbour with {key}, please."),
        format!("A: I decided to use {key} because it works."),
        "U: And password=hunter2hunter2 for the database?".to_owned(),
    ];
    desk.append_lines(thread_id, &talk.each_ref().map(String::as_str)).await;
    let summary = desk
        .offline_summarization()
        .transfer(&agent_id(), &TurnWindow::from_indexes([1, 3]))
        .await
        .unwrap()
        .unwrap();
    let text = summary.summary_text;
    assert!(!text.contains(key) && !text.contains("hunter2") && text.contains("harbour"), "{text}");
    assert_eq!(desk.archived_events(thread_id).await[0].withheld, 4, "one of them in the thread's name");
}
