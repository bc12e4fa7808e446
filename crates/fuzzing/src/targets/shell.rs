//! Command lines of the permission gate, compared with bash. A line that the gate accepts means to bash what it means to the
//! gate: bash runs the same commands with the same words. What the gate calls literal, bash does not expand. The canonical
//! form that rules match means the same again.
//!
//! Bash runs the lines in its restricted mode, without a search path and without an environment, so that a line that the
//! gate misunderstands cannot write a file or start a program.

use std::process::{Command, Stdio};

use tempfile::TempDir;
use tools::fuzzing::{ParsedCommand, parse_commands, render_commands};
use tools::quote_shell_word;

use super::{FuzzTarget, RepeatedInput};

/// The name of the only command that bash finds.
const PROBE: &str = "show";

/// The functions that bash defines before it runs a line. They print each command that runs, also one that bash does not
/// find: the number of its arguments, its name, and its arguments, with a zero byte behind each.
const PRELUDE: &str = "show() { builtin printf '%s\\0' \"$#\" show \"$@\"; }\n\
                       command_not_found_handle() { builtin printf '%s\\0' $(($# - 1)) \"$@\"; }\n";

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "shell",
    check,
    parse,
    dictionary: &[
        "show",
        " ",
        "\t",
        "\n",
        "\\\n",
        "\\",
        "\\ ",
        "'",
        "''",
        "\"",
        "\"\"",
        "\\\"",
        "$",
        "$x",
        "${x}",
        "${x:-y}",
        "$(show)",
        "`show`",
        "$((1))",
        "$'a\\n'",
        "$\"a\"",
        "*",
        "?",
        "[a]",
        "{a,b}",
        "{1..3}",
        "~",
        "a:~",
        "a=~",
        "~+",
        "!",
        "!!",
        "^a^b",
        "#",
        " # ",
        "=",
        "A=1 ",
        "A+=1 ",
        "a[0]=1 ",
        ";",
        ";;",
        "&",
        "&&",
        "||",
        "|",
        "|&",
        "(",
        ")",
        "((",
        "[[ a ]]",
        "{ ",
        "}",
        "<",
        ">",
        ">&2",
        "2>&1",
        ">/dev/null",
        "<<<",
        "<(",
        "@(a|b)",
        "+(a)",
        "if ",
        "then ",
        "fi",
        "for ",
        "in ",
        "do ",
        "done",
        "time ",
        "coproc ",
        "function ",
        "\u{a0}",
        "\u{e4}",
        "\u{202e}",
        "a",
        "b",
        "0",
        "-",
        "--",
    ],
    repeated: &[
        RepeatedInput::of("show a;"),
        RepeatedInput::of("show a | show b && "),
        RepeatedInput::between("show ", "a ", ""),
        RepeatedInput::between("show ", "\\a", ""),
        RepeatedInput::between("show ", "'a'\"b\"", ""),
        RepeatedInput::between("show '", "a", ""),
        RepeatedInput::between("show ", "\\\n", ""),
        RepeatedInput::between("show ", "${x}", ""),
        RepeatedInput::between("", "A=1 ", "show"),
        RepeatedInput::between("show", " >/dev/null", ""),
        RepeatedInput::between("", "\n", "show"),
    ],
};

fn check(input: &[u8]) {
    let Ok(line) = std::str::from_utf8(input) else { return };
    let Some(commands) = parse_commands(line) else { return };
    assert!(!commands.is_empty(), "an accepted line has a command");
    if !commands.iter().all(is_literal_probe) {
        return;
    }
    let expected = expected_calls(&commands);
    let rendered = render_commands(line).expect("an accepted line is rendered");
    for script in [line, &rendered] {
        // Without bash, there is nothing to compare with.
        let Some(calls) = run_bash(script) else { return };
        assert_eq!(calls, expected, "{line:?} as {script:?}");
    }
    let again = parse_commands(&rendered).expect("a rendered line is accepted");
    let canonical = |commands: &[ParsedCommand]| -> Vec<String> {
        commands.iter().map(|command| command.canonical.clone()).collect()
    };
    assert_eq!(canonical(&again), canonical(&commands), "a canonical form stays as it is: {line:?}");
}

fn parse(input: &[u8]) {
    if let Ok(line) = std::str::from_utf8(input) {
        drop(parse_commands(line));
        drop(render_commands(line));
    }
}

/// Returns whether a command only prints words that are known before bash runs it. The output of a pipe is not observed.
fn is_literal_probe(command: &ParsedCommand) -> bool {
    let words = command.literal_words.as_deref().unwrap_or_default();
    words.first().is_some_and(|name| name == PROBE)
        && command.redirects == 0
        && command.assignments.is_empty()
        && command.operator != "|"
}

/// Returns the words of the commands that run. The probe always succeeds, so a command behind `||` does not run.
fn expected_calls(commands: &[ParsedCommand]) -> Vec<Vec<String>> {
    let running = commands.iter().filter(|command| command.operator != "||");
    let calls: Vec<Vec<String>> = running.filter_map(|command| command.literal_words.clone()).collect();
    let quoted =
        |words: &[String]| words.iter().map(|word| quote_shell_word(word)).collect::<Vec<_>>().join(" ");
    for (command, words) in commands.iter().filter(|command| command.operator != "||").zip(&calls) {
        assert_eq!(command.canonical, quoted(words), "rules match the literal words");
    }
    calls
}

/// Runs a line in a restricted bash and returns the words of each command that it calls. Returns `None` without bash.
fn run_bash(line: &str) -> Option<Vec<Vec<String>>> {
    thread_local! {
        static FOLDER: TempDir = create_folder();
    }
    let folder = FOLDER.with(|folder| folder.path().to_owned());
    let output = Command::new("bash")
        .args(["--restricted", "--norc", "--noprofile", "-c"])
        .arg(format!("{PRELUDE}{line}"))
        .current_dir(folder)
        .env_clear()
        .envs([
            ("PATH", "/nonexistent"),
            ("HOME", "/nonexistent/home"),
            ("x", "value"),
            ("LC_ALL", "C.UTF-8"),
        ])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_terminator('\0').map(str::to_owned);
    let mut calls = Vec::new();
    while let Some(count) = words.next() {
        let count: usize = count.parse().expect("the probe prints the number of its arguments first");
        calls.push(words.by_ref().take(count + 1).collect());
    }
    Some(calls)
}

/// Returns a folder with files whose names patterns match.
fn create_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("the folder for temporary files can be written");
    for name in ["a", "b", "ab", "a.b", "a b"] {
        std::fs::write(folder.path().join(name), "").expect("a new folder can be written");
    }
    folder
}
