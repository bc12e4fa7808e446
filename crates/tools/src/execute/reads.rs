//! Which command lines only read, and what of the workspace they name. Whatever is not named here may do more: options are
//! listed one by one, because many reading programs have one that writes a file or starts another program.

use std::path::{Path, PathBuf};

use crate::execute::git;
use crate::permission::{SECRET_NAMES, looks_secret};
use crate::shell::{self, Redirect, Simple};
use crate::workspace::Workspace;

/// A line of programs that only read, wherever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    /// The line to run in its place: the same words, none of them expanded, with options that keep the programs from
    /// doing more.
    pub script: String,
    /// Whether git is among the programs.
    pub uses_git: bool,
    /// Words that may name something.
    words: Vec<String>,
    /// Folders it changes into.
    folders: Vec<String>,
}

/// A program and the options it may be given.
struct Program {
    name: &'static str,
    /// Letters of options without a value.
    flags: &'static str,
    /// Letters of options with a value.
    values: &'static str,
    /// Long options, with or without `=value`.
    long: &'static [&'static str],
    /// What may stand beside the options.
    words: Words,
}

/// What may stand beside the options of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Paths inside the workspace, patterns, names.
    Any,
    /// At most one of them; a second would be written to.
    AtMostOne,
    /// Nothing.
    None,
    /// A format that begins with `+`.
    Format,
    /// Paths and tests of `find`.
    Find,
    /// A sub-command of git.
    Git,
}

const fn program(name: &'static str, flags: &'static str, values: &'static str, words: Words) -> Program {
    Program { name, flags, values, long: &[], words }
}

const PROGRAMS: &[Program] = &[
    program("ls", "laAhRtSr1dFpis", "", Words::Any),
    program("cat", "nbsAET", "", Words::Any),
    program("head", "qv", "nc", Words::Any),
    program("tail", "fqv", "nc", Words::Any),
    program("wc", "lwcmL", "", Words::Any),
    Program { long: &["--format"], ..program("stat", "ft", "c", Words::Any) },
    Program { long: &["--mime-type", "--mime", "--brief"], ..program("file", "bi", "", Words::Any) },
    Program { long: &["--max-depth", "--apparent-size"], ..program("du", "shackmb", "d", Words::Any) },
    program("df", "hkmTi", "", Words::Any),
    program("pwd", "P", "", Words::None),
    program("true", "", "", Words::None),
    program("echo", "neE", "", Words::Any),
    program("basename", "", "", Words::Any),
    program("dirname", "", "", Words::Any),
    program("realpath", "m", "", Words::Any),
    program("nl", "", "b", Words::Any),
    program("tr", "cds", "", Words::Any),
    program("sha256sum", "b", "", Words::Any),
    program("md5sum", "b", "", Words::Any),
    Program { long: &["--brief", "--unified"], ..program("diff", "uqNiwbB", "U", Words::Any) },
    Program { long: &["--utc", "--iso-8601"], ..program("date", "uRI", "", Words::Format) },
    program("uname", "asnrvmpio", "", Words::None),
    Program { long: &["--reverse", "--unique"], ..program("sort", "nrufhVbcsgdiM", "kt", Words::Any) },
    program("uniq", "cdui", "fsw", Words::AtMostOne),
    Program { long: &["--complement", "--output-delimiter"], ..program("cut", "s", "dfcb", Words::Any) },
    program("which", "a", "", Words::Any),
    Program {
        long: &[
            "--include",
            "--exclude",
            "--exclude-dir",
            "--max-count",
            "--context",
            "--color",
            "--line-number",
        ],
        ..program("grep", "rnilLcvwxEFPohHsqIzab", "ABCmed", Words::Any)
    },
    Program {
        long: &[
            "--files",
            "--hidden",
            "--no-ignore",
            "--glob",
            "--type",
            "--max-count",
            "--context",
            "--count",
            "--files-with-matches",
            "--ignore-case",
            "--fixed-strings",
            "--word-regexp",
            "--line-number",
            "--no-heading",
            "--max-depth",
            "--only-matching",
            "--multiline",
            "--stats",
            "--type-list",
            "--json",
        ],
        ..program("rg", "nilcvwxFPohHsSUuN", "ABCmegtTd", Words::Any)
    },
    program("find", "", "", Words::Find),
    program("git", "", "", Words::Git),
];

