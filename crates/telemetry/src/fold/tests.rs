//! Tests of the spans that the fold makes from the events of a thread. The export of spans is tested elsewhere.

use jiff::{SignedDuration, Timestamp};
use protocol::{ContentBlock, NewEvent};
use serde_json::json;

use super::*;

const THREAD: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";
const HANDOFF: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910aff";
const QUESTION: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn run(number: u8) -> RunId {
    format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{number:02x}").parse().unwrap()
}

fn origin() -> ThreadOrigin {
    ThreadOrigin { thread_id: THREAD.parse().unwrap(), assistant_id: "agent".to_owned(), caller: None }
}

/// The events of a thread, one second apart.
#[derive(Default)]
struct EventScript {
    events: Vec<Event>,
    run_id: Option<RunId>,
}

impl EventScript {
    fn in_run(mut self, number: u8) -> Self {
        self.run_id = Some(run(number));
        self
    }

    fn outside(mut self) -> Self {
        self.run_id = None;
        self
    }

    fn event(mut self, kind: EventType, content: Value) -> Self {
        let seq = self.events.len() as u64 + 1;
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::try_from(seq).unwrap());
        let mut new = NewEvent::new(kind, &content, at).unwrap();
        new.run_id = self.run_id;
        self.events.push(Event::from_new(new, THREAD.parse().unwrap(), seq));
        self
    }

    fn with_duration(mut self, millis: u64) -> Self {
        let event = self.events.last_mut().unwrap();
        event.metadata = Some(serde_json::value::to_raw_value(&json!({"duration_ms": millis})).unwrap());
        self
    }

    fn with_run_started(self, how: &str) -> Self {
        self.event(EventType::RunStarted, json!({"how": how, "model": "anthropic/claude-sonnet-4-5"}))
    }

    fn with_message(self, text: &str) -> Self {
        self.event(EventType::HumanMessage, json!({"content": [{"type": "text", "text": text}]}))
    }

    fn with_answer(self, text: &str, calls: &[(&str, &str)]) -> Self {
        let mut content = vec![ContentBlock::text(text)];
        content.extend(calls.iter().map(|(id, name)| ContentBlock::ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            args: json!({"path": "a"}),
        }));
        let usage = json!({"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 40});
        self.event(
            EventType::AiMessage,
            json!({"content": content, "model": "anthropic/claude-sonnet-4-5", "usage": usage, "stop": "end_turn"}),
        )
    }

    fn with_tool_result(self, call_id: &str, status: &str, text: &str) -> Self {
        self.event(
            EventType::ToolMessage,
            json!({"call_id": call_id, "name": "read_file", "status": status,
                   "content": [{"type": "text", "text": text}]}),
        )
    }

    fn with_draft_call(self, iteration: u32, feedback: &str) -> Self {
        let summary_type = if feedback.is_empty() { "initial" } else { "refinement" };
        let content = json!({
            "purpose": "handoff_summary", "handoff_id": HANDOFF, "model": "openai/gpt-5",
            "usage": {"input_tokens": 900, "output_tokens": 90}, "prompt_sha256": "ab", "error": null,
            "trace": {
                "name": format!("generate_handoff_summary_iter_{iteration}"),
                "metadata": {
                    "handoff_iteration": iteration, "has_feedback": !feedback.is_empty(),
                    "feedback_preview": feedback, "summary_type": summary_type, "parent_thread_id": THREAD,
                    "assistant_id": "agent", "handoff_id": HANDOFF,
                },
                "tags": ["handoff-summary", format!("iteration-{iteration}"), summary_type],
            },
        });
        self.event(EventType::ModelCalled, content).with_duration(700)
    }

    fn with_proposal(self, iteration: u32) -> Self {
        let content = json!({"handoff_id": HANDOFF, "iteration": iteration, "summary_sha256": "cd"});
        self.event(EventType::HandoffProposed, content)
    }

    fn with_interrupt(self) -> Self {
        self.event(
            EventType::RunInterrupted,
            json!({"interrupt_ids": [QUESTION], "actions": ["handoff_summary"]}),
        )
    }

    fn with_run_end(self, status: &str) -> Self {
        self.event(EventType::RunEnded, json!({"status": status, "steps": 3}))
    }

    fn spans(&self) -> Vec<TraceSpan> {
        let mut fold = SpanFold::new(origin());
        self.events.iter().for_each(|event| fold.apply_event(event));
        let mut spans = fold.take_finished();
        spans.extend(fold.open_spans());
        spans
    }
}

