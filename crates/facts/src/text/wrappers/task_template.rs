//! The instructions that programs such as SWE-agent and OpenHands put around the task of a message: how to use their tools,
//! and how to hand in the work. They are about the program and not about the work, so that no successor needs them.

/// Beginnings of the line from which on a message has only instructions of the program.
const INSTRUCTION_BEGINNINGS: &[&str] = &[
    "Now, you're going to solve this",
    "Follow these steps to resolve the issue",
    "Follow these phases to resolve the issue",
    "You can execute bash commands and edit files to implement the necessary changes",
    "## Recommended Workflow",
    "You're a software engineer interacting continuously with a computer",
    "NOTE ABOUT THE EDIT COMMAND",
];
/// Headings that introduce such instructions and are removed with them.
const INSTRUCTION_HEADINGS: &[&str] = &["INSTRUCTIONS:", "# Task Instructions", "## Instructions"];
/// Beginnings of single lines with instructions of the program between lines of the task.
const INSTRUCTION_LINES: &[&str] = &[
    "IMPORTANT: You should ONLY interact with the environment",
    "You SHOULD INCLUDE PROPER INDENTATION",
    "When you think you have fixed the issue through code changes",
    "When you think you have completed the task",
    "Environment has been set up for you",
    "Remember, YOU CAN ONLY ENTER ONE COMMAND",
];
/// Lines of the command with which such a program ends.
const CLOSING_LINES: &[&str] = &["<execute_bash>", "exit", "</execute_bash>", "<finish></finish>"];

/// Returns a user's message without the instructions of the program that posed the task; `None` if it has none, or nothing
/// else.
pub(crate) fn without_instructions(text: &str) -> Option<String> {
    let is_instruction = |line: &&str| starts_with_any(line, INSTRUCTION_LINES);
    let begins_instructions = |line: &&str| starts_with_any(line, INSTRUCTION_BEGINNINGS);
    if !text.lines().any(|line| is_instruction(&line) || begins_instructions(&line)) {
        return None;
    }
    let lines = text.lines().take_while(|line| !begins_instructions(line));
    let lines = lines.filter(|line| !is_instruction(line) && !CLOSING_LINES.contains(&line.trim()));
    let task = lines.collect::<Vec<_>>().join("\n");
    let task = task.trim_end();
    let task =
        INSTRUCTION_HEADINGS.iter().find_map(|heading| task.strip_suffix(heading)).unwrap_or(task).trim_end();
    (!task.is_empty()).then(|| task.to_owned())
}

/// Returns whether a line begins with one of the texts.
fn starts_with_any(line: &str, beginnings: &[&str]) -> bool {
    let line = line.trim_start();
    beginnings.iter().any(|beginning| line.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_of_a_program_are_no_part_of_the_task() {
        for (text, expected) in [
            ("Fix the parser.", None),
            (
                "Solve this issue:\nISSUE:\nit breaks\n\nINSTRUCTIONS:\nNow, you're going to solve this issue on your own.\nAlways check the code.",
                Some("Solve this issue:\nISSUE:\nit breaks"),
            ),
            (
                "Fix it in /w.\nYour task is to change no test.\nFollow these steps to resolve the issue:\n1. Explore.\nYour thinking should be thorough.",
                Some("Fix it in /w.\nYour task is to change no test."),
            ),
            (
                "License it.\nIMPORTANT: You should ONLY interact with the environment.\nYou should NOT modify tests.\nWhen you think you have fixed the issue through code changes, please run:\n<execute_bash>\nexit\n</execute_bash>",
                Some("License it.\nYou should NOT modify tests."),
            ),
            ("Now, you're going to solve this.", None),
        ] {
            assert_eq!(without_instructions(text).as_deref(), expected, "{text:?}");
        }
    }
}
