//! Interprets a shell command by its text: the programs it runs, the files it writes, and whether it is a check.
//!
//! This is a heuristic, not a shell parser. It does not expand variables or globs, and it handles quotes and
//! here-documents only well enough that their content is not taken for commands.

mod git;
mod operations;
mod parser;
mod paths;
mod scripts;

use std::sync::LazyLock;

use regex::Regex;

pub use operations::{FileOperation, FileOperationKind};
use parser::ParsedText;
pub(crate) use paths::{is_temporary_file, join_path};

/// The kind of a check: a command that verifies the state of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckKind {
    /// A test runner.
    Test,
    /// A build or a type check.
    Build,
    /// A linter or formatter.
    Lint,
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The check found no problem.
    Passed,
    /// The check found a problem.
    Failed,
}

/// Shell utilities and keywords that are not listed among the programs of a command, because they do not characterize the
/// work.
const UTILITY_PROGRAMS: &[&str] = &[
    "echo", "cat", "ls", "sed", "grep", "rg", "head", "tail", "wc", "find", "true", "pwd", "export", "set",
    "mkdir", "rm", "cp", "mv", "awk", "sort", "uniq", "xargs", "tr", "printf", "sleep", "which", "fi",
    "done", "else", "for", "while", "cd", "tee", "cut", "touch", "chmod", "test", "then", "do", "if", "nl",
    "date", "basename", "dirname", "false", "exit", "source", "kill", "diff", "type", "seq", "break",
    "continue", "return", "read", "wait", "local", "let", "eval", "case", "esac", "until", "pushd", "popd",
    "less", "more", "file", "stat", "tree", "du", "df", "whoami", "uname", "clear", "history", "trap",
    "shift", "unset", "jobs", "ln", "realpath", "readlink", "column", "comm", "paste", "select", "function",
    "declare", "in", "print", "rmdir",
];
/// Commands that are listed by no summary, because every session has them and they say nothing about the work.
const COMMON_COMMANDS: &[&str] = &[
    "git",
    "git add",
    "git status",
    "git diff",
    "git log",
    "git show",
    "git checkout",
    "git stash",
    "git branch",
];

/// Matches the invocation of a test runner. Word boundaries are ASCII, which is faster than Unicode.
static TEST_COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"(?-u:\b)(go test|pytest|cargo (?:nextest run|nextest|test)|npm (?:run )?test(?::[\w:-]+)?|bun (?:run )?test|pnpm (?:run )?(?:-\S+ )*test|yarn (?:run )?test|vitest|jest|mise run test\S*|make (?:test|check)|python3? -m (?:unittest|pytest)|task test|mvn (?:\S+ )*test|gradlew? (?:\S+ )*test|dotnet test|rspec|phpunit|ctest|tox|mix test|deno test)(?-u:\b)",
    )
});
/// Matches the invocation of a build or type check.
static BUILD_COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"(?m)(?-u:\b)(cargo (?:build|check)|go (?:build|vet)|tsc|npm run (?:build|typecheck|type-check|check)|(?:pnpm|yarn|bun) (?:run )?(?:build|typecheck|type-check)|^make(?: build| all)?$|make build|cmake --build|mvn (?:package|compile|install)|gradlew? build|dotnet build|mypy|pyright|next build|vite build)(?-u:\b)",
    )
});
/// Matches the invocation of a linter or formatter.
static LINT_COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"(?-u:\b)(cargo (?:clippy|fmt)|golangci-lint(?: run)?|eslint|biome (?:check|lint)|ruff(?: check| format)?|flake8|black|prettier|gofmt|shellcheck|npm run lint\S*|(?:pnpm|yarn|bun) (?:run )?lint|make lint|pre-commit run|pylint|stylelint|mise run (?:lint|fmt|check)\S*)(?-u:\b)",
    )
});
/// Matches output of common tools that reports a failure. A count of failures matches only if it is not 0.
static FAILURE_OUTPUT: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"(?m)^(?:--- )?FAIL(?-u:\b)|[1-9] (?:failed|failures?|failing|errors?)(?-u:\b)|[0-9]0 (?:failed|failures?|failing|errors?)(?-u:\b)|test result: FAILED|✗|✖ [1-9]|\(fail\)|^error(?:\[E[0-9]+\])?:|: error TS[0-9]|^FAILED(?-u:\b)|BUILD FAILED|^make: \*\*\*",
    )
});
/// Matches the count of a test runner that reports no failure.
static ZERO_FAILURES: LazyLock<Regex> =
    LazyLock::new(|| compile_regex(r"(?m)(?:^|[^0-9])0 (?:fail|failed|failures|failing)(?-u:\b)"));
