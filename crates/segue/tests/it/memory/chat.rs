//! Memory in a chat: its commands, and summaries that are made while the user reads and types.

use test_model::{GatePosition, Script, ScriptedServer};

use super::{
    SUMMARY, answer_reply, memory_stats, over_budget_sandbox, summarizing_server, summary_reply,
    wait_for_calls,
};
use crate::compact::long_thread;
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";

fn wait_for_prompt(terminal: &PtyTerminal, after: &str) -> String {
    terminal.wait_until(&format!("the prompt after `{after}`"), |screen| {
        screen.contains(after) && screen.trim_end().ends_with(PROMPT.trim_end())
    })
}

/// Opens new prompts until the screen contains `text`. Background work may end a moment after the journal
/// shows its result.
fn wait_for_report(terminal: &PtyTerminal, text: &str) -> String {
    let prompts = |screen: &str| screen.matches(PROMPT.trim_end()).count();
    let mut seen = prompts(&terminal.wait_for(PROMPT.trim_end()));
    loop {
        terminal.press_keys("\r");
        let screen = terminal.wait_until("another prompt", |screen| prompts(screen) > seen);
        if screen.contains(text) {
            return screen;
        }
        seen = prompts(&screen);
    }
}

/// Waits until no summary is pending. Another process does the work.
fn wait_until_summarized(sandbox: &TestSandbox) {
    while memory_stats(sandbox)["due"] != 0 {
        std::thread::yield_now();
    }
}

#[test]
fn f8_a_chat_summarizes_turns_in_the_background_and_reports_it_at_the_next_prompt() {
    let server = ScriptedServer::start(Script::new([
        summary_reply().with_gate("held", GatePosition::Start),
        answer_reply(),
    ]))
    .unwrap();
    let sandbox = over_budget_sandbox(&server);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("and now?\r");
    wait_for_prompt(&terminal, "Going on.");
    // The line that the user is typing stays unchanged.
    wait_for_calls(&server, 2);
    terminal.press_keys("/mem");
    wait_for_prompt_with(&terminal, "/mem");
    server.open_gate("held");
    wait_until_summarized(&sandbox);
    terminal.press_keys("\x08\x08\x08\x08");
    let screen = wait_for_report(&terminal, " messages moved to memory and summarized by anthropic/small.");
    assert_eq!(screen.matches("moved to memory").count(), 1, "{screen}");
    terminal.press_keys("/memory\r");
    let screen = wait_for_prompt(&terminal, "/remember adds to it");
    assert!(screen.contains("lists the messages of a summary") && screen.contains(SUMMARY), "{screen}");
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
}

fn wait_for_prompt_with(terminal: &PtyTerminal, line: &str) {
    terminal.wait_until("the line", |screen| {
        let last = screen.lines().rev().find(|line| line.starts_with(PROMPT.trim_end()));
        last.is_some_and(|last| last.contains(line))
    });
}

#[test]
fn f8_the_next_chat_makes_the_summaries_that_a_killed_chat_left_pending() {
    let server = ScriptedServer::start(Script::new([
        summary_reply().with_gate("held", GatePosition::Start),
        answer_reply(),
    ]))
    .unwrap();
    let sandbox = over_budget_sandbox(&server);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("and now?\r");
    wait_for_prompt(&terminal, "Going on.");
    wait_for_calls(&server, 2);
    terminal.kill();
    assert_eq!(memory_stats(&sandbox)["due"], 1);
    server.open_gate("held");
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    terminal.wait_for(PROMPT);
    wait_until_summarized(&sandbox);
    wait_for_report(&terminal, " messages moved to memory");
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let markers = sandbox.json(&["history", "last", "--markers", "--json"]);
    assert_eq!(markers["entries"].as_array().unwrap().len(), 1, "{markers}");
}

#[test]
fn m11_a_chat_searches_all_threads_and_opens_a_hit() {
    let server = summarizing_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    // The chat opens a new thread; the messages to find are in another one.
    let chat = |lines: &str| {
        let output = sandbox.run_with(&["chat"], lines);
        assert_eq!(output.code, 0, "{output:?}");
        output
    };
    let hits = chat("/search what is in module 7?\n").stdout;
    let history_command = hits.split('`').find(|part| part.starts_with("/history ")).unwrap().to_owned();
    assert!(hits.contains(" #15 you ") && history_command.ends_with("--around 15"), "{hits}");
    let opened = chat(&format!("{history_command}\n")).stdout;
    assert!(opened.contains("you #15 2026-11-20 10:14 · requested"), "{opened}");
    assert!(opened.contains("Earlier: /history ") && opened.contains("--before 11"), "{opened}");
    let recalled = chat("/recall module 7\n").stdout;
    assert!(recalled.contains(" #15 you "), "without a thread it looks everywhere: {recalled}");
    let recalled = chat("hello there\n/recall xylophone module\n/recall --all module 7\n").stdout;
    assert!(recalled.contains("No matches in this thread. Matches in the project:"), "{recalled}");
    let filtered = chat("/search module --since 2126-01-01\n/search\n/search x --limit 0\n/memory what\n");
    assert!(filtered.stdout.contains("No matches for `module` in this project"), "{filtered:?}");
    for expected in
        ["read /search: no words were given", "read /search: invalid value '0'", "it has no argument `what`"]
    {
        assert!(filtered.stderr.contains(expected), "{expected}: {filtered:?}");
    }
    let help = chat("/help\n").stdout;
    for command in ["/search ", "/recall ", "/remember ", "/memory "] {
        assert!(help.contains(command), "{command}: {help}");
    }
}
