//! Which command lines only read. Whatever is not named here is refused: options are listed one by one, because
//! many reading programs have one that writes a file or starts another program.

use crate::workspace::Workspace;

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

/// Returns the names of the allowed programs, for people and models.
pub(super) fn programs() -> String {
    let git: Vec<&str> = GIT.iter().map(|(name, _)| *name).collect();
    let names: Vec<String> = PROGRAMS
        .iter()
        .map(|program| match program.words {
            Words::Git => format!("git ({})", git.join(", ")),
            Words::Any | Words::AtMostOne | Words::None | Words::Format | Words::Find => {
                program.name.to_owned()
            }
        })
        .collect();
    names.join(", ")
}

/// Returns what a program is always given first.
pub(super) fn fixed_arguments(program: &str) -> &'static [&'static str] {
    match program {
        // A configuration file could name a preprocessor.
        "rg" => &["--no-config"],
        _ => &[],
    }
}

/// Returns nothing when the command line only reads what is inside the workspace; the error is what the model is
/// told.
pub(super) fn check(argv: &[String], workspace: &Workspace) -> Result<(), String> {
    let Some((name, words)) = argv.split_first() else {
        return Err("argv is empty; its first item is the program".to_owned());
    };
    if let Some(word) = argv.iter().find(|word| word.contains('\0')) {
        return Err(format!("{word:?} holds a zero byte"));
    }
    let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
        return Err(unknown(name));
    };
    match program.words {
        Words::Git => return check_git(words, workspace),
        Words::Find => return check_find(words, workspace),
        Words::Any | Words::AtMostOne | Words::None | Words::Format => {}
    }
    let plain = check_options(program, words)?;
    match program.words {
        Words::None if !plain.is_empty() => Err(format!("{name} takes no argument here")),
        Words::AtMostOne if plain.len() > 1 => Err(format!("{name} would write to {:?}", plain[1])),
        Words::Format if plain.iter().any(|word| !word.starts_with('+')) => {
            Err("date only shows the time here; a format begins with +".to_owned())
        }
        Words::Any | Words::AtMostOne | Words::None | Words::Format | Words::Find | Words::Git => {
            plain.iter().try_for_each(|word| workspace.check_word(word))
        }
    }
}

fn unknown(name: &str) -> String {
    let hint = if name.contains(char::is_whitespace) {
        "every argument is an item of argv of its own. "
    } else if name.contains('/') {
        "programs are named without a path. "
    } else {
        ""
    };
    format!("{name:?} is not allowed: {hint}Only programs that read can be run: {}", programs())
}

/// Checks the options and returns the other words.
fn check_options<'a>(program: &Program, words: &'a [String]) -> Result<Vec<&'a str>, String> {
    let mut plain = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match word {
            "--" => plain.extend(rest.by_ref()),
            "-" => {}
            _ if word.starts_with("--") => {
                let name = word.split_once('=').map_or(word, |(name, _)| name);
                if !program.long.contains(&name) {
                    return Err(refused(program.name, word));
                }
            }
            _ if word.starts_with('-') => {
                if check_letters(word, (program.flags, program.values))
                    .ok_or_else(|| refused(program.name, word))?
                {
                    rest.next();
                }
            }
            _ => plain.push(word),
        }
    }
    Ok(plain)
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

fn refused(program: &str, option: &str) -> String {
    format!(
        "{option:?} is not allowed with {program}: only options that read and do not start other programs are"
    )
}

fn check_find(words: &[String], workspace: &Workspace) -> Result<(), String> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match FIND.iter().find(|(name, _)| name == word) {
            Some((_, count)) => {
                for value in rest.by_ref().take(*count) {
                    workspace.check_word(value)?;
                }
            }
            None if word.starts_with('-') => return Err(refused("find", word)),
            None => workspace.check_word(word)?,
        }
    }
    Ok(())
}

fn check_git(words: &[String], workspace: &Workspace) -> Result<(), String> {
    let allowed = || GIT.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Some((name, words)) = words.split_first() else {
        return Err(format!("git needs a sub-command; allowed: {}", allowed()));
    };
    let Some((_, own)) = GIT.iter().find(|(sub, _)| sub == name) else {
        return Err(format!(
            "git {name} is not allowed; only these are, the sub-command first: {}",
            allowed()
        ));
    };
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let option = word.split_once('=').map_or(word, |(option, _)| option);
        match word {
            "--" => {
                for path in rest.by_ref() {
                    workspace.check_word(path)?;
                }
            }
            _ if own.contains(&option) || GIT_OPTIONS.contains(&option) => {}
            _ if word.starts_with("--") => return Err(refused("git", word)),
            _ if word.starts_with('-') => {
                if check_letters(word, GIT_LETTERS).ok_or_else(|| refused("git", word))? {
                    rest.next();
                }
            }
            _ => workspace.check_word(word)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
