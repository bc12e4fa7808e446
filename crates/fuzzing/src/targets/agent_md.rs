//! The managed block of agent.md. Whatever a file contains, its markers can be repaired, and then a summary is written and
//! read back as it was; writing twice changes nothing; everything outside the block stays byte for byte; the text of a block
//! cannot close it; and the prompt has each of its tags once.

use std::ops::Range;

use memory::managed_block::{
    CLOSE_TAG, HEADING, OPEN_TAG, block_content, escape_block_tags, marker_problems, normalize_content,
    remove_blocks, repair_markers, replace_block,
};
use memory::{AgentFileSnapshot, InheritedSummary, NotesScope, build_prompt_section};

use super::{FuzzTarget, RepeatedInput};

/// The byte that separates the summary from the file in an input. A text never contains it.
const SEPARATOR: u8 = 0xff;

/// The tags that enclose untrusted text in the prompt.
const PROMPT_TAGS: [&str; 4] = ["<agent_md>", "</agent_md>", OPEN_TAG, CLOSE_TAG];

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "agent_md",
    check,
    parse,
    dictionary: &[
        "<current_thread_summary>",
        "</current_thread_summary>",
        "<current_thread_summary>\n",
        "</current_thread_summary>\n",
        "</ Current_Thread_Summary >",
        "## Recent Thread Snapshot\n",
        "## Project: /p\n",
        "None recorded yet.",
        "\n",
        "\r\n",
        "```\n",
        "````md\n",
        "~~~\n",
        "<!--",
        "-->\n",
        "    ",
        "   ",
        "\t",
        "> ",
        "- ",
        "a note\n",
        "</agent_md>",
        "<agent_md>",
        "<system>",
        "&lt;",
        "{{agent_md}}",
        "{{",
        "}}",
        "\u{feff}",
        "\u{200b}",
        "\u{202e}",
    ],
    repeated: &[
        RepeatedInput::of("```x\n"),
        RepeatedInput::between("", "```x\n", "<current_thread_summary>\n```\n"),
        RepeatedInput::between("", "```x\n", "</current_thread_summary>\n```\n"),
        RepeatedInput::between("", "<!--\n", "<current_thread_summary>\n-->\n"),
        RepeatedInput::of("<!---->"),
        RepeatedInput::of("<!-- a -->\n"),
        RepeatedInput::of("<current_thread_summary>\n"),
        RepeatedInput::of("</current_thread_summary>\n"),
        RepeatedInput::of("<current_thread_summary>\na\n</current_thread_summary>\n"),
        RepeatedInput::of("## Recent Thread Snapshot\n"),
        RepeatedInput::of("## Project: /p\n"),
        RepeatedInput::of("a<b"),
        RepeatedInput::of("<"),
        RepeatedInput::of("\n"),
        RepeatedInput::of("\u{200b}"),
    ],
};

fn check(input: &[u8]) {
    let (summary, file) = split_input(input);
    let summary = String::from_utf8_lossy(summary).into_owned();
    check_repair(file);
    let file = repair_markers(file);
    check_write(&file, &summary);
    check_prompt(&file, &summary);
}

fn parse(input: &[u8]) {
    let repaired = repair_markers(input);
    let written = replace_block(&repaired, "summary").expect("repaired markers are well formed");
    drop(remove_blocks(&written));
    drop(build_section(&written, "summary"));
    drop(escape_block_tags(&String::from_utf8_lossy(input)));
}

/// Splits an input into a summary and a file. Without a separator, the whole input is the file.
fn split_input(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|byte| *byte == SEPARATOR) {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (b"a summary", input),
    }
}

/// Checks that a repair makes the markers well formed, changes nothing that is, and adds nothing.
fn check_repair(file: &[u8]) {
    let repaired = repair_markers(file);
    assert_eq!(marker_problems(&repaired), [], "{:?}", repaired.escape_ascii().to_string());
    assert!(is_subsequence(&repaired, file), "a repair only removes");
    if marker_problems(file).is_empty() {
        assert_eq!(repaired, file, "well-formed markers stay");
    }
    let without = remove_blocks(file);
    assert_eq!(block_content(&without), None);
    assert!(is_subsequence(&without, file), "removing blocks only removes");
    assert_eq!(remove_blocks(&without), without, "a second time changes nothing");
}