/// Matches output of common tools that reports a success.
static SUCCESS_OUTPUT: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"(?m)^ok\s|(?-u:\b)PASS(?:ED)?(?-u:\b)|[0-9] pass(?:ed|ing)?(?-u:\b)|test result: ok|✓|✔|All tests passed|^OK(?-u:\b)|BUILD SUCCESS|^\s*Finished ",
    )
});

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that the tests compile")
}

/// Returns the kind of check that a command runs, and the matched part of the command, which identifies the check. Only
/// the first 2,048 bytes are searched. A command that runs several checks counts as a test, else as a build.
pub fn detect_check(command: &str) -> Option<(CheckKind, String)> {
    // A pattern that ends with the command matches each command of a sequence or pipe.
    let head = crate::tool_use::head(command, 2_048).replace("2>&1", "");
    let head = head
        .split(['|', ';', '&'])
        .map(|part| part.trim().trim_start_matches("sudo ").trim_start_matches("time "));
    let head = head.collect::<Vec<_>>().join("\n");
    [(CheckKind::Test, &TEST_COMMAND), (CheckKind::Build, &BUILD_COMMAND), (CheckKind::Lint, &LINT_COMMAND)]
        .into_iter()
        .find_map(|(check, pattern)| pattern.find(&head).map(|matched| (check, matched.as_str().to_owned())))
}

/// Returns the outcome that the end of a check's output reports, or `None` if it reports neither. A failure counts even if
/// the output also reports a success.
pub fn detect_check_outcome(output: &str) -> Option<CheckOutcome> {
    // "Task 2 failed" names a task and counts no failures.
    let is_numbered = |before: &str| {
        let before = before.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end().to_ascii_lowercase();
        ["task", "job", "step", "attempt", "item", "worker"].iter().any(|noun| before.ends_with(noun))
    };
    // A test runner that counts no failure has printed the errors before it for a test that passed.
    let zero_count = ZERO_FAILURES.find_iter(output).last().map_or(0, |count| count.start());
    let is_harmless = |failure: &regex::Match<'_>| {
        failure.as_str().starts_with("error") && failure.start() < zero_count
            || is_numbered(&output[..failure.start()])
    };
    if FAILURE_OUTPUT.find_iter(output).any(|failure| !is_harmless(&failure)) {
        Some(CheckOutcome::Failed)
    } else {
        SUCCESS_OUTPUT.is_match(output).then_some(CheckOutcome::Passed)
    }
}

/// Returns whether the result of a command says only that the command was ended before it had finished.
pub(crate) fn reports_abort(result: &str) -> bool {
    let lower = crate::tool_use::head(result.trim(), 64).to_lowercase();
    ["command aborted", "command was aborted", "operation aborted", "interrupted"]
        .iter()
        .any(|beginning| lower.starts_with(beginning))
}

/// Returns the programs that a command runs, each with its subcommand (`cargo test`), in order and without general
/// utilities such as `ls`. A program that runs twice is listed twice.
pub fn invoked_programs(command: &str) -> Vec<String> {
    let mut programs = Vec::new();
    let command = lines_without_heredocs(command).collect::<Vec<_>>().join("\n");
    for line in mask_quoted_text(&command).lines() {
        for part in line.split(['|', ';', '&', '(', ')']) {
            programs.extend(invoked_program(part));
        }
    }
    programs
}

/// Returns whether a program with its subcommand characterizes the work.
pub(crate) fn is_characteristic(program: &str) -> bool {
    !COMMON_COMMANDS.contains(&program)
}

