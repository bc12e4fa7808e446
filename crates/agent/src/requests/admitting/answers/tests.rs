//! Answers and what they are for, one line each.

use jiff::Timestamp;
use protocol::{InterruptPayload, InterruptStatus, RunId, ThreadId};

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
            workspace: None,
        },
        status: InterruptStatus::Pending,
        decisions: None,
        created_at: Timestamp::UNIX_EPOCH,
        resolved_at: None,
    }
}

fn answer() -> Answer {
    Ok(Decisions { decisions: Vec::new() })
}

fn named(ids: &[InterruptId]) -> Answers {
    Answers::Named(ids.iter().map(|id| (*id, answer())).collect())
}

/// Returns the steps of the interrupts that are answered, or the fault.
fn found(
    answers: Answers,
    (pending, step): (&[Interrupt], &[usize]),
    strictness: Strictness,
) -> Result<Vec<usize>, (&'static str, String)> {
    let step: Vec<InterruptId> = step.iter().map(|at| pending[*at].interrupt_id).collect();
    let found = matched(answers, pending, &step, strictness);
    let at = |interrupt: &Interrupt| pending.iter().position(|other| other == interrupt).unwrap();
    found
        .map(|found| found.into_iter().map(|(interrupt, _)| at(interrupt)).collect())
        .map_err(|fault| (fault.kind.class_name(), fault.message.split(':').next().unwrap().to_owned()))
}

#[test]
fn each_answer_finds_its_question_or_the_fault_says_why_not() {
    use Strictness::{Lenient, Strict};
    let run = RunId::generate();
    let pending = [interrupt(run, 1, "after_model"), interrupt(run, 2, "tools"), interrupt(run, 3, "tools")];
    let ids: Vec<InterruptId> = pending.iter().map(|interrupt| interrupt.interrupt_id).collect();
    let gone = InterruptId::derive(run, 9, "tools");
    let only = || Answers::Only(answer());
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
