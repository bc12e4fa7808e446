//! The programs that only read, with the options they may be given, one by one. What is not listed here may do more:
//! many reading programs have an option that writes a file or starts another program. How the tables are used is the
//! matter of [`super`].

/// A program, or a sub-command of git, and the options it may be given.
#[derive(Debug)]
pub(super) struct Program {
    pub name: &'static str,
    /// Letters of options without a value.
    pub flags: &'static str,
    /// Letters of options that always take a value, attached or as the next word.
    pub values: &'static str,
    /// Letters of options whose value is a number that is attached.
    pub numbers: &'static str,
    /// Other options as they are written. `--x=` takes a value, attached or as the next word; `--x` takes none, or one
    /// that is attached.
    pub long: &'static [&'static [&'static str]],
    /// What may stand beside the options.
    pub words: Words,
}

/// What may stand beside the options of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Paths inside the workspace, patterns, names.
    Any,
    /// At most one of them; a second would be written to.
    AtMostOne,
    /// Files, no folders: those would be gone through.
    Files,
    None,
    /// A format that begins with `+`.
    Format,
    /// Paths and tests of `find`.
    Find,
    /// A sub-command of git.
    Git,
    /// Names, beside an option that makes a list of them: without one they would be created.
    Listed,
}

const fn program(name: &'static str, flags: &'static str, values: &'static str, words: Words) -> Program {
    Program { name, flags, values, numbers: "", long: &[], words }
}

const fn long(long: &'static [&'static [&'static str]], program: Program) -> Program {
    Program { long, ..program }
}

pub(super) const PROGRAMS: &[Program] = &[
    program("ls", "laAhRtSr1dFpis", "", Words::Any),
    program("cat", "nbsAET", "", Words::Any),
    program("head", "qv", "nc", Words::Any),
    program("tail", "fqv", "nc", Words::Any),
    program("wc", "lwcmL", "", Words::Any),
    long(&[&["--format="]], program("stat", "ft", "c", Words::Any)),
    long(&[&["--mime-type", "--mime", "--brief"]], program("file", "bi", "", Words::Any)),
    long(&[&["--max-depth=", "--apparent-size"]], program("du", "shackmb", "d", Words::Any)),
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
    long(&[&["--brief", "--unified"]], program("diff", "uqiwbB", "U", Words::Files)),
    long(&[&["--utc", "--iso-8601"]], program("date", "uRI", "", Words::Format)),
    program("uname", "asnrvmpio", "", Words::None),
    long(&[&["--reverse", "--unique"]], program("sort", "nrufhVbcsgdiM", "kt", Words::Any)),
    program("uniq", "cdui", "fsw", Words::AtMostOne),
    long(&[&["--complement", "--output-delimiter="]], program("cut", "s", "dfcb", Words::Any)),
    program("which", "a", "", Words::Any),
    long(&[GREP], program("grep", "rnilLcvwxEFPohHsqIzab", "ABCme", Words::Any)),
    long(&[RG], program("rg", "nilcvwxFPohHsSUuN", "ABCmegtTd", Words::Any)),
    program("find", "", "", Words::Find),
    program("git", "", "", Words::Git),
];

const GREP: &[&str] =
    &["--include=", "--exclude=", "--exclude-dir=", "--max-count=", "--context=", "--color", "--line-number"];

const RG: &[&str] = &[
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

/// What `find` may test and print, each with how many words it takes.
pub(super) const FIND: &[(&str, usize)] = &[
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

/// The sub-commands of git. `-a` of those that show changes is left out: it shows what counts as binary.
pub(super) const GIT: &[Program] = &[
    long(
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
        program("status", "sbz", "", Words::Any),
    ),
    Program { numbers: "UMC", long: &[COMMITS, CHANGES], ..program("log", "pswbziEFRMC", "nSG", Words::Any) },
    Program { numbers: "UMC", long: &[COMMITS, CHANGES], ..program("show", "pswbzRMC", "nSG", Words::Any) },
    Program {
        numbers: "UMC",
        long: &[CHANGES, &["--cached", "--staged", "--merge-base", "--check", "--exit-code", "--no-color"]],
        ..program("diff", "pswbzRMC", "SG", Words::Any)
    },
    long(
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
        program("blame", "wetclsMC", "L", Words::Any),
    ),
    long(&[BRANCH_LISTS, &["--sort=", "--format=", "--show-current", "--all", "--remotes", "--verbose"]], {
        program("branch", "arvl", "", Words::Listed)
    }),
    long(
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
        program("ls-files", "cdmostz", "", Words::Any),
    ),
    long(
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
        program("rev-parse", "", "", Words::Any),
    ),
    // `--dirty` writes the index.
    long(
        &[&["--tags", "--always", "--long", "--match=", "--contains", "--all", "--abbrev", "--first-parent"]],
        program("describe", "", "", Words::Any),
    ),
];

/// Options with which `git branch` makes a list of the branches that its words are about.
pub(super) const BRANCH_LISTS: &[&str] =
    &["--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at="];

/// Options with which `git log` shows what changed in files.
pub(super) const PATCHES: &[&str] = &["--patch", "--unified", "--word-diff", "--function-context"];

/// Options of git about which commits are shown, and how.
const COMMITS: &[&str] = &[
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

/// Options of git about how changes are shown.
const CHANGES: &[&str] = &[
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
