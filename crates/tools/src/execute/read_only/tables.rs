//! Tables of the programs that only read, with each option they may get.
//!
//! Every option is listed by name because many reading programs have an option that writes a file (`sort -o`) or
//! starts another program (`rg --pre`). A program or option that is missing here is not treated as read-only.
//! [`super`] applies the tables.

/// A program, or a sub-command of git, with the options and operands it may get.
#[derive(Debug)]
pub(super) struct ReadOnlyProgram {
    /// The program's name, without a path.
    pub name: &'static str,
    /// Letters of single-letter options without a value.
    pub flag_letters: &'static str,
    /// Letters of options that always take a value, attached or as the next word.
    pub value_letters: &'static str,
    /// Letters of options whose value is an attached number, such as `-U3`.
    pub number_letters: &'static str,
    /// Lists of other options in their source form. `--x=` takes a value, attached or as the next word; `--x` takes
    /// none, or an attached one.
    pub long_options: &'static [&'static [&'static str]],
    /// The allowed operands.
    pub operands: OperandRule,
}

/// The operands that a program may have in addition to its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandRule {
    /// Any number of paths inside the workspace, patterns or names.
    Any,
    /// At most one operand, because the program would write to a second one.
    AtMostOne,
    /// Files but no folders, because the program would walk a folder.
    Files,
    /// No operand.
    None,
    /// A format that begins with `+`. Another operand of `date` would set the clock.
    Format,
    /// Paths and tests of `find`.
    Find,
    /// A sub-command of git with its own entry in [`GIT_SUBCOMMANDS`].
    Git,
    /// Names, only together with an option from [`BRANCH_LIST_OPTIONS`]. Without such an option, `git branch` would
    /// create a branch of that name.
    ListOnly,
}

/// Returns an entry without long options. `flags` and `values` are the letters of options without and with a value.
const fn read_only_program(
    name: &'static str,
    flags: &'static str,
    values: &'static str,
    operands: OperandRule,
) -> ReadOnlyProgram {
    ReadOnlyProgram {
        name,
        flag_letters: flags,
        value_letters: values,
        number_letters: "",
        long_options: &[],
        operands,
    }
}