/// What `find` may test and print, each with how many words it takes.
const FIND: &[(&str, usize)] = &[
    ("-name", 1),
    ("-iname", 1),
    ("-path", 1),
    ("-ipath", 1),
    ("-regex", 1),
    ("-iregex", 1),
    ("-type", 1),
    ("-maxdepth", 1),
    ("-mindepth", 1),
    ("-size", 1),
    ("-mtime", 1),
    ("-mmin", 1),
    ("-newer", 1),
    ("-perm", 1),
    ("-empty", 0),
    ("-not", 0),
    ("-a", 0),
    ("-o", 0),
    ("-and", 0),
    ("-or", 0),
    ("-prune", 0),
    ("-print", 0),
    ("-print0", 0),
    ("-ls", 0),
    ("-printf", 1),
    ("-true", 0),
    ("-false", 0),
    ("-depth", 0),
    ("-xdev", 0),
    ("!", 0),
    ("(", 0),
    (")", 0),
    ("-P", 0),
];

/// The sub-commands of git, each with the options it has beyond [`GIT_OPTIONS`].
const GIT: &[(&str, &[&str])] = &[
    (
        "status",
        &["--short", "--branch", "--porcelain", "--untracked-files", "--ignored", "--long", "-b", "-u"],
    ),
    ("log", &[]),
    ("diff", &["--cached", "--staged", "--merge-base", "--check", "--exit-code"]),
    ("show", &[]),
    (
        "blame",
        &["-L", "-e", "-t", "-c", "-l", "--line-porcelain", "--porcelain", "--show-name", "--show-number"],
    ),
    (
        "branch",
        &["--list", "--contains", "--merged", "--no-merged", "--sort", "--show-current", "--points-at", "-l"],
    ),
    (
        "ls-files",
        &["--cached", "--deleted", "--modified", "--others", "--ignored", "--exclude-standard", "-m", "-o"],
    ),
    ("rev-parse", &["--show-toplevel", "--short", "--verify", "--show-prefix", "--is-inside-work-tree"]),
    ("describe", &["--tags", "--always", "--dirty", "--long", "--match", "--contains"]),
];

/// Options of git that only change what is shown.
const GIT_OPTIONS: &[&str] = &[
    "--oneline",
    "--graph",
    "--decorate",
    "--all",
    "--stat",
    "--numstat",
    "--shortstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--patch",
    "--no-patch",
    "--raw",
    "--merges",
    "--no-merges",
    "--first-parent",
    "--reverse",
    "--follow",
    "--author",
    "--committer",
    "--grep",
    "--since",
    "--until",
    "--after",
    "--before",
    "--max-count",
    "--skip",
    "--format",
    "--pretty",
    "--abbrev-commit",
    "--abbrev",
    "--date",
    "--relative-date",
    "--word-diff",
    "--ignore-all-space",
    "--ignore-space-change",
    "--ignore-blank-lines",
    "--unified",
    "--function-context",
    "--diff-filter",
    "--find-renames",
    "--find-copies",
    "--no-renames",
    "--minimal",
    "--patience",
    "--histogram",
    "--topo-order",
    "--date-order",
    "--left-right",
    "--cherry-pick",
    "--tags",
    "--branches",
    "--remotes",
    "--full-index",
    "--no-color",
    "--pickaxe-regex",
    "--verbose",
    "--invert-grep",
    "--regexp-ignore-case",
    "--extended-regexp",
    "--fixed-strings",
    "--simplify-by-decoration",
    "--ancestry-path",
    "--relative",
];
/// Letters of options of git, without and with a value.
const GIT_LETTERS: (&str, &str) = ("apsvwbzriEFRMC", "nSGUL");

/// Takes the line for one that only reads; `None` when it may do more.
pub(super) fn reading(line: &str) -> Option<Reading> {
    let parsed = shell::parse(line)?;
    let (mut words, mut folders) = (Vec::new(), Vec::new());
    for command in &parsed.commands {
        let argv = command.literal()?;
        if !command.assignments.is_empty() || command.redirects_to_file() {
            return None;
        }
        match argv.split_first()? {
            (name, [folder]) if name == "cd" => folders.push(folder.clone()),
            _ => words.extend(check(&argv)?.into_iter().map(str::to_owned)),
        }
    }
    let uses_git = parsed.commands.iter().any(|command| command.words[0].text == "git");
    Some(Reading { script: parsed.rendered(rendered), uses_git, words, folders })
}

impl Reading {
    /// Returns what the line names of the workspace, relative to it, or the workspace itself when it names nothing;
    /// `None` when something is outside.
    pub fn paths(&self, workspace: &Workspace) -> Option<Vec<PathBuf>> {
        for folder in &self.folders {
            // Anywhere else the paths that follow would mean something else.
            workspace.named_by(folder).ok()?.filter(|path| path.as_os_str().is_empty())?;
        }
        let mut paths = Vec::new();
        for word in &self.words {
            paths.extend(workspace.named_by(word).ok()?);
            // As in `git show HEAD:.env`.
            paths.extend(word.rsplit(':').next().map(PathBuf::from).filter(|path| looks_secret(path)));
        }
        if paths.is_empty() {
            paths.push(PathBuf::new());
        }
        Some(paths)
    }
}