/// Returns the spans as a tree, one span per line: name, start and end in milliseconds, and outcome.
fn span_tree(spans: &[TraceSpan]) -> String {
    fn below(spans: &[TraceSpan], parent: Option<SpanId>, depth: usize, lines: &mut Vec<String>) {
        let is_known = |id: SpanId| spans.iter().any(|span| span.span_id == id);
        let mut siblings: Vec<&TraceSpan> =
            spans.iter().filter(|span| span.parent_id.filter(|id| is_known(*id)) == parent).collect();
        siblings.sort_by_key(|span| (span.start, span.seq));
        for span in siblings {
            let end = span.end.map_or("…".to_owned(), |end| end.as_millisecond().to_string());
            let outcome = serde_json::to_value(&span.outcome).unwrap();
            let reason = outcome.get("reason").map(|reason| format!(" {reason}")).unwrap_or_default();
            let start = span.start.as_millisecond();
            let lead = "  ".repeat(depth);
            lines.push(format!(
                "{lead}{} {start}–{end} {}{reason}",
                span.name,
                outcome["state"].as_str().unwrap()
            ));
            below(spans, Some(span.span_id), depth + 1, lines);
        }
    }
    let mut lines = Vec::new();
    below(spans, None, 0, &mut lines);
    lines.join("\n")
}

fn turn_script() -> EventScript {
    EventScript::default()
        .in_run(1)
        .with_message("What does it say?")
        .with_run_started("admitted")
        .with_answer("Let me look.", &[("c1", "read_file"), ("c2", "read_file")])
        .with_duration(600)
        .event(
            EventType::ToolCallDecided,
            json!({"call_id": "c1", "tool": "read_file", "decision": "allow", "by": "rule"}),
        )
        .with_tool_result("c1", "success", "It says hi.")
        .with_duration(250)
        .with_tool_result("c2", "error", "no such file")
        .with_answer("It says hi.", &[])
        .with_run_end("success")
}

/// A handoff that is drafted three times and accepted, and the first turn of its child.
fn handoff_script() -> EventScript {
    let about = |extra: Value| {
        let mut content = json!({"handoff_id": HANDOFF});
        content.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        content
    };
    let refined = |text: &str| about(json!({"iteration": 0, "feedback": text}));
    EventScript::default()
        .in_run(1)
        .event(EventType::HandoffRequested, about(json!({"goal": null, "initiated_by": "user"})))
        .with_run_started("admitted")
        .with_draft_call(0, "")
        .with_proposal(0)
        .with_interrupt()
        .in_run(2)
        .event(EventType::HandoffRefined, refined("name the file"))
        .with_run_started("resumed")
        .with_draft_call(1, "name the file")
        .with_draft_call(1, "name the file")
        .with_proposal(1)
        .with_interrupt()
        .in_run(3)
        .event(EventType::HandoffRefined, refined("shorter; password=hunter2hunter2"))
        .with_run_started("resumed")
        .with_proposal(2)
        .with_interrupt()
        .in_run(4)
        .with_run_started("resumed")
        .event(
            EventType::HandoffAccepted,
            about(json!({"iteration": 2, "summary_sha256": "cd", "child_thread_id": THREAD})),
        )
        .event(EventType::HandoffSeeded, about(json!({"file": "agent.md", "error": null})))
        .with_run_end("success")
        .in_run(5)
        .with_message("Go on.")
        .with_run_started("admitted")
        .with_answer("Done.", &[])
        .outside()
        .event(EventType::HandoffCleaned, about(json!({})))
        .in_run(5)
        .with_run_end("success")
        .outside()
        .event(
            EventType::HandoffMirrored,
            about(json!({"accepted_at": "1970-01-01T00:00:17Z", "error": null})),
        )
}