/// Returns `program` with the long options `long`.
const fn with_long_options(
    long: &'static [&'static [&'static str]],
    program: ReadOnlyProgram,
) -> ReadOnlyProgram {
    ReadOnlyProgram { long_options: long, ..program }
}

/// The programs that only read when they are used with these options and operands.
pub(super) const READ_ONLY_PROGRAMS: &[ReadOnlyProgram] = &[
    read_only_program("ls", "laAhRtSr1dFpis", "", OperandRule::Any),
    read_only_program("cat", "nbsAET", "", OperandRule::Any),
    read_only_program("head", "qv", "nc", OperandRule::Any),
    read_only_program("tail", "fqv", "nc", OperandRule::Any),
    read_only_program("wc", "lwcmL", "", OperandRule::Any),
    with_long_options(&[&["--format="]], read_only_program("stat", "ft", "c", OperandRule::Any)),
    with_long_options(
        &[&["--mime-type", "--mime", "--brief"]],
        read_only_program("file", "bi", "", OperandRule::Any),
    ),
    with_long_options(
        &[&["--max-depth=", "--apparent-size"]],
        read_only_program("du", "shackmb", "d", OperandRule::Any),
    ),
    read_only_program("df", "hkmTi", "", OperandRule::Any),
    read_only_program("pwd", "P", "", OperandRule::None),
    read_only_program("true", "", "", OperandRule::None),
    read_only_program("echo", "neE", "", OperandRule::Any),
    read_only_program("basename", "", "", OperandRule::Any),
    read_only_program("dirname", "", "", OperandRule::Any),
    read_only_program("realpath", "m", "", OperandRule::Any),
    read_only_program("nl", "", "b", OperandRule::Any),
    read_only_program("tr", "cds", "", OperandRule::Any),
    read_only_program("sha256sum", "b", "", OperandRule::Any),
    read_only_program("md5sum", "b", "", OperandRule::Any),
    with_long_options(
        &[&["--brief", "--unified"]],
        read_only_program("diff", "uqiwbB", "U", OperandRule::Files),
    ),
    with_long_options(&[&["--utc", "--iso-8601"]], read_only_program("date", "uRI", "", OperandRule::Format)),
    read_only_program("uname", "asnrvmpio", "", OperandRule::None),
    with_long_options(
        &[&["--reverse", "--unique"]],
        read_only_program("sort", "nrufhVbcsgdiM", "kt", OperandRule::Any),
    ),
    read_only_program("uniq", "cdui", "fsw", OperandRule::AtMostOne),
    with_long_options(
        &[&["--complement", "--output-delimiter="]],
        read_only_program("cut", "s", "dfcb", OperandRule::Any),
    ),
    read_only_program("which", "a", "", OperandRule::Any),
    with_long_options(
        &[GREP_OPTIONS],
        read_only_program("grep", "rnilLcvwxEFPohHsqIzab", "ABCme", OperandRule::Any),
    ),
    with_long_options(
        &[RG_OPTIONS],
        read_only_program("rg", "nilcvwxFPohHsSUuN", "ABCmegtTd", OperandRule::Any),
    ),
    read_only_program("find", "", "", OperandRule::Find),
    read_only_program("git", "", "", OperandRule::Git),
];

/// Long options of `grep` that only read. `--file` is missing because its value is a file of patterns.
const GREP_OPTIONS: &[&str] =
    &["--include=", "--exclude=", "--exclude-dir=", "--max-count=", "--context=", "--color", "--line-number"];

/// Long options of ripgrep that only read. `--pre` is missing because it starts a program.
const RG_OPTIONS: &[&str] = &[
    "--files",
    "--hidden",
    "--no-ignore",
    "--glob=",
    "--type=",
    "--max-count=",
    "--context=",
    "--count",
    "--files-with-matches",
    "--ignore-case",
    "--fixed-strings",
    "--word-regexp",
    "--line-number",
    "--no-heading",
    "--max-depth=",
    "--only-matching",
    "--multiline",
    "--stats",
    "--type-list",
    "--json",
];

/// Tests, operators and actions of `find` that only read, each with the number of words it takes.
pub(super) const FIND_TESTS: &[(&str, usize)] = &[
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

/// The sub-commands of git that only read. [`super::change_command`] leaves files of secrets out of those that show
/// changes.
pub(super) const GIT_SUBCOMMANDS: &[ReadOnlyProgram] = &[
    with_long_options(
        &[&[
            "--short",
            "--branch",
            "--porcelain",
            "--untracked-files",
            "--ignored",
            "--long",
            "-u",
            "-uno",
            "-unormal",
            "-uall",
        ]],
        read_only_program("status", "sbz", "", OperandRule::Any),
    ),
    ReadOnlyProgram {
        number_letters: "UMC",
        long_options: &[COMMIT_OPTIONS, DIFF_OPTIONS],
        ..read_only_program("log", "pswbziEFRMC", "nSG", OperandRule::Any)
    },
    ReadOnlyProgram {
        number_letters: "UMC",
        long_options: &[COMMIT_OPTIONS, DIFF_OPTIONS],
        ..read_only_program("show", "pswbzRMC", "nSG", OperandRule::Any)
    },
    ReadOnlyProgram {
        number_letters: "UMC",
        long_options: &[
            DIFF_OPTIONS,
            &["--cached", "--staged", "--merge-base", "--check", "--exit-code", "--no-color"],
        ],
        ..read_only_program("diff", "pswbzRMC", "SG", OperandRule::Any)
    },
    with_long_options(
        &[&[
            "--line-porcelain",
            "--porcelain",
            "--show-name",
            "--show-number",
            "--date=",
            "--abbrev",
            "--first-parent",
            "--since=",
        ]],
        read_only_program("blame", "wetclsMC", "L", OperandRule::Any),
    ),
    with_long_options(
        &[
            BRANCH_LIST_OPTIONS,
            &["--sort=", "--format=", "--show-current", "--all", "--remotes", "--verbose"],
        ],
        read_only_program("branch", "arvl", "", OperandRule::ListOnly),
    ),
    with_long_options(
        &[&[
            "--cached",
            "--deleted",
            "--modified",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--full-name",
            "--error-unmatch",
        ]],
        read_only_program("ls-files", "cdmostz", "", OperandRule::Any),
    ),
    with_long_options(
        &[&[
            "--show-toplevel",
            "--short",
            "--verify",
            "--show-prefix",
            "--is-inside-work-tree",
            "--abbrev-ref",
            "--all",
            "--branches",
            "--tags",
            "--remotes",
        ]],
        read_only_program("rev-parse", "", "", OperandRule::Any),
    ),
    // `--dirty` is missing because it writes the index.
    with_long_options(
        &[&["--tags", "--always", "--long", "--match=", "--contains", "--all", "--abbrev", "--first-parent"]],
        read_only_program("describe", "", "", OperandRule::Any),
    ),
];

/// Options that make `git branch` list the branches that match its operands.
pub(super) const BRANCH_LIST_OPTIONS: &[&str] =
    &["--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at="];

/// Options that make a sub-command of git show the changed content of files.
pub(super) const PATCH_OPTIONS: &[&str] =
    &["--patch", "--unified", "--word-diff", "--function-context", "--check"];

/// Options with which a sub-command of git shows a summary in the place of the changed content.
pub(super) const SUMMARY_OPTIONS: &[&str] = &[
    "--stat",
    "--numstat",
    "--shortstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--no-patch",
    "--raw",
];

/// Options of git that select commits and set their format.
const COMMIT_OPTIONS: &[&str] = &[
    "--oneline",
    "--graph",
    "--decorate",
    "--all",
    "--merges",
    "--no-merges",
    "--first-parent",
    "--reverse",
    "--follow",
    "--author=",
    "--committer=",
    "--grep=",
    "--since=",
    "--until=",
    "--after=",
    "--before=",
    "--max-count=",
    "--skip=",
    "--format=",
    "--pretty",
    "--abbrev-commit",
    "--abbrev",
    "--date=",
    "--relative-date",
    "--topo-order",
    "--date-order",
    "--left-right",
    "--cherry-pick",
    "--tags",
    "--branches",
    "--remotes",
    "--no-color",
    "--invert-grep",
    "--regexp-ignore-case",
    "--extended-regexp",
    "--fixed-strings",
    "--simplify-by-decoration",
    "--ancestry-path",
];

/// Options of git that set how changes are shown.
const DIFF_OPTIONS: &[&str] = &[
    "--stat",
    "--numstat",
    "--shortstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--patch",
    "--no-patch",
    "--raw",
    "--word-diff",
    "--ignore-all-space",
    "--ignore-space-change",
    "--ignore-blank-lines",
    "--unified",
    "--function-context",
    "--diff-filter=",
    "--find-renames",
    "--find-copies",
    "--no-renames",
    "--minimal",
    "--patience",
    "--histogram",
    "--full-index",
    "--pickaxe-regex",
    "--relative",
];