/// Returns `command` without comments, and with each quoted part replaced by one quotation mark. Comments, quoted scripts
/// and messages are not commands, and the quotation mark keeps a word with a quoted part from being taken for a program's
/// name.
fn mask_quoted_text(command: &str) -> String {
    let mut masked = String::with_capacity(command.len());
    let mut quote = None;
    let mut escaped = false;
    let mut is_comment = false;
    for c in command.chars() {
        // A comment begins with a word. It may contain an apostrophe, which opens no quotation.
        is_comment = c != '\n'
            && (is_comment
                || c == '#' && quote.is_none() && !masked.ends_with(|last: char| !last.is_whitespace()));
        if is_comment {
            continue;
        }
        match (quote, c) {
            (Some(open), c) if c == open && !escaped => quote = None,
            (None, '\'' | '"') if !escaped => {
                quote = Some(c);
                masked.push('"');
            }
            (None, c) => masked.push(c),
            (Some(_), _) => {}
        }
        escaped = c == '\\' && !escaped;
    }
    masked
}

/// Returns the program, with its subcommand, that one part of a pipe or sequence runs. Prefixes such as `sudo`,
/// `timeout 30` and variable assignments are skipped. Returns `None` for utilities and for words that cannot be a program.
fn invoked_program(part: &str) -> Option<String> {
    let mut words = part.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && is_word(name));
        match *word {
            "timeout" => {
                words.next();
            }
            "sudo" | "time" | "env" | "then" | "do" | "if" | "!" | "nohup" | "exec" | "command" => {}
            _ if is_assignment => {}
            _ => break,
        }
        words.next();
    }
    let program = words.next()?.rsplit('/').next()?;
    let is_script =
        program.rsplit_once('.').is_none_or(|(_, extension)| matches!(extension, "sh" | "py" | "js" | "rb"));
    let is_program_name =
        program.len() >= 2 && is_word(program) && program.as_bytes()[0].is_ascii_lowercase() && is_script;
    if !is_program_name || UTILITY_PROGRAMS.contains(&program) {
        return None;
    }
    let subcommand = words.next().filter(|word| {
        word.as_bytes()[0].is_ascii_lowercase()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b':' | b'_'))
    });
    Some(subcommand.map_or_else(|| program.to_owned(), |subcommand| format!("{program} {subcommand}")))
}

/// Returns whether the text has only ASCII letters, digits, `-`, `_` and `.`.
fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// The files that a command uses.
#[derive(Debug)]
pub(crate) struct CommandFiles {
    /// The effects on files, in order.
    pub operations: Vec<FileOperation>,
    /// The absolute folders in which a part of the command runs.
    pub folders: Vec<String>,
    /// The command without here-documents, and with spaces in place of comments, scripts, patterns and the folders of `cd`.
    pub text: String,
    /// The end in `text` of each simple command, and the folder in which it runs.
    command_folders: Vec<(usize, String)>,
}

impl CommandFiles {
    /// Returns the folder in which the command at an offset in `text` runs; empty if it is unknown.
    pub(crate) fn folder_at(&self, offset: usize) -> &str {
        let command = self.command_folders.partition_point(|(end, _)| *end < offset);
        self.command_folders.get(command).map_or("", |(_, folder)| folder)
    }
}

/// Returns the files that `command` uses.
pub(crate) fn command_files(command: &str) -> CommandFiles {
    let mut text = lines_without_heredocs(command).collect::<Vec<_>>().join("\n");
    let ParsedText { commands, comments } = parser::parse_commands(&text);
    for comment in comments {
        text.replace_range(comment.clone(), &" ".repeat(comment.len()));
    }
    for command in &commands {
        let (program, arguments) = command.program();
        let scripts = scripts::script_arguments(program, arguments).unwrap_or_default().scripts;
        let folders = arguments.iter().filter(|_| matches!(program, "cd" | "pushd"));
        for word in scripts.into_iter().chain(folders) {
            text.replace_range(word.span.clone(), &" ".repeat(word.span.len()));
        }
    }
    let mut folders: Vec<String> = commands.iter().map(|command| command.folder.clone()).collect();
    folders.retain(|folder| crate::calls::files::same_file::is_absolute(folder));
    folders.sort_unstable();
    folders.dedup();
    CommandFiles {
        operations: operations::file_operations(&commands),
        folders,
        text,
        command_folders: commands.into_iter().map(|command| (command.end, command.folder)).collect(),
    }
}

