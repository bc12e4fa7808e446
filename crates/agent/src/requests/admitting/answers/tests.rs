//! Answers and what they are for, one line each.

use jiff::Timestamp;
use protocol::{InterruptPayload, InterruptStatus, RunId, ThreadId};
use serde_json::json;

use super::*;

fn interrupt(run_id: RunId, step: u64, node: &str) -> Interrupt {
    Interrupt {
        interrupt_id: InterruptId::derive(run_id, step, node),
        thread_id: ThreadId::from_uuid(run_id.uuid()),
        run_id,
        node: node.to_owned(),
        payload: InterruptPayload {
            schema_version: 1,
            middleware_source: "Test".to_owned(),
            action_requests: Vec::new(),
            review_configs: Vec::new(),
        },
        status: InterruptStatus::Pending,
        decisions: None,
        created_at: Timestamp::UNIX_EPOCH,
        resolved_at: None,
    }
}

fn named(ids: &[InterruptId]) -> Answers {
    Answers::Named(ids.iter().map(|id| (*id, Value::Null)).collect())
}

/// Returns the steps of the interrupts that are answered, or the fault.
fn found(
    answers: Answers,
    (pending, step): (&[Interrupt], &[usize]),
    strictness: Strictness,
) -> Result<Vec<usize>, (&'static str, String)> {
    let step: Vec<InterruptId> = step.iter().map(|at| pending[*at].interrupt_id).collect();
    let found = matched(answers, (pending, &step), strictness);
    let at = |interrupt: &Interrupt| pending.iter().position(|other| other == interrupt).unwrap();
    found
        .map(|found| found.into_iter().map(|(interrupt, _)| at(interrupt)).collect())
        .map_err(|fault| (fault.name, fault.message.split(':').next().unwrap().to_owned()))
}

#[test]
fn each_answer_finds_its_question_or_the_fault_says_why_not() {
    use Strictness::{Lenient, Strict};
    let run = RunId::generate();
    let pending = [interrupt(run, 1, "after_model"), interrupt(run, 2, "tools"), interrupt(run, 3, "tools")];
    let ids: Vec<InterruptId> = pending.iter().map(|interrupt| interrupt.interrupt_id).collect();
    let gone = InterruptId::derive(run, 9, "tools");
    let only = || Answers::Only(json!("yes"));
    let fault = |name, why: &str| Err((name, why.to_owned()));
    let check = |answers: Answers, pending: (&[Interrupt], &[usize]), lenient, strict| {
        assert_eq!(found(answers.clone(), pending, Lenient), lenient, "{answers:?}");
        assert_eq!(found(answers.clone(), pending, Strict), strict, "strict: {answers:?}");
    };
    check(only(), (&[], &[]), Ok(vec![]), fault("UnknownInterruptError", "not_pending"));
    check(only(), (&pending[..1], &[]), Ok(vec![0]), Ok(vec![0]));
    check(only(), (&pending[..2], &[1]), Ok(vec![1]), fault("UnknownInterruptError", "ambiguous"));
    let ambiguous = fault("AmbiguousResumeError", "ambiguous");
    check(only(), (&pending, &[1, 2]), ambiguous.clone(), fault("UnknownInterruptError", "ambiguous"));
    check(only(), (&pending, &[]), ambiguous, fault("UnknownInterruptError", "ambiguous"));
    check(named(&[]), (&pending, &[]), Ok(vec![]), fault("UnknownInterruptError", "empty_map"));
    check(named(&ids[2..]), (&pending, &[]), Ok(vec![2]), Ok(vec![2]));
    check(named(&[gone]), (&pending, &[]), Ok(vec![]), fault("UnknownInterruptError", "not_pending"));
    let one_gone = named(&[ids[0], gone]);
    check(one_gone, (&pending, &[]), Ok(vec![0]), fault("UnknownInterruptError", "not_pending"));
}

#[test]
fn g3_decisions_are_read_as_clients_of_the_wire_write_them() {
    let id = InterruptId::derive(RunId::generate(), 1, "after_model");
    let types = |answer: Value| -> Result<Vec<&'static str>, &'static str> {
        let read = decided(id, &answer).map_err(|fault| fault.name)?;
        Ok(read.decisions.iter().map(protocol::Decision::type_name).collect())
    };
    let edited = json!({"name": "write_file", "args": {"path": "a"}});
    let approve = json!({"type": "approve"});
    for answer in [json!({"decisions": [approve]}), json!([approve]), approve.clone()] {
        assert_eq!(types(answer.clone()), Ok(vec!["approve"]), "{answer}");
    }
    let twin = json!({"decisions": [{"type": "edit", "edited_action": edited, "editedAction": edited}]});
    assert_eq!(types(twin), Ok(vec!["edit"]));
    let alone =
        json!({"decisions": [{"type": "edit", "editedAction": edited}, {"type": "reject", "message": "no"}]});
    assert_eq!(types(alone), Ok(vec!["edit", "reject"]));
    assert_eq!(types(json!({"decisions": [{"type": "approve", "id": 3}], "more": 1})), Ok(vec!["approve"]));
    for bad in [
        json!("yes"),
        json!(true),
        json!({"decisions": "approve"}),
        json!({"decisions": [{"type": "accept"}]}),
        json!({"decisions": [{"type": "edit"}]}),
        json!({"type": "respond"}),
        json!({"answer": 1}),
    ] {
        assert_eq!(types(bad.clone()), Err("InvalidDecisionError"), "{bad}");
    }
}
