//! Tests of answers that break off in the middle: the part that arrived is kept, and the request is sent again.

use std::sync::atomic::Ordering;

use protocol::{AiMessage, Event, Message, RunStatus};
use runtime::{AdmittedRun, Frame, FrameSender, RepeatSafety, StepEntry, SubscriptionItem};
use serde_json::json;
use test_model::{Script, ScriptedFault, ScriptedReply};
use tokio_util::sync::CancellationToken;

use crate::harness::{RuntimeHarness, build_retrying_driver, counting_tool};

/// Returns the messages of the model in the journal, in order.
fn answers(events: &[Event]) -> Vec<AiMessage> {
    let answer = |message| match message {
        Message::Ai(answer) => Some(answer),
        Message::Human(_) | Message::Tool(_) => None,
    };
    events.iter().filter_map(Event::message).filter_map(answer).collect()
}

#[tokio::test]
async fn a17_a_broken_answer_is_kept_as_incomplete_and_none_of_its_calls_is_made() {
    let broken = ScriptedReply::from_pieces(["Let ", "me"]).with_call("c1", "count", json!({}));
    let script = Script::new([
        broken.with_fault(ScriptedFault::Half),
        ScriptedReply::text("I count.").with_call("c2", "count", json!({})),
        ScriptedReply::text("Done."),
    ]);
    let (tool, calls) = counting_tool("count", RepeatSafety::Unsafe);
    let mut harness = RuntimeHarness::new(script, vec![], vec![]).await;
    harness.driver = build_retrying_driver(&harness.store, &harness.server, (vec![tool], vec![]), 1);
    let checkpoint = harness.admit_message("Go.").await;
    let ((frames, mut stream), cancel) = (FrameSender::channel(), CancellationToken::new());
    let admitted = AdmittedRun::new(checkpoint, StepEntry::Fresh);
    let end = harness.driver.drive(admitted, &frames, &cancel).await.unwrap();
    drop(frames);
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let lines = harness.message_lines().await;
    assert_eq!(lines, ["U: Go.", "A: Let me", "A: I count.count#c2", "T#c2: count", "A: Done."]);
    assert_eq!(calls.load(Ordering::SeqCst), 1, "only the call of the complete answer is made");
    let answers = answers(&harness.events().await);
    assert_eq!(answers.iter().map(|answer| answer.incomplete).collect::<Vec<_>>(), [true, false, false]);
    let (mut texts, mut notices) = (Vec::new(), Vec::new());
    while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
        match &*frame {
            Frame::Text { message_id, text } => texts.push((message_id.clone(), text.clone())),
            Frame::Notice { text } => notices.push((texts.len(), text.clone())),
            _ => {}
        }
    }
    let id = |index: usize| answers[index].id.clone().unwrap();
    let expected = [(id(0), "Let "), (id(0), "me"), (id(1), "I count."), (id(2), "Done.")];
    assert_eq!(texts, expected.map(|(id, text)| (id, text.to_owned())), "each answer has an id of its own");
    let [(2, notice)] = &notices[..] else { panic!("{notices:?}") };
    assert!(notice.contains("the connection closed") && notice.contains("stop the run"), "{notice}");
    let requests = harness.server.requests();
    assert_eq!(requests[0].body["messages"], requests[1].body["messages"]);
    assert!(!requests[2].body.to_string().contains("Let me"), "the whole answer replaces its part");
}

#[tokio::test]
async fn a17_a_run_that_is_stopped_while_it_waits_for_a_retry_keeps_the_broken_answer() {
    let broken = ScriptedReply::text("Let me").with_fault(ScriptedFault::Half).with_repeat();
    let mut harness = RuntimeHarness::new(Script::new([broken]), vec![], vec![]).await;
    harness.driver = build_retrying_driver(&harness.store, &harness.server, (vec![], vec![]), 1);
    let checkpoint = harness.admit_message("Go.").await;
    let ((frames, mut stream), cancel) = (FrameSender::channel(), CancellationToken::new());
    let admitted = AdmittedRun::new(checkpoint, StepEntry::Fresh);
    let run = harness.driver.drive(admitted, &frames, &cancel);
    let stop = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
            if matches!(&*frame, Frame::Notice { .. }) {
                break;
            }
        }
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: Let me"]);
    assert_eq!(harness.server.call_count(), 1, "the request is not sent again");
}
