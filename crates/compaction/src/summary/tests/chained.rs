//! Compactions of one thread, one after the other: nothing that is carried over is lost, and nothing grows.

use super::*;

/// Compactions in a row.
const CHAINED: usize = 10;
/// Messages that each of them condenses.
const MESSAGES: usize = 500;

/// Returns messages of ordinary work with facts of their own.
fn span(number: usize) -> String {
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
    for at in lines.len()..MESSAGES {
        let id = format!("r{number}_{at}");
        lines.push(match at % 3 {
            0 => format!("C: {id} read_file {{\"path\": \"src/other_{}.rs\"}}", at % 30),
            1 => format!("T: r{number}_{} fn main() {{}}", at - 1),
            _ => format!("A: I looked at part {at} of span {number}."),
        });
    }
    lines.join("\n")
}

#[tokio::test]
async fn e12_ten_compactions_in_a_row_keep_every_fact_that_is_carried_over() {
    let mut previous: Option<Compaction> = None;
    for number in 0..CHAINED {
        let told = extracted(&units(&span(number)), previous.as_ref(), None).await;
        let carried = &told.carry_over;
        for planted in 0..=number {
            let has = |list: &[String], fact: &str| list.iter().any(|entry| entry.contains(fact));
            let where_ = format!("planted in {planted}, looked for after {number}: {carried:#?}");
            assert!(has(&carried.files_modified, &format!("planted_{planted}.rs")), "{where_}");
            assert!(has(&carried.skills, &format!("skill-{planted}")), "{where_}");
            assert!(has(&carried.delegations, &format!("survey area {planted}")), "{where_}");
            assert!(has(&carried.errors, &format!("host_{planted}.internal")), "{where_}");
            assert!(has(&told.sections.user_messages, &format!("orders_{planted}")), "{:#?}", told.sections);
            assert!(has(&told.sections.constraints, &format!("keep_{planted}.lock")), "{:#?}", told.sections);
            assert!(has(&told.sections.decisions, &format!("plan {planted} ")), "{:#?}", told.sections);
            for fact in [
                format!("planted_{planted}.rs"),
                format!("orders_{planted}"),
                format!("host_{planted}.internal"),
            ] {
                assert!(told.summary.contains(&fact), "{fact} is not told after {number}: {}", told.summary);
            }
        }
        assert!(told.sections.goal.contains("orders_0"), "{}", told.sections.goal);
        previous = Some(stored(&told));
    }
}

#[tokio::test]
async fn e12_what_is_kept_does_not_grow_with_the_number_of_compactions() {
    let mut previous: Option<Compaction> = None;
    for number in 0..60 {
        let told = extracted(&units(&span(number))[..40], previous.as_ref(), None).await;
        assert!(model::tokens::fits(&told.summary, OPTIONS.max_summary_tokens), "after {number}");
        let bytes = serde_json::to_string(&stored(&told)).unwrap().len();
        assert!(bytes < 100_000, "{bytes} after {number}");
        assert!(told.carry_over.files_modified.len() <= 200 && told.carry_over.skills.len() <= 50);
        assert_eq!(
            told.carry_over.files_modified[0],
            format!("src/planted_{number}.rs"),
            "recent ones first"
        );
        previous = Some(stored(&told));
    }
    let last = previous.expect("there were some").sections;
    assert!(last.user_messages.len() <= 48);
    assert!(last.user_messages[0].contains("orders_0"), "the first request stays");
    assert!(last.user_messages.last().expect("there are some").contains("orders_59"));
}
