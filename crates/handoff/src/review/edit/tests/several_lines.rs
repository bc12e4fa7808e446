//! Tests of facts that keep the line breaks of their texts: a request, a goal or a pin.

use protocol::MessageRole;
use protocol::PinnedText;

use super::*;

/// A request with a paragraph, code, a heading, a list and a table.
const REQUEST: &str = "Port this:\n\n```rust\nfn a() {\n    if x < 1 {  }\n\n}\n```\n\n### Commands\n- test it\n**Rules**\n\\# no heading\n| a  | b |";

/// Returns the shown summary with that request.
fn summary_with_request(request: &str) -> HandoffSummary {
    let carried = CarriedFacts {
        is_in_markdown: true,
        last_user_request: Some(request.to_owned()),
        last_request_answered: Some(false),
        goal: Some("Move it\n\n1. first\n2. then".to_owned()),
        pins: vec![PinnedText { text: "port:\n  8080".to_owned(), author: MessageRole::User, refs: vec![3] }],
        commands: vec!["make".to_owned()],
        ..CarriedFacts::default()
    };
    HandoffSummary { carried, ..shown_summary() }
}

/// Returns the facts of the summary after an edit of its text.
#[track_caller]
fn edit_facts(shown: &HandoffSummary, from: &str, to: &str) -> (CarriedFacts, String) {
    let md = render::render_summary(shown);
    assert!(md.contains(from), "{from:?} is not in\n{md}");
    let text = clean_submitted_text(&md, &md.replacen(from, to, 1)).unwrap().expect("the text differs");
    let edited = parse_markdown(shown, text, None).unwrap();
    (edited.summary_json.carried, edited.package_md)
}

#[test]
fn m1_a_request_is_rendered_with_its_line_breaks_and_code() {
    let md = render::render_summary(&summary_with_request(REQUEST));
    let expected = "### Last request (still open)\n- Port this:\n\n  ```rust\n  fn a() {\n      if x < 1 {  }\n\n  }\n  ```\n\n  \
                    ### Commands\n  - test it\n  **Rules**\n  \\# no heading\n  | a  | b |\n\n### Commands\n- make\n";
    assert!(md.ends_with(expected), "{md}");
}

#[test]
fn m6_an_edit_elsewhere_keeps_a_request_of_several_lines() {
    let shown = summary_with_request(REQUEST);
    assert_eq!(edit_facts(&shown, "Keep the format.", "Keep every format.").0, shown.carried);
    assert_eq!(
        edit_facts(&shown, "\n- make\n", "\n- make test\n").0.last_user_request.as_deref(),
        Some(REQUEST)
    );
}

#[test]
fn m1_a_line_of_a_request_can_be_edited() {
    let shown = summary_with_request(REQUEST);
    let (facts, md) = edit_facts(&shown, "  - test it\n", "  - test it twice\n");
    let expected = REQUEST.replace("test it", "test it twice");
    assert_eq!(facts.last_user_request.as_deref(), Some(expected.as_str()));
    assert!(md.contains("      if x < 1 {  }\n\n  }\n"), "{md}");
    let (facts, _) = edit_facts(&shown, "Port this:\n\n", "Port that:\n\nand\nthis:\n");
    assert!(facts.last_user_request.unwrap().starts_with("Port that:\n\nand\nthis:\n```rust\nfn a() {"));
}

proptest! {
    #[test]
    fn m6_an_edit_elsewhere_keeps_any_request(
        lines in proptest::collection::vec("[ #>*`~|<a&;\\-\\[\\]x.1\t\\\\]{0,9}", 1..7)
    ) {
        let shown = summary_with_request(&format!("go {}", lines.join("\n")));
        let (facts, md) = edit_facts(&shown, "Keep the format.", "Keep every format.");
        prop_assert_eq!(&facts, &shown.carried, "{}", md);
    }
}
