//! The arguments of programs that take a script or a pattern: `sed`, `perl`, `awk`, `grep` and the like. Names in a script
//! are no files that the command uses.

use super::parser::ShellWord;

/// The arguments of a program that takes a script or a pattern.
#[derive(Debug, Default)]
pub(super) struct ScriptArguments<'a> {
    /// The words that are or contain a script or pattern.
    pub scripts: Vec<&'a ShellWord>,
    /// The files that the script is applied to.
    pub files: Vec<&'a ShellWord>,
    /// True if the program changes the files.
    pub is_in_place: bool,
}

/// The options of a program that takes a script or a pattern.
struct ScriptSyntax {
    /// Letters of the options with a script or pattern as their value.
    script_letters: &'static [char],
    /// Letters of the options with another value.
    value_letters: &'static [char],
    /// Long options with another value.
    value_options: &'static [&'static str],
}

const SED: ScriptSyntax =
    ScriptSyntax { script_letters: &['e'], value_letters: &['l'], value_options: &["--line-length"] };
const PERL: ScriptSyntax =
    ScriptSyntax { script_letters: &['e', 'E'], value_letters: &[], value_options: &[] };
const AWK: ScriptSyntax = ScriptSyntax {
    script_letters: &['e'],
    value_letters: &['F', 'v', 'i'],
    value_options: &["--assign", "--include", "--field-separator"],
};
const GREP: ScriptSyntax = ScriptSyntax {
    script_letters: &['e'],
    value_letters: &['A', 'B', 'C', 'm', 'd', 'D'],
    value_options: &["--include", "--exclude", "--exclude-dir", "--max-count", "--context", "--color"],
};
const RIPGREP: ScriptSyntax = ScriptSyntax {
    script_letters: &['e'],
    value_letters: &['A', 'B', 'C', 'm', 'g', 't', 'T', 'j', 'M', 'r', 'd'],
    value_options: &[
        "--glob",
        "--iglob",
        "--type",
        "--type-not",
        "--max-count",
        "--max-depth",
        "--context",
        "--after-context",
        "--before-context",
        "--replace",
        "--sort",
        "--color",
    ],
};

/// Returns the arguments of a program that takes a script or a pattern, and `None` for other programs.
pub(super) fn script_arguments<'a>(program: &str, arguments: &'a [ShellWord]) -> Option<ScriptArguments<'a>> {
    let (syntax, arguments) = match (program, arguments) {
        ("git", [first, rest @ ..]) if first.text == "grep" => (&GREP, rest),
        ("sed" | "gsed", _) => (&SED, arguments),
        ("perl", _) => (&PERL, arguments),
        ("awk" | "gawk" | "mawk" | "nawk", _) => (&AWK, arguments),
        ("grep" | "egrep" | "fgrep" | "zgrep", _) => (&GREP, arguments),
        ("rg" | "ag" | "ack", _) => (&RIPGREP, arguments),
        _ => return None,
    };
    let mut parsed = ScriptArguments::default();
    let mut operands = Vec::new();
    let mut has_script = program == "rg" && arguments.iter().any(|word| word.text == "--files");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "--" => operands.extend(words.by_ref()),
            text if text.starts_with("--") => {
                if let Some((option, _)) = text.split_once('=') {
                    let is_script = matches!(option, "--expression" | "--regexp");
                    has_script |= is_script || option == "--file";
                    parsed.scripts.extend(Some(word).filter(|_| is_script));
                } else if matches!(text, "--expression" | "--regexp" | "--source") {
                    has_script = true;
                    parsed.scripts.extend(words.next());
                } else if text == "--file" || syntax.value_options.contains(&text) {
                    has_script |= text == "--file";
                    words.next();
                }
                parsed.is_in_place |= text.starts_with("--in-place");
            }
            // The option `-i` of BSD's sed has an empty argument of its own.
            "" if matches!(program, "sed" | "gsed") => {}
            text if text.starts_with('-') && text.len() > 1 => {
                let is_suffix = text.starts_with("-i") && text.len() > 2;
                let last = text.chars().last().filter(|_| !is_suffix).unwrap_or_default();
                parsed.is_in_place |= changes_files(program, text);
                if syntax.script_letters.contains(&last) {
                    has_script = true;
                    parsed.scripts.extend(words.next());
                } else if last == 'f' && text.len() == 2 && program != "perl" {
                    has_script = true;
                    words.next();
                } else if syntax.value_letters.contains(&last) {
                    let value = words.next();
                    parsed.is_in_place |= value.is_some_and(|value| value.text == "inplace");
                }
            }
            _ => operands.push(word),
        }
    }
    let mut operands = operands.into_iter();
    if !has_script {
        // The first operand of perl without an expression is the file with the script.
        parsed.scripts.extend(operands.next().filter(|_| program != "perl"));
    }
    parsed.files.extend(operands);
    Some(parsed)
}

/// Returns whether a short option, such as `-i`, `-i.bak` or `-pi`, lets a program change its files.
fn changes_files(program: &str, option: &str) -> bool {
    match program {
        "sed" | "gsed" => option.starts_with("-i") || option.len() < 5 && option.ends_with('i'),
        "perl" => {
            let flags = option.split('.').next().unwrap_or(option);
            flags.contains('i') && !flags.starts_with("-M") && !flags.starts_with("-m")
        }
        _ => false,
    }
}
