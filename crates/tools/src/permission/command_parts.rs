//! Splits a command line into the parts that permission rules are matched against.
//!
//! Each simple command is one part. Rules that ask or deny are also matched against its equivalents: the command
//! without a path before the program, and the command that a wrapper (`sudo`, `env`) or a shell (`sh -c`) runs.
//! Matching itself is the task of [`super::decide`].

use crate::shell::{self, SimpleCommand};

/// Programs that run another program, which their arguments name.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "nice", "ionice", "time", "timeout", "command", "builtin", "exec",
    "xargs", "find", "stdbuf", "setsid", "busybox", "watch", "parallel", "strace",
];
/// Programs that run a command line, which one of their arguments contains.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "eval"];
/// Maximum depth of nested command lines that are parsed. A deeper one is opaque text.
const DEPTH_MAX: u32 = 4;
/// Number of arguments of a wrapper that are tried as the beginning of the wrapped command. With more arguments, the
/// whole list is also opaque text, so that the cost stays bounded.
const WRAPPED_WORDS_MAX: usize = 32;

/// One simple command of a line, with the texts that rules are matched against. It is judged separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPart {
    /// The canonical command, which the pattern of an allowing rule must match as a whole. `None` if no rule can allow
    /// the part: it redirects to a file or was not parsed.
    pub text: Option<String>,
    /// Commands that this one may amount to. A rule that asks or denies applies if it matches any of them.
    pub equivalents: Vec<String>,
    /// Text that was not parsed. A rule that asks or denies applies if it matches anywhere in it.
    pub opaque: Option<String>,
    /// The parsed command; `None` if the line was not parsed.
    pub command: Option<SimpleCommand>,
}

/// Splits a line into its parts. A line that cannot be parsed is one opaque part that no rule with a pattern allows.
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

/// Returns the part of one simple command.
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

/// Adds the equivalents of a command to `part`. `depth` is the nesting depth of the command line, from 0.
fn add_equivalents(command: &SimpleCommand, part: &mut CommandPart, depth: u32) {
    part.equivalents.push(command.canonical());
    let words: Vec<&str> = command
        .words
        .iter()
        .map(|word| if word.is_expanded { &word.source } else { &word.text }.as_str())
        .collect();
    let Some((program, args)) = words.split_first() else { return };
    let name = base_name(program);
    part.equivalents.push(words.join(" "));
    part.equivalents.push([&[name], args].concat().join(" "));
    if WRAPPERS.contains(&name) {
        if args.len() > WRAPPED_WORDS_MAX {
            add_opaque(part, &args.join(" "));
        }
        // The wrapper's own options are not known, so the wrapped command may begin at any argument.
        for start in 0..args.len().min(WRAPPED_WORDS_MAX) {
            let inner = &args[start..];
            part.equivalents.push([&[base_name(inner[0])], &inner[1..]].concat().join(" "));
        }
    }
    let runs_shell =
        SHELLS.contains(&name) || (WRAPPERS.contains(&name) && args.iter().any(|word| is_shell(word)));
    if runs_shell {
        for line in args {
            match shell::parse_command_line(line) {
                Some(parsed) if depth < DEPTH_MAX => {
                    parsed.commands.iter().for_each(|inner| add_equivalents(inner, part, depth + 1));
                }
                Some(_) | None => add_opaque(part, line),
            }
        }
    }
}

/// Adds text that was not parsed to `part`.
fn add_opaque(part: &mut CommandPart, line: &str) {
    let opaque = part.opaque.get_or_insert_default();
    opaque.push('\n');
    opaque.push_str(&collapse_blanks(line));
}

/// Returns whether the word names a shell, with or without a path.
fn is_shell(word: &str) -> bool {
    SHELLS.contains(&base_name(word))
}

/// Returns the program's name without its path.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Replaces each sequence of whitespace by one space.
fn collapse_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
