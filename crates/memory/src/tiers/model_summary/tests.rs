//! The whole prompt of a summary, and cutting a summary that is too long.

use super::*;

#[test]
fn f6_the_prompt_of_a_first_chunk() {
    let input = MemoryPromptInput {
        earlier_summary: None,
        conversation: "On 2026-03-02\nUser: Which one?\nAssistant: SQLite.\n".to_owned(),
        more_follows: true,
        max_summary_tokens: 400,
        ..MemoryPromptInput::default()
    };
    let (instructions, text) = render_prompt(&input).unwrap();
    insta::assert_snapshot!(format!("{instructions}\n=====\n{text}"));
}

#[test]
fn f6_the_prompt_of_the_last_chunk() {
    let input = MemoryPromptInput {
        earlier_summary: Some("They looked for a database.".to_owned()),
        conversation: "On 2026-03-02\nUser: Which one?\n".to_owned(),
        more_follows: false,
        max_summary_tokens: 400,
        ..MemoryPromptInput::default()
    };
    insta::assert_snapshot!(render_prompt(&input).unwrap().1);
}

#[test]
fn f6_the_prompt_of_a_chunk_with_facts() {
    let input = MemoryPromptInput {
        conversation: "On 2026-03-02\nUser: Tabs, please.\n".to_owned(),
        max_summary_tokens: 400,
        propose_facts: true,
        notes: vec!["Uses Vim.".to_owned(), "Prefers &lt;b> blanks.".to_owned()],
        max_facts: FACTS_MAX,
        max_fact_chars: FACT_CHARS_MAX,
        ..MemoryPromptInput::default()
    };
    let (instructions, text) = render_prompt(&input).unwrap();
    insta::assert_snapshot!(format!("{instructions}\n=====\n{text}"));
}

#[test]
fn g17_a_summary_is_cut_behind_a_whole_sentence_or_not_at_all() {
    let three = "One sentence is here. Another one is there. And a third.";
    for (tokens_max, expected) in [
        (100, Some(three)),
        (12, Some("One sentence is here. Another one is there.")),
        (6, Some("One sentence is here.")),
        (3, None),
    ] {
        assert_eq!(truncate_to_sentences(three, tokens_max), expected, "{tokens_max}");
    }
    assert_eq!(truncate_to_sentences("- first item\n- second item\n", 4), Some("- first item"));
}
