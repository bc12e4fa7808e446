//! Splits a command line into the parts that rules look at: each simple command by itself, and for rules that ask or deny
//! also the command that another program runs. Rules themselves are not known here.

use crate::shell::{self, SimpleCommand};

/// Programs that run the program their arguments name.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "nice", "ionice", "time", "timeout", "command", "builtin", "exec",
    "xargs", "find", "stdbuf", "setsid", "busybox", "watch", "parallel", "strace",
];
/// Programs that run a command line their arguments hold.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "eval"];
/// How deep command lines in command lines are followed.
const DEPTH_MAX: u32 = 4;
/// How many words of a wrapping program are looked at one by one; the rest is looked at as a whole.
const WRAPPED_WORDS_MAX: usize = 32;

/// One part of a command line that is judged by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPart {
    /// The text that an allowing pattern must match as a whole; `None` when no pattern can.
    pub text: Option<String>,
    /// Other commands that it may be equivalent to.
    pub equivalents: Vec<String>,
    /// Text that was not understood, in which anything may be.
    pub opaque: Option<String>,
    /// The command as it was read.
    pub command: Option<SimpleCommand>,
}

/// Returns the parts of a line. A line that is not understood is one part that nothing allows.
pub(super) fn split_command_line(line: &str) -> Vec<CommandPart> {
    match shell::parse_command_line(line) {
        Some(parsed) => parsed.commands.into_iter().map(command_part).collect(),
        None => vec![CommandPart {
            text: None,
            equivalents: Vec::new(),
            opaque: Some(collapse_blanks(line)),
            command: None,
        }],
    }
}

fn command_part(command: SimpleCommand) -> CommandPart {
    let mut part = CommandPart {
        text: (!command.redirects_to_file()).then(|| command.canonical()),
        equivalents: Vec::new(),
        opaque: None,
        command: None,
    };
    add_equivalents(&command, &mut part, 0);
    part.command = Some(command);
    part
}

fn add_equivalents(command: &SimpleCommand, part: &mut CommandPart, depth: u32) {
    part.equivalents.push(command.canonical());
    let words: Vec<&str> = command
        .words
        .iter()
        .map(|word| if word.is_expanded { &word.source } else { &word.text }.as_str())
        .collect();
    let Some((program, rest)) = words.split_first() else { return };
    let name = base_name(program);
    part.equivalents.push(words.join(" "));
    part.equivalents.push([&[name], rest].concat().join(" "));
    if WRAPPERS.contains(&name) {
        if rest.len() > WRAPPED_WORDS_MAX {
            add_opaque(part, &rest.join(" "));
        }
        for start in 0..rest.len().min(WRAPPED_WORDS_MAX) {
            let inner = &rest[start..];
            part.equivalents.push([&[base_name(inner[0])], &inner[1..]].concat().join(" "));
        }
    }
    let runs_lines =
        SHELLS.contains(&name) || (WRAPPERS.contains(&name) && rest.iter().any(|word| is_shell(word)));
    if runs_lines {
        for line in rest {
            match shell::parse_command_line(line) {
                Some(parsed) if depth < DEPTH_MAX => {
                    parsed.commands.iter().for_each(|inner| add_equivalents(inner, part, depth + 1));
                }
                Some(_) | None => add_opaque(part, line),
            }
        }
    }
}

fn add_opaque(part: &mut CommandPart, line: &str) {
    let opaque = part.opaque.get_or_insert_default();
    opaque.push('\n');
    opaque.push_str(&collapse_blanks(line));
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&base_name(word))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn collapse_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
