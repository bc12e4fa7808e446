//! Tests of consecutive compactions of a thread: no carried-over fact is lost, and the stored size is bounded.

use super::*;

/// The number of consecutive compactions.
const COMPACTIONS: usize = 10;
/// The number of messages that each compaction replaces.
const MESSAGES: usize = 500;

/// Returns messages of ordinary work with facts that contain `number`.
fn message_span(number: usize) -> String {
    let mut lines = vec![
        format!(
            "U: In part {number}, rename the table orders_{number} and never touch the file keep_{number}.lock."
        ),
        format!("C: w{number} write_file {{\"path\": \"src/planted_{number}.rs\", \"content\": \"x\"}}"),
        format!("T: w{number} ok"),
        format!("C: s{number} load_skill {{\"name\": \"skill-{number}\"}}"),
        format!("T: s{number} Read."),
        format!("C: d{number} task {{\"description\": \"survey area {number}\"}}"),
        format!("T: d{number} Surveyed."),
        format!("C: e{number} deploy {{\"target\": \"host_{number}\"}}"),
        format!("E: e{number} error: host_{number}.internal refused the connection"),
        format!("A: We decided to use plan {number} for the orders."),
    ];
    for index in lines.len()..MESSAGES {
        let id = format!("r{number}_{index}");
        lines.push(match index % 3 {
            0 => format!("C: {id} read_file {{\"path\": \"src/other_{}.rs\"}}", index % 30),
            1 => format!("T: r{number}_{} fn main() {{}}", index - 1),
            _ => format!("A: I looked at part {index} of span {number}."),
        });
    }
    lines.join("\n")
}

#[tokio::test]
async fn e12_ten_compactions_in_a_row_keep_every_fact_that_is_carried_over() {
    let mut previous: Option<Compaction> = None;
    for number in 0..COMPACTIONS {
        let outcome =
            summarize_offline(&parse_messages(&message_span(number)), previous.as_ref(), None).await;
        let carried = &outcome.carried;
        for planted in 0..=number {
            let has = |list: &[String], fact: &str| list.iter().any(|entry| entry.contains(fact));
            let context = format!("planted in {planted}, looked for after {number}: {carried:#?}");
            assert!(has(&carried.files.changed, &format!("planted_{planted}.rs")), "{context}");
            assert!(has(&carried.skills, &format!("skill-{planted}")), "{context}");
            assert!(has(&carried.delegations, &format!("survey area {planted}")), "{context}");
            assert!(has(&carried.errors, &format!("host_{planted}.internal")), "{context}");
            assert!(
                has(&outcome.sections.user_messages, &format!("orders_{planted}")),
                "{:#?}",
                outcome.sections
            );
            assert!(
                has(&outcome.sections.constraints, &format!("keep_{planted}.lock")),
                "{:#?}",
                outcome.sections
            );
            assert!(has(&outcome.sections.decisions, &format!("plan {planted} ")), "{:#?}", outcome.sections);
            for fact in [
                format!("planted_{planted}.rs"),
                format!("orders_{planted}"),
                format!("host_{planted}.internal"),
            ] {
                assert!(
                    outcome.summary.contains(&fact),
                    "{fact} is missing after {number}: {}",
                    outcome.summary
                );
            }
        }
        assert!(outcome.sections.goal.contains("orders_0"), "{}", outcome.sections.goal);
        previous = Some(to_compaction(&outcome));
    }
}

#[tokio::test]
async fn e12_the_stored_size_does_not_grow_with_the_number_of_compactions() {
    let mut previous: Option<Compaction> = None;
    for number in 0..60 {
        let outcome =
            summarize_offline(&parse_messages(&message_span(number))[..40], previous.as_ref(), None).await;
        assert!(model::tokens::fits(&outcome.summary, OPTIONS.max_summary_tokens), "after {number}");
        let bytes = serde_json::to_string(&to_compaction(&outcome)).unwrap().len();
        assert!(bytes < 100_000, "{bytes} after {number}");
        assert!(outcome.carried.files.changed.len() <= 200 && outcome.carried.skills.len() <= 50);
        assert_eq!(outcome.carried.files.changed[0], format!("src/planted_{number}.rs"), "recent ones first");
        previous = Some(to_compaction(&outcome));
    }
    let last = previous.expect("there were some").sections;
    assert!(last.user_messages.len() <= 48);
    assert!(last.user_messages[0].contains("orders_0"), "the first request stays");
    assert!(last.user_messages.last().expect("there are some").contains("orders_59"));
}
