//! Tests of rejected texts: every error names the line, by its number in the submitted text.

use super::*;

/// Checks the error for a rejected text.
#[track_caller]
fn check(text: &str, expected: &str) {
    let result = clean_submitted_text("", text)
        .and_then(|submitted| parse_markdown(&shown_summary(), submitted.expect("the text differs"), None));
    assert_eq!(result.expect_err(text).to_string(), expected, "{text:?}");
}

const HEADINGS: &str = "the headings are Objective, Progress, Decisions, Next steps, Blockers, Artifacts, \
                        Goal of the new thread, Rules, Pins, Last request, Tasks, Files changed, Files deleted, Files read, In use, \
                        Commands, Unresolved errors, Calls that wait for approval, Skills in use, Given to other agents, \
                        Files for the goal, when this was drafted";

#[test]
fn a_line_that_is_not_part_of_a_summary_is_named() {
    let unknown = |line: &str| format!("{line} is not a heading; {HEADINGS}");
    let not_under_heading = |line: &str| format!("{line} is not under a heading; {HEADINGS}");
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
    check("**T**\nD\n- x", &not_under_heading("line 3: `- x`"));
    check("- x", &not_under_heading("line 1: `- x`"));
    check("**T**\n\n* x\n### Objective\n- y", &not_under_heading("line 3: `* x`"));
}

#[test]
fn an_unclosed_comment_or_code_block_is_rejected() {
    check(
        "<!-- open\n**T**\n### Objective\n- x",
        "line 1: `<!-- open` starts a comment that is not closed by `-->`",
    );
    check("**T**\n\n  <!-- a --><!-- b", "line 3: `<!-- b` starts a comment that is not closed by `-->`");
    check("### Objective\n- x\n~~~\n### Progress", "line 3: `~~~` starts a code block that is not closed");
    check("### Objective\n- ```sh\n~~~\n``", "line 2: `- ```sh` starts a code block that is not closed");
}

#[test]
fn g6_an_error_about_a_limit_names_the_line_and_the_excess() {
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
    let items: String = (1..=14).map(|at| format!("- item {at}\n  more\n")).collect();
    check(
        &format!("<!-- x -->\n### Objective\n{items}"),
        "line 27: `- item 13` is item 13, at most 12 are allowed",
    );
    // Items are counted in the order of the text, not of the kinds.
    let items: String = (1..=12).map(|at| format!("- item {at}\n")).collect();
    check(
        &format!("### Blockers\n{items}### Objective\n- first"),
        "line 15: `- first` is item 13, at most 12 are allowed",
    );
    check(
        &format!("### Objective\n- {}", long(16_000)),
        "the text has 12004 tokens, 8004 more than the 4000 that are allowed",
    );
    check(&long(1024 * 1024), "the text has 786432 tokens, 782432 more than the 4000 that are allowed");
}

#[test]
fn a_text_without_an_item_is_rejected() {
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
fn g6_the_limits_also_apply_to_json_and_titles() {
    let shown = shown_summary();
    let check = |field: &str, value: serde_json::Value, expected: &str| {
        let mut json = serde_json::to_value(&shown).unwrap();
        json[field] = value;
        assert_eq!(parse_json(&shown, &json).unwrap_err().to_string(), expected, "{field}");
    };
    let items = |count: usize| {
        (0..count).map(|at| json!({"kind": "progress", "text": format!("x{at}")})).collect::<Vec<_>>()
    };
    check("title", json!("x".repeat(130)), "the title has 130 characters, at most 120 are allowed");
    check("title", json!("\u{200b} \n"), "the title is empty");
    check("title", json!("****"), "the title is empty");
    check("title", json!(null), "`summary_json.title` is missing or has another type");
    check("tldr", json!("x".repeat(201)), "the TL;DR has 201 characters, at most 200 are allowed");
    check("body", json!(items(13)), "there are 13 items, at most 12 are allowed");
    check(
        "body",
        json!([{"kind": "progress", "text": "\u{200b}"}]),
        "there is no item: keep at least one line under a heading such as `Objective`",
    );
    let over = "the title has 121 characters, at most 120 are allowed";
    assert_eq!(replace_title(&shown, "x".repeat(121)).unwrap_err().to_string(), over);
}

#[test]
fn a_draft_above_the_limit_of_edits_can_be_edited() {
    let mut shown = shown_summary();
    shown.body[0].text = "word ".repeat(6_000);
    assert!(replace_title(&shown, "Short".to_owned()).is_ok());
    assert!(replace_title(&shown, "Longer".repeat(4)).is_err());
}

#[test]
fn m16_an_edit_cannot_replace_a_shown_secret_by_another() {
    let secret = |letter: char| format!("ghp_{}0123456789", String::from(letter).repeat(26));
    let mut shown = shown_summary();
    shown.body[1].text = format!("The password is {}.", secret('a'));
    let shown_md = render::render_summary(&shown);
    let parse = |from: &str, to: &str| {
        let submitted = clean_submitted_text(&shown_md, &shown_md.replace(from, to))?;
        parse_markdown(&shown, submitted.expect("the text differs"), None)
    };
    assert!(parse("The port 9999", "The port 8888").is_ok());
    let error = parse(&secret('a'), &format!("github_pat_{}", "b1".repeat(41))).unwrap_err();
    assert!(error.to_string().contains("secret"), "{error}");
    let divided = secret('b').replacen("bb", "b\u{1b}[1;31mb", 1);
    let error = parse("The port 9999", &format!("The key is {divided}, the port")).unwrap_err();
    assert!(error.to_string().contains("secret"), "{error}");
}
