//! The words by which a sentence states a shortfall beside a result.

/// Words with which an answer admits that it did less than was asked, whatever else the sentence says.
pub(super) const ADMISSIONS: &[&str] = &[
    "changed nothing",
    "nothing was changed",
    "could not reproduce",
    "couldn't reproduce",
    "couldn’t reproduce",
    "cannot reproduce",
    "can't reproduce",
    "can’t reproduce",
    "i cannot tell",
    "i can't tell",
    "i can’t tell",
    "i could not tell",
    "i couldn't tell",
    "i have no access",
    "i don't have access",
    "i don’t have access",
    "i do not have access",
    "was not sure",
    "wasn't sure",
    "wasn’t sure",
    "i wait until",
    "i'm waiting",
    "i’m waiting",
    "still runs the old",
    "still run the old",
    "still uses the old",
    "still use the old",
    "still on the old",
    "is where i stopped",
    "for the time being",
    "is one command away",
    "is one step away",
    "switched on again",
    "switched back on",
    "turned on again",
    "turned back on",
    "re-enabled before",
];

/// Words with which an answer says that it left a part as it was.
pub(super) const LEFT_ALONE: &[&str] = &["left alone", "left it alone", "left them alone", "left untouched"];

/// Lowercase words for failures that a number counts.
pub(super) const COUNTED_FAILURES: &[&str] =
    &["fail", "fails", "failed", "failing", "failure", "failures", "errors"];

/// Words that say that the failures in the same clause are over, or part of another count.
pub(super) const MENDED: &[&str] = &[
    "fixed",
    "fixes",
    "fix",
    "resolved",
    "mended",
    "repaired",
    "were",
    "was",
    "had",
    "before",
    "no longer",
    "previously",
    "down from",
    "instead of",
    "handled",
    "handles",
    "handling",
    "caught",
    "logged",
    "retries",
    "retry",
    "replaced",
];

/// Number words, from one on.
pub(super) const NUMBER_WORDS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// Words after a count such as "41/43".
pub(super) const COUNTED_NOUNS: &[&str] = &[
    "test",
    "tests",
    "checks",
    "files",
    "tasks",
    "steps",
    "modules",
    "services",
    "tables",
    "pass",
    "passed",
    "passing",
    "green",
    "done",
    "complete",
    "completed",
    "migrated",
    "ported",
    "converted",
];

/// Nouns before the number of a thing in a sequence, which counts no part: "step 2 of 5".
pub(super) const ORDINAL_NOUNS: &[&str] = &[
    "step",
    "part",
    "page",
    "phase",
    "option",
    "approach",
    "task",
    "batch",
    "chapter",
    "version",
    "round",
    "attempt",
    "iteration",
    "stage",
    "week",
    "day",
    "figure",
    "section",
    "item",
    "question",
    "run",
    "try",
];

/// Words before what is an exception from a whole.
pub(super) const EXCEPTIONS: &[&str] =
    &[" except", " apart from", " other than", " with the exception of", " außer"];

/// Words for the whole of the work.
pub(super) const WHOLES: &[&str] = &["everything", "all", "both", "every", "each", "alles", "alle"];

/// Words of something that is left as it was.
pub(super) const SET_ASIDE: &[&str] =
    &["left", "leave", "leaving", "skipped", "skip", "skipping", "kept", "ignored", "postponed", "deferred"];

/// Words that say that this is not final.
pub(super) const PUT_OFF: &[&str] = &["for now", "for the moment", "for later", "at the moment", "vorerst"];
