//! Every text that is refused says where, in the numbers of the text that was handed in.

use super::*;

/// Checks why a text is refused.
#[track_caller]
fn check(text: &str, expected: &str) {
    let refused = own_text("", text).and_then(|own| from_markdown(&shown(), own.expect("it differs"), None));
    assert_eq!(refused.expect_err(text).to_string(), expected, "{text:?}");
}

const HEADINGS: &str = "the headings are Objective, Progress, Decisions, Next steps, Blockers, Artifacts";

#[test]
fn a_line_that_is_none_of_ours_is_named() {
    let unknown = |place: &str| format!("{place} is no heading; {HEADINGS}");
    let loose = |place: &str| format!("{place} is under no heading; {HEADINGS}");
    check("**T**\nD\n\n### Foo\n- x", &unknown("line 4: `### Foo`"));
    check("### Objective\n- x\n\n# Foo\n- y", &unknown("line 4: `# Foo`"));
    check("### Objective\n- x\n ###### Foo", &unknown("line 3: `###### Foo`"));
    check("### Objective\n- x\n##\n- y", &unknown("line 3: `##`"));
    check("### Objective\n- x\n**Foo**\n- y", &unknown("line 3: `**Foo**`"));
    check("**T**\nD\n**Objectiv**\n- x", &unknown("line 3: `**Objectiv**`"));
    check("D\n**Objectiv**\n- x", &unknown("line 2: `**Objectiv**`"));
    check("D\n# T\n### Objective\n- x", &unknown("line 2: `# T`"));
    check("**T**\n# T2\n### Objective\n- x", &unknown("line 2: `# T2`"));
    check("<!--\nhow\nto\n-->\n\n**T**\n\n### Foo", &unknown("line 8: `### Foo`"));
    check("**T**\r\nD\r\n### Foo\r\n", &unknown("line 3: `### Foo`"));
    check("\n\n  \n### Foo\n- x", &unknown("line 4: `### Foo`"));
    check("### Objective\n- x\n<!-- y\n-->\n### Foo", &unknown("line 5: `### Foo`"));
    check("### Objective\n- x\n### <b>\u{202e}Foo\u{1b}[2J", &unknown("line 3: `### <b>Foo[2J`"));
    check(
        &format!("### Objective\n- x\n### {}", "é".repeat(50)),
        &unknown(&format!("line 3: `### {}`", "é".repeat(36))),
    );
    check("**T**\nD\n- x", &loose("line 3: `- x`"));
    check("- x", &loose("line 1: `- x`"));
    check("**T**\n\n* x\n### Objective\n- y", &loose("line 3: `* x`"));
}

#[test]
fn what_is_opened_is_closed() {
    check(
        "<!-- open\n**T**\n### Objective\n- x",
        "line 1: `<!-- open` begins a comment that no `-->` closes",
    );
    check("**T**\n\n  <!-- a --><!-- b", "line 3: `<!-- b` begins a comment that no `-->` closes");
    check("### Objective\n- x\n~~~\n### Progress", "line 3: `~~~` begins a code block that nothing closes");
    check("### Objective\n- ```sh\n~~~\n``", "line 2: `- ```sh` begins a code block that nothing closes");
}

#[test]
fn g6_limits_name_the_line_and_how_far_it_is_over() {
    let long = |count: usize| "é".repeat(count);
    let item = "\n### Objective\n- x";
    check(
        &format!("\n**{}**{item}", long(121)),
        &format!("line 2: `**{}`: the title has 121 characters, at most 120 are allowed", long(38)),
    );
    check(
        &format!("**T**\n\n{}\n{}{item}", long(100), long(100)),
        &format!("line 3: `{}`: the TL;DR has 201 characters, at most 200 are allowed", long(40)),
    );
    let items: String = (1..=9).map(|at| format!("- item {at}\n  more\n")).collect();
    check(
        &format!("<!-- x -->\n### Objective\n{items}"),
        "line 17: `- item 8` is item 8, at most 7 are allowed",
    );
    // In the order of the text, not of the kinds.
    let items: String = (1..=7).map(|at| format!("- item {at}\n")).collect();
    check(
        &format!("### Blockers\n{items}### Objective\n- first"),
        "line 10: `- first` is item 8, at most 7 are allowed",
    );
    check(
        &format!("### Objective\n- {}", long(16_000)),
        "the text has 12004 tokens, 8004 more than the 4000 that are allowed",
    );
    check(&long(1024 * 1024), "the text has 786432 tokens, 782432 more than the 4000 that are allowed");
}

#[test]
fn a_text_without_a_summary_is_none() {
    let no_item = "there is no item: keep at least one line under a heading such as `Objective`";
    let empty = "the text is empty: write something, or decline";
    for text in ["", " \r\n\t", "<!-- only -->", "\u{feff}\u{200b}\u{202e}", "<!-- a -->\n<!-- b\n-->\n"] {
        check(text, empty);
    }
    for text in ["Only a line.", "### Objective\n-\n", "### Objective", "**T**\nD\n### Progress\n\n- \n"] {
        check(text, no_item);
    }
    check("\n****\nD\n### Objective\n- x", "line 2: `****`: the title is empty");
}

#[test]
fn g6_limits_hold_for_json_and_for_titles_too() {
    let shown = shown();
    let check = |field: &str, value: serde_json::Value, expected: &str| {
        let mut json = serde_json::to_value(&shown).unwrap();
        json[field] = value;
        assert_eq!(from_json(&shown, &json).unwrap_err().to_string(), expected, "{field}");
    };
    let items = |count: usize| {
        (0..count).map(|at| json!({"kind": "progress", "text": format!("x{at}")})).collect::<Vec<_>>()
    };
    check("title", json!("x".repeat(130)), "the title has 130 characters, at most 120 are allowed");
    check("title", json!("\u{200b} \n"), "the title is empty");
    check("title", json!("****"), "the title is empty");
    check("title", json!(null), "`summary_json.title` is missing or has another type");
    check("tldr", json!("x".repeat(201)), "the TL;DR has 201 characters, at most 200 are allowed");
    check("body", json!(items(8)), "there are 8 items, at most 7 are allowed");
    check(
        "body",
        json!([{"kind": "progress", "text": "\u{200b}"}]),
        "there is no item: keep at least one line under a heading such as `Objective`",
    );
    let over = "the title has 121 characters, at most 120 are allowed";
    assert_eq!(with_title(&shown, "x".repeat(121)).unwrap_err().to_string(), over);
}

#[test]
fn a_draft_over_the_limit_of_edits_can_be_edited() {
    let mut shown = shown();
    shown.body[0].text = "word ".repeat(6_000);
    assert!(with_title(&shown, "Short".to_owned()).is_ok());
    assert!(with_title(&shown, "Longer".repeat(4)).is_err());
}