#[test]
fn a_turn_has_steps_with_their_model_and_tool_calls() {
    insta::assert_snapshot!(span_tree(&turn_script().spans()), @"
    run 1000–8000 done
      step 1 2400–6000 done
        chat claude-sonnet-4-5 2400–3000 done
        execute_tool read_file 3000–6000 failed \"no such file\"
        execute_tool read_file 4750–5000 done
      step 2 6000–7000 done
        chat claude-sonnet-4-5 6000–7000 done
    ");
}

#[test]
fn g4_each_draft_has_a_span_of_its_own_in_the_run_it_was_made_in() {
    let spans = handoff_script().spans();
    insta::assert_snapshot!(span_tree(&spans), @"
    run 1000–5000 waiting
      handoff_requested 1000–1000 done
      generate_handoff_summary_iter_0 2300–4000 done
        chat gpt-5 2300–3000 done
      interrupt 5000–5000 waiting
    run 6000–11000 waiting
      handoff_refined 6000–6000 done
      resume 7000–7000 done
      generate_handoff_summary_iter_1 7300–10000 done
        chat gpt-5 7300–8000 done
        chat gpt-5 8300–9000 done
      interrupt 11000–11000 waiting
    run 12000–15000 waiting
      handoff_refined 12000–12000 done
      resume 13000–13000 done
      generate_handoff_summary_iter_2 13000–14000 done
      interrupt 15000–15000 waiting
    run 16000–19000 done
      resume 16000–16000 done
      accept_handoff 16000–18000 done
        seed_agent_md 17000–18000 done
      mirror_handoff 17000–25000 done
    run 20000–24000 done
      step 1 21000–22000 done
        chat claude-sonnet-4-5 21000–22000 done
      handoff_cleanup 23000–23000 done
    ");
    let drafts: Vec<&TraceSpan> = spans.iter().filter(|span| span.kind == TraceSpanKind::Draft).collect();
    insta::assert_json_snapshot!(
        drafts.iter().map(|span| json!([span.name, span.tags, span.metadata])).collect::<Vec<_>>()
    );
}

#[test]
fn a_resumed_run_is_linked_to_its_interrupt() {
    let spans = handoff_script().spans();
    let asked: Vec<&TraceSpan> = spans.iter().filter(|span| span.kind == TraceSpanKind::Interrupt).collect();
    let resumed: Vec<&TraceSpan> = spans.iter().filter(|span| span.kind == TraceSpanKind::Resume).collect();
    assert_eq!((asked.len(), resumed.len()), (3, 3));
    for (question, answer) in asked.iter().zip(resumed) {
        assert_eq!(answer.links, [TraceSpanLink { trace_id: question.trace_id, span_id: question.span_id }]);
        assert_ne!(answer.trace_id, question.trace_id, "each run is a trace of its own");
    }
}

#[test]
fn unfinished_spans_end_with_their_run_and_open_spans_have_no_end() {
    let cut = EventScript::default()
        .in_run(1)
        .with_message("Go.")
        .with_run_started("admitted")
        .with_answer("", &[("c1", "execute")]);
    insta::assert_snapshot!(span_tree(&cut.spans()), @"
    run 1000–… working
      step 1 2000–… working
        chat claude-sonnet-4-5 2000–3000 done
        execute_tool execute 3000–… working
    ");
    let cut = cut.event(
        EventType::RunFailed,
        json!({"kind": "model", "message": "no way, token sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}),
    );
    insta::assert_snapshot!(span_tree(&cut.spans()), @r#"
    run 1000–4000 failed "no way, token [redacted]"
      step 1 2000–4000 stopped
        chat claude-sonnet-4-5 2000–3000 done
        execute_tool execute 3000–4000 stopped
      chat claude-sonnet-4-5 3000–4000 failed "no way, token [redacted]"
    "#);
}

#[test]
fn compactions_and_memory_summaries_contain_their_model_calls() {
    let called = |purpose: &str| {
        json!({"purpose": purpose, "model": "openai/gpt-5", "usage": {"input_tokens": 9, "output_tokens": 1},
               "prompt_sha256": "ab", "problem": null})
    };
    let script = EventScript::default()
        .in_run(1)
        .with_message("Go.")
        .with_run_started("admitted")
        .event(EventType::ModelCalled, called("compaction"))
        .with_duration(300)
        .event(EventType::CompactionFailed, json!({"trigger": "auto", "reason": "it would hardly be smaller"}))
        .with_run_end("success")
        .outside()
        .event(EventType::ModelCalled, called("transfer"))
        .with_duration(500)
        .event(
            EventType::TurnsArchived,
            json!({"schema_version": 1, "summary_id": HANDOFF, "reason": "budget", "first_seq": 1, "last_seq": 4, "turn_count": 4,
                   "turn_range_start": 1, "turn_range_end": 4, "summary": "x", "model": "openai/gpt-5"}),
        );
    insta::assert_snapshot!(span_tree(&script.spans()), @r#"
    run 1000–5000 done
      compaction 2700–4000 failed "it would hardly be smaller"
        chat gpt-5 2700–3000 done
    transfer 5500–7000 done
      chat gpt-5 5500–6000 done
    "#);
}

#[test]
fn a_failed_draft_has_a_failed_span_with_its_failed_call() {
    let mut script = EventScript::default()
        .in_run(1)
        .with_message("Go.")
        .with_run_started("admitted")
        .with_draft_call(0, "");
    let last = script.events.last_mut().unwrap();
    let mut content = last.content_value();
    content["error"] = json!("no draft");
    last.content = serde_json::value::to_raw_value(&content).unwrap();
    let script = script.event(EventType::RunFailed, json!({"kind": "model", "message": "refused (401)"}));
    insta::assert_snapshot!(span_tree(&script.spans()), @r#"
    run 1000–4000 failed "refused (401)"
      generate_handoff_summary_iter_0 2300–4000 failed "no draft"
        chat gpt-5 2300–3000 failed "no draft"
    "#);
}

#[test]
fn repeated_messages_of_another_branch_make_no_spans() {
    let mut script = turn_script().in_run(1).with_answer("It says hi.", &[]);
    script.events.last_mut().unwrap().metadata =
        Some(serde_json::value::to_raw_value(&json!({"again": 4})).unwrap());
    assert_eq!(script.spans(), turn_script().spans());
}

#[test]
fn background_calls_without_a_summary_have_their_own_spans() {
    let call =
        json!({"purpose": "transfer", "model": "openai/gpt-5", "prompt_sha256": "ab", "problem": "refused"});
    let script = EventScript::default().event(EventType::ModelCalled, call);
    let spans = script.spans();
    assert_eq!((spans.len(), &spans[0].outcome), (1, &SpanOutcome::Failed("refused".to_owned())));
    let mut fold = SpanFold::new(origin());
    script.in_run(1).with_message("Go.").events.iter().for_each(|event| fold.apply_event(event));
    assert_eq!(fold.take_finished(), spans);
}

#[test]
fn a_decline_message_is_content_and_a_failure_reason_is_an_outcome() {
    let about = |key: &str, said: &str| json!({"handoff_id": HANDOFF, key: said});
    let script = EventScript::default()
        .event(EventType::HandoffDeclined, about("message", "too early"))
        .event(EventType::HandoffFailed, about("reason", "the journal is full"))
        .in_run(1)
        .event(
            EventType::HandoffRequested,
            json!({"handoff_id": HANDOFF, "goal": "the spout", "initiated_by": "user"}),
        );
    let mut fold = SpanFold::new(origin());
    script.events.iter().for_each(|event| fold.apply_event(event));
    let spans = fold.take_finished();
    let inputs: Vec<Option<&str>> = spans.iter().map(|span| span.input.as_deref()).collect();
    assert_eq!(inputs, [Some("too early"), None, Some("the spout")]);
    assert!(spans[..2].iter().all(|span| span.metadata.is_empty()), "{spans:?}");
    assert_eq!(spans[2].metadata, text::select_fields(&json!({"initiated_by": "user"}), &["initiated_by"]));
    assert_eq!(spans[1].outcome, SpanOutcome::Failed("the journal is full".to_owned()));
}

#[test]
fn events_copied_by_a_fork_make_no_spans() {
    let script = turn_script()
        .outside()
        .event(EventType::ThreadCreated, json!({"origin": "fork"}))
        .in_run(2)
        .with_message("And now?")
        .with_run_started("admitted")
        .with_answer("This.", &[])
        .with_run_end("success");
    let spans = script.spans();
    assert!(spans.iter().all(|span| span.run_id == Some(run(2))), "{spans:?}");
    assert_eq!(spans.iter().filter(|span| span.kind == TraceSpanKind::Run).count(), 1);
}

#[test]
fn m16_no_secret_is_in_a_span() {
    let key = "sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let script = EventScript::default()
        .in_run(1)
        .with_message(&format!("my key is {key}"))
        .with_run_started("admitted")
        .with_answer(&format!("yours is {key}"), &[("c1", "read_file")])
        .with_tool_result("c1", "error", &format!("refused {key}"))
        .event(
            EventType::HandoffRefined,
            json!({"handoff_id": HANDOFF, "iteration": 0, "feedback": format!("use {key}")}),
        )
        .event(EventType::HandoffFailed, json!({"handoff_id": HANDOFF, "reason": format!("said {key}")}))
        .event(EventType::RunFailed, json!({"kind": "model", "message": format!("with {key}")}));
    let spans = script.spans();
    assert!(spans.iter().any(|span| span.output.is_some() && span.input.is_some()));
    assert!(!format!("{spans:?}").contains(key), "{spans:#?}");
}

#[test]
fn the_same_events_give_the_same_spans_in_any_batches() {
    for script in [turn_script(), handoff_script()] {
        let mut fold = SpanFold::new(origin());
        let mut spans = Vec::new();
        for event in &script.events {
            fold.apply_event(event);
            spans.extend(fold.take_finished());
        }
        assert!(fold.is_idle());
        assert_eq!(spans, script.spans());
        let mut ids: Vec<SpanId> = spans.iter().map(|span| span.span_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), spans.len(), "no two are the same");
        for span in &spans {
            let is_there =
                |id: SpanId| spans.iter().any(|other| other.span_id == id && other.trace_id == span.trace_id);
            assert!(span.parent_id.is_none_or(is_there), "{span:?}");
        }
    }
}