/// Returns the command with the options it is always given.
fn rendered(command: &Simple) -> String {
    let mut argv = command.literal().unwrap_or_default();
    let words = argv.split_off(1);
    argv.extend(match argv[0].as_str() {
        "git" => git::arguments(&words),
        // A configuration file could name a preprocessor.
        "rg" => {
            before_words([vec!["--no-config".to_owned()], words].concat(), |name| format!("--glob=!{name}"))
        }
        "grep" => before_words(words, |name| format!("--exclude={name}")),
        _ => words,
    });
    let redirects = command.redirects.iter().filter_map(|redirect| match redirect {
        Redirect::Harmless(text) => Some(text.clone()),
        Redirect::File => None,
    });
    argv.iter().map(|word| shell::quoted(word)).chain(redirects).collect::<Vec<_>>().join(" ")
}

/// Adds an option for each name of files that hold secrets, behind all other options: the last one counts.
fn before_words(mut words: Vec<String>, option: impl Fn(&str) -> String) -> Vec<String> {
    // A file that the line names is meant, and was asked about.
    if words.iter().any(|word| looks_secret(Path::new(word))) {
        return words;
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let rest = words.split_off(end);
    words.extend(SECRET_NAMES.iter().map(|name| option(name)));
    words.extend(rest);
    words
}

/// Returns the words that may name something when the command only reads.
fn check(argv: &[String]) -> Option<Vec<&str>> {
    let (name, words) = argv.split_first()?;
    let program = PROGRAMS.iter().find(|program| program.name == name)?;
    let plain = match program.words {
        Words::Git => return check_git(words),
        Words::Find => return check_find(words),
        Words::Any | Words::AtMostOne | Words::None | Words::Format => check_options(program, words)?,
    };
    let is_allowed = match program.words {
        Words::None => plain.is_empty(),
        Words::AtMostOne => plain.len() <= 1,
        Words::Format => plain.iter().all(|word| word.starts_with('+')),
        Words::Any | Words::Find | Words::Git => true,
    };
    is_allowed.then_some(plain)
}

/// Checks the options and returns the other words.
fn check_options<'a>(program: &Program, words: &'a [String]) -> Option<Vec<&'a str>> {
    let mut plain = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match word {
            "--" => plain.extend(rest.by_ref()),
            "-" => {}
            _ if word.starts_with("--") => {
                let name = word.split_once('=').map_or(word, |(name, _)| name);
                if !program.long.contains(&name) {
                    return None;
                }
            }
            _ if word.starts_with('-') => {
                if check_letters(word, (program.flags, program.values))? {
                    rest.next();
                }
            }
            _ => plain.push(word),
        }
    }
    Some(plain)
}

/// Returns whether the next word is the value of the last letter; `None` when a letter is not allowed.
fn check_letters(word: &str, (flags, values): (&str, &str)) -> Option<bool> {
    let letters = &word[1..];
    // As in `head -20`.
    if letters.bytes().all(|byte| byte.is_ascii_digit()) {
        return values.contains('n').then_some(false);
    }
    for (at, letter) in letters.char_indices() {
        if values.contains(letter) {
            return Some(at + letter.len_utf8() == letters.len());
        }
        if !flags.contains(letter) {
            return None;
        }
    }
    Some(false)
}

fn check_find(words: &[String]) -> Option<Vec<&str>> {
    let mut named = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match FIND.iter().find(|(name, _)| name == word) {
            Some((_, count)) => named.extend(rest.by_ref().take(*count).map(String::as_str)),
            None if word.starts_with('-') => return None,
            None => named.push(word),
        }
    }
    Some(named)
}

fn check_git(words: &[String]) -> Option<Vec<&str>> {
    let (name, words) = words.split_first()?;
    let (_, own) = GIT.iter().find(|(sub, _)| sub == name)?;
    let mut named = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let option = word.split_once('=').map_or(word, |(option, _)| option);
        match word {
            "--" => named.extend(rest.by_ref()),
            _ if own.contains(&option) || GIT_OPTIONS.contains(&option) => {}
            _ if word.starts_with("--") => return None,
            _ if word.starts_with('-') => {
                if check_letters(word, GIT_LETTERS)? {
                    rest.next();
                }
            }
            _ => named.push(word),
        }
    }
    Some(named)
}

#[cfg(test)]
mod tests;
