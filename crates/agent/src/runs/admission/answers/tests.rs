//! Table tests for the matching of answers to interrupts.

use jiff::Timestamp;
use protocol::{InterruptPayload, InterruptStatus, RunId, ThreadId};

use super::*;

/// Returns a pending interrupt of that node.
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
            workspace: None,
        },
        status: InterruptStatus::Pending,
        decisions: None,
        created_at: Timestamp::UNIX_EPOCH,
        resolved_at: None,
    }
}

/// Returns an answer without decisions.
fn answer() -> ParsedAnswer {
    Ok(Decisions { decisions: Vec::new() })
}

/// Returns an answer for each of the interrupts.
fn named_answers(ids: &[InterruptId]) -> InterruptAnswers {
    InterruptAnswers::Named(ids.iter().map(|id| (*id, answer())).collect())
}

/// Returns the indexes of the interrupts that are answered, or the class and the code of the failure.
fn matched_steps(
    answers: InterruptAnswers,
    (pending, step): (&[Interrupt], &[usize]),
    strictness: AnswerStrictness,
) -> Result<Vec<usize>, (&'static str, String)> {
    let step: Vec<InterruptId> = step.iter().map(|index| pending[*index].interrupt_id).collect();
    let matched = match_answers(answers, pending, &step, strictness);
    let index_of = |interrupt: &Interrupt| pending.iter().position(|other| other == interrupt).unwrap();
    matched
        .map(|matched| matched.into_iter().map(|(interrupt, _)| index_of(interrupt)).collect())
        .map_err(|fault| (fault.kind.class_name(), fault.message.split(':').next().unwrap().to_owned()))
}

#[test]
fn each_answer_is_matched_to_its_question_or_fails_with_a_reason() {
    use AnswerStrictness::{Lenient, Strict};
    let run = RunId::generate();
    let pending = [interrupt(run, 1, "after_model"), interrupt(run, 2, "tools"), interrupt(run, 3, "tools")];
    let ids: Vec<InterruptId> = pending.iter().map(|interrupt| interrupt.interrupt_id).collect();
    let unknown = InterruptId::derive(run, 9, "tools");
    let only = || InterruptAnswers::Only(answer());
    let fault = |name, code: &str| Err((name, code.to_owned()));
    let check = |answers: InterruptAnswers, pending: (&[Interrupt], &[usize]), lenient, strict| {
        assert_eq!(matched_steps(answers.clone(), pending, Lenient), lenient, "{answers:?}");
        assert_eq!(matched_steps(answers.clone(), pending, Strict), strict, "strict: {answers:?}");
    };
    check(only(), (&[], &[]), Ok(vec![]), fault("UnknownInterruptError", "not_pending"));
    check(only(), (&pending[..1], &[]), Ok(vec![0]), Ok(vec![0]));
    check(only(), (&pending[..2], &[1]), Ok(vec![1]), fault("UnknownInterruptError", "ambiguous"));
    let ambiguous = fault("AmbiguousResumeError", "ambiguous");
    check(only(), (&pending, &[1, 2]), ambiguous.clone(), fault("UnknownInterruptError", "ambiguous"));
    check(only(), (&pending, &[]), ambiguous, fault("UnknownInterruptError", "ambiguous"));
    check(named_answers(&[]), (&pending, &[]), Ok(vec![]), fault("UnknownInterruptError", "empty_map"));
    check(named_answers(&ids[2..]), (&pending, &[]), Ok(vec![2]), Ok(vec![2]));
    check(
        named_answers(&[unknown]),
        (&pending, &[]),
        Ok(vec![]),
        fault("UnknownInterruptError", "not_pending"),
    );
    let one_unknown = named_answers(&[ids[0], unknown]);
    check(one_unknown, (&pending, &[]), Ok(vec![0]), fault("UnknownInterruptError", "not_pending"));
}