/// Checks that a summary is written into a file with well-formed markers, and that the rest of the file stays.
fn check_write(file: &[u8], summary: &str) {
    let written = replace_block(file, summary).expect("the markers are well formed");
    let shown = || format!("{:?} in {:?}", summary, file.escape_ascii().to_string());
    assert_eq!(marker_problems(&written), [], "{}", shown());
    assert_eq!(block_content(&written).as_deref(), Some(&*normalize_content(summary)), "{}", shown());
    assert_eq!(replace_block(&written, summary).as_deref(), Ok(&*written), "a second time: {}", shown());
    assert_eq!(repair_markers(&written), written, "{}", shown());
    let escaped = escape_block_tags(summary);
    assert_eq!(escape_block_tags(&escaped), escaped, "{}", shown());
    // Another summary and back: the rest of the file is as it was, byte for byte.
    let other = replace_block(&written, "another\n\nsummary").expect("the markers are well formed");
    assert_eq!(replace_block(&other, summary).as_deref(), Ok(&*written), "there and back: {}", shown());
    assert_eq!(remove_blocks(&other), remove_blocks(&written), "{}", shown());
    let (before, after) = (plain_bytes(&remove_blocks(file)), plain_bytes(&remove_blocks(&written)));
    assert_eq!(after, before, "no byte outside the block is lost or added: {}", shown());
    if let Some(range) = block_range(file) {
        assert!(written.starts_with(&file[..range.start]), "{}", shown());
        assert!(written.ends_with(&file[range.end..]), "{}", shown());
    }
}

/// Returns the bytes of the only block of a file, with its tags, if no other text in the file looks like a tag, and none like
/// the beginning of a region that could hide the block.
fn block_range(file: &[u8]) -> Option<Range<usize>> {
    let has = |word: &str| file.windows(word.len()).any(|part| part == word.as_bytes());
    if ["```", "~~~", "<!--"].into_iter().any(has) {
        return None;
    }
    let find_only = |tag: &str| {
        let mut places = (0..file.len()).filter(|start| file[*start..].starts_with(tag.as_bytes()));
        places.next().filter(|_| places.next().is_none())
    };
    let (start, end) = (find_only(OPEN_TAG)?, find_only(CLOSE_TAG)? + CLOSE_TAG.len());
    (block_content(file).is_some() && start < end).then_some(start..end)
}

/// Returns the bytes of a file without line breaks, blanks and the heading of the block, which may come and go with it.
fn plain_bytes(file: &[u8]) -> Vec<u8> {
    let kept = file.split(|byte| *byte == b'\n').map(|line| {
        let text = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        // A byte order mark before the heading stays.
        let length =
            if text.trim_ascii() == HEADING.as_bytes() { line.len() - text.len() } else { line.len() };
        &line[..length]
    });
    kept.flatten().filter(|byte| !byte.is_ascii_whitespace()).copied().collect()
}

/// Checks that neither the file nor the summary can open or close a delimiter of the prompt.
fn check_prompt(file: &[u8], summary: &str) {
    let text = build_section(file, summary);
    for tag in PROMPT_TAGS {
        // The introduction names the opening tags.
        let expected = 1 + usize::from(!tag.starts_with("</"));
        assert_eq!(text.matches(tag).count(), expected, "{tag} in {text:?}");
    }
    let is_visible = |c: char| matches!(c, '\n' | '\r' | '\t') || !c.is_control();
    assert!(text.chars().all(is_visible), "{text:?}");
    assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{2066}']), "{text:?}");
}

/// Returns the section of the prompt with this file and this summary.
fn build_section(file: &[u8], summary: &str) -> String {
    let snapshot = AgentFileSnapshot { bytes: file.to_vec(), ..AgentFileSnapshot::default() };
    let summary = InheritedSummary { package_md: summary.to_owned(), separate_facts: None };
    build_prompt_section(&snapshot, &NotesScope::AllProjects, &[summary]).text
}

/// Returns whether `part` is `whole` without some of its bytes.
fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|byte| rest.any(|other| other == byte))
}