/// Returns the lines of a command without the bodies and delimiters of its here-documents.
pub fn lines_without_heredocs(command: &str) -> impl Iterator<Item = &str> {
    let mut delimiter: Option<&str> = None;
    command.lines().filter(move |line| {
        if let Some(word) = delimiter {
            if line.trim() == word {
                delimiter = None;
            }
            return false;
        }
        delimiter = line.split_once("<<").and_then(|(_, after)| {
            let word = after.trim_start_matches(['-', '<', ' ']).trim_start_matches(['\'', '"']);
            let length = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(word.len());
            (length > 0).then_some(&word[..length])
        });
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_a_command_are_listed() {
        for (command, expected) in [
            ("cd x && cargo test -p y 2>&1 | tail -5", "cargo test"),
            ("FOO=1 timeout 30 npm run build; ls", "npm run"),
            ("git commit -m 'a; b c'\ngo vet", "git commit, go vet"),
            ("python3 - <<'E'\nimport os; os.remove('x')\nE\ngo vet ./...", "python3, go vet"),
            ("", ""),
            // No word of this command is a program's name.
            ("dead12\"quoted\"dead12 run", ""),
            ("git commit -m \"x y\"", "git commit"),
            ("# Simulate the hook (as it would run); don't stop\ngo vet # then go run x", "go vet"),
            ("curl a.html#top; echo '# go run'; make all", "curl, make all"),
        ] {
            assert_eq!(invoked_programs(command).join(", "), expected, "{command:?}");
        }
    }

    #[test]
    fn checks_and_their_outcomes_are_recognised() {
        for (command, check, name) in [
            ("cargo nextest run -p x", CheckKind::Test, "cargo nextest run"),
            ("cd a; npm run build", CheckKind::Build, "npm run build"),
            ("cargo clippy --all", CheckKind::Lint, "cargo clippy"),
            ("make", CheckKind::Build, "make"),
            ("cd /a && make 2>&1 | tail -3", CheckKind::Build, "make"),
            ("make 2>&1", CheckKind::Build, "make"),
        ] {
            assert_eq!(detect_check(command), Some((check, name.to_owned())), "{command:?}");
        }
        assert_eq!(detect_check("ls"), None);
        assert_eq!(detect_check("apt-get install -y gcc make && ./configure"), None);
        for (output, outcome) in [
            ("test result: ok. 3 passed; 0 failed", Some(CheckOutcome::Passed)),
            ("3 passed, 1 failed", Some(CheckOutcome::Failed)),
            ("--- FAIL: TestX", Some(CheckOutcome::Failed)),
            ("error: no database\n at a.ts:3\n 12 pass\n 0 fail", Some(CheckOutcome::Passed)),
            ("test result: ok. 3 passed; 0 failed\nerror: could not compile `b`", Some(CheckOutcome::Failed)),
            ("error: no database\n 11 pass\n 1 fail\n 10 fail", Some(CheckOutcome::Failed)),
            ("hello", None),
            ("[pool] Task 2 failed: 84 |\n 512 pass\n 0 fail", Some(CheckOutcome::Passed)),
        ] {
            assert_eq!(detect_check_outcome(output), outcome, "{output:?}");
        }
    }

    #[test]
    fn redirections_write_files_and_heredocs_are_not_commands() {
        for (command, expected) in [
            ("echo a > b.md", "b.md"),
            ("cat >> src/c.txt <<E\nx > no.md\nE", "src/c.txt"),
            ("make 2>&1 | tee /tmp/x.log", ""),
            ("sed -i 's/a/b/' d.py", "d.py"),
            ("grep 'a -> b' e.rs", ""),
            (
                "cd /p && git mv a.rs b.rs && sed -Ei s/x/y/ src/e.rs; touch new.txt",
                "/p/b.rs /p/src/e.rs /p/new.txt",
            ),
            ("sed -n 3p d.py && cp a.rs /tmp/b.rs", ""),
            ("sed -i 's/clock.advance(1); x/y/' src/e.rs", "src/e.rs"),
        ] {
            let is_write = |operation: &FileOperation| {
                matches!(operation.kind, FileOperationKind::Edit | FileOperationKind::Create)
            };
            let operations = command_files(command).operations;
            let files: Vec<String> =
                operations.into_iter().filter(is_write).map(|operation| operation.path).collect();
            assert_eq!(files.join(" "), expected, "{command:?}");
        }
    }
}
