//! Memory in a chat: its commands, and what becomes a summary while the person reads and writes.

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

/// Comes to the next prompt, and to one more, until the screen holds `text`: what is done behind may end a moment after it
/// is seen in the journal.
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

/// Waits until nothing is due: the work goes on in another process.
fn wait_until_summarized(sandbox: &TestSandbox) {
    while memory_stats(sandbox)["due"] != 0 {
        std::thread::yield_now();
    }
}

#[test]
fn f8_turns_go_to_memory_behind_the_chat_and_one_line_says_so_at_the_next_prompt() {
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
    // What is being written is left alone.
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
fn f8_a_chat_that_is_killed_leaves_what_is_due_and_the_next_one_does_it() {
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
fn m11_a_person_searches_everything_from_a_chat_and_opens_what_was_found() {
    let server = summarizing_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    // A new thread: what is looked for was said in another one.
    let chat = |lines: &str| {
        let ended = sandbox.run_with(&["chat"], lines);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    };
    let found = chat("/search what is in module 7?\n").stdout;
    let way = found.split('`').find(|part| part.starts_with("/history ")).unwrap().to_owned();
    assert!(found.contains(" #15 you ") && way.ends_with("--around 15"), "{found}");
    let opened = chat(&format!("{way}\n")).stdout;
    assert!(opened.contains("you #15 2026-11-20 10:14 · requested"), "{opened}");
    assert!(opened.contains("Earlier: /history ") && opened.contains("--before 11"), "{opened}");
    let recalled = chat("/recall module 7\n").stdout;
    assert!(recalled.contains(" #15 you "), "without a thread it looks everywhere: {recalled}");
    let recalled = chat("hello there\n/recall xylophone module\n/recall --all module 7\n").stdout;
    assert!(recalled.contains("No matches in this thread. Matches in all threads:"), "{recalled}");
    let narrowed = chat("/search module --since 2126-01-01\n/search\n/search x --limit 0\n/memory what\n");
    assert!(narrowed.stdout.contains("No matches for `module`."), "{narrowed:?}");
    for told in
        ["read /search: no words were given", "read /search: invalid value '0'", "it has no argument `what`"]
    {
        assert!(narrowed.stderr.contains(told), "{told}: {narrowed:?}");
    }
    let help = chat("/help\n").stdout;
    for command in ["/search ", "/recall ", "/remember ", "/memory "] {
        assert!(help.contains(command), "{command}: {help}");
    }
}
