//! Rules for the project's language: names and the first lines of docs use the field's terms. Each refused word is
//! listed with the term to use. The lists only grow. Phrases are checked in [`phrases`], catch-all names in
//! [`super::names`].

pub mod phrases;

use std::collections::BTreeMap;

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// Maximum number of types in the workspace with the same name. Two types may implement the same idea.
const SAME_NAME_MAX: usize = 2;

/// Type names that every crate may use, because they have the same meaning everywhere.
const SHARED_NAMES: [&str; 2] = ["Error", "Result"];

/// Words with which a doc comment must not begin, because they paraphrase a term instead of using it.
const REFUSED_BEGINNINGS: [&str; 6] = ["What", "Who", "Whose", "Whoever", "Whether", "That"];

/// Type names that have no meaning without their module, each with a better kind of name.
const REFUSED_TYPES: &[(&str, &str)] = &[
    ("About", "the noun that it describes"),
    ("Asked", "`PendingQuestion`, `PromptReply` or the noun of what was asked"),
    ("Begun", "`StartedRun` or the noun of what was started"),
    ("Behind", "`Backlog`, `Lag`"),
    ("Beside", "the noun with `Adjacent` or `Context`"),
    ("Desk", "the noun of what it holds"),
    ("Due", "`Pending…`, `Due…` with the noun"),
    ("Ended", "`RunEnd`, `Completion`"),
    ("Entered", "`Admission`"),
    ("Found", "`SearchHit`, `Match` with its subject"),
    ("Given", "the noun of what was given"),
    ("GoneWith", "the noun of what was removed"),
    ("Held", "`LeaseGuard`, `LockState`"),
    ("Kept", "`Retained…`, `Cached…`, `Receipt`"),
    ("Known", "`Cached…` with the noun"),
    ("Left", "`Remaining…` with the noun"),
    ("Line", "`Queue`, `TextLine`, `LogLine`"),
    ("Lines", "`Queues`, `TextLines`"),
    ("Listed", "the noun of the list's entry"),
    ("Look", "`PollResult`, `Snapshot`, `LockStatus`"),
    ("Named", "the noun that has the name"),
    ("Order", "`Command`, `Request`, `SortOrder`"),
    ("Owed", "`Deferred…`, `Pending…` with the noun"),
    ("Part", "the noun of the part"),
    ("Place", "`Offset`, `Location`, `Permit`, `Target`"),
    ("Places", "`Quota`, `Locations`"),
    ("Planned", "`…Plan` with the noun"),
    ("Printed", "`…Output` with the noun"),
    ("Put", "`…Outcome`, `…Receipt` with the noun"),
    ("Reach", "`…Scope` with the noun"),
    ("Reading", "the noun of what is read"),
    ("Rest", "`Remaining…`, `StreamTail`"),
    ("Rested", "`…Outcome` with the noun"),
    ("Road", "`Route`, `Path` with its subject"),
    ("Said", "`Message`, `Utterance`, `Reply`"),
    ("Seen", "`Visible…`, `Snapshot`"),
    ("Served", "`…Response` with the noun"),
    ("Shown", "`Displayed…`, `Visible…` with the noun"),
    ("Standing", "`…State`, `…Position` with the noun"),
    ("Stored", "`Stored…` with the noun"),
    ("Taken", "`Usage`, `Takeover…`"),
    ("Telling", "`…Notifier`, `…Progress`, `…Log`"),
    ("Then", "`NextStep`, `Continuation`"),
    ("Told", "`Notice`, `…Outcome`, `…Message` with the noun"),
    ("Waiting", "`Pending…`, `Queued…` with the noun"),
    ("Wanted", "`…Request`, `…Filter`, `…Selector`"),
    ("Way", "`Transport`, `Mode`, `Method` with its subject"),
    ("What", "the noun itself"),
    ("Who", "`Caller`, `Occupant`, `Owner`"),
    ("Whose", "`Owner`, `…Scope`"),
    ("Work", "`…Task`, `…Job`, the noun of what is done"),
    ("World", "`…Fixture`"),
];

/// Function names that are neither a verb with an object nor a noun, each with a better kind of name.
const REFUSED_FUNCTIONS: &[(&str, &str)] = &[
    ("asked", "`ask_…`, or the noun of the question"),
    ("began", "`start_…`, `started_at`"),
    ("begun", "`start_…`, or the noun of what was started"),
    ("came_to_nothing", "`is_failed`, `has_no_effect`"),
    ("entered", "`admit_…`, `enqueue_…`"),
    ("goes_on", "`resume_…`, `is_resumable`"),
    ("gone", "`is_removed`, `remove_…`"),
    ("held", "`hold_…`, `is_held`, or the noun"),
    ("hear", "`subscribe_…`, `receive_…`"),
    ("heard", "`receive_…`, `is_notified`"),
    ("is_of_here", "`is_local`"),
    ("is_told", "`is_notified`, `has_…`"),
    ("kept", "`retain_…`, `cached_…`, or the noun"),
    ("noted", "`record_…`, or the noun"),
    ("owed", "`deferred_…`, `pending_…`"),
    ("rested", "`settle_…`, `is_idle`"),
    ("said", "`message`, `text_of_…`, `reply_…`"),
    ("seen", "`is_visible`, `visible_…`, `snapshot`"),
    ("shown", "`render_…`, `displayed_…`, `is_visible`"),
    ("take_back", "`undo_…`, `withdraw_…`, `revert_…`"),
    ("taken", "`take_…`, `is_taken`, `usage`"),
    ("taken_back", "`undo_…`, `withdrawn_…`"),
    ("tell", "`notify_…`, `publish_…`, `report_…`"),
    ("telling", "`notify_…`, `progress`"),
    ("told", "`notify_…`, `report_…`, or the noun of the report"),
    ("waited", "`wait_for_…`, `wait_duration`"),
    ("wanted", "`requested_…`, `is_requested`"),
    ("went_back", "`rewind_…`, `is_rewound`"),
    ("who", "`caller`, `owner`"),
    ("whose", "`owner`, `scope`"),
];

/// Checks the names and the first doc lines of one file.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut finder = NameFinder { source, findings: Vec::new() };
    finder.visit_file(&source.tree);
    let mut findings = finder.findings;
    findings.extend(check_doc_beginnings(source));
    findings
}

/// Checks that at most [`SAME_NAME_MAX`] types of the workspace share a name.
pub fn check_shared_names(sources: &[SourceFile]) -> Vec<Finding> {
    let mut definitions: BTreeMap<String, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for source in sources {
        let mut types = TypeNames(Vec::new());
        types.visit_file(&source.tree);
        for (name, line) in types.0 {
            definitions.entry(name).or_default().push((source, line));
        }
    }
    let mut findings = Vec::new();
    for (name, definitions) in definitions {
        if definitions.len() <= SAME_NAME_MAX || SHARED_NAMES.contains(&name.as_str()) {
            continue;
        }
        for (source, line) in &definitions {
            let what = format!("`{name}` is the name of {} types", definitions.len());
            findings.push(source.finding(*line, what, "use a name that is clear without its module"));
        }
    }
    findings
}

/// A visitor that collects the types that a file defines, with their lines.
struct TypeNames(Vec<(String, usize)>);

impl TypeNames {
    fn add(&mut self, ident: &syn::Ident) {
        self.0.push((ident.to_string(), ident.span().start().line));
    }
}

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
        visit::visit_item_type(self, item);
    }
}

/// A visitor that finds refused names of types and functions.
struct NameFinder<'a> {
    source: &'a SourceFile,
    findings: Vec<Finding>,
}

impl NameFinder<'_> {
    /// Adds a finding if `name` is in the list `refused`. `kind` is `type` or `function`.
    fn check(&mut self, kind: &str, span: Span, name: &str, refused: &[(&str, &str)]) {
        if let Some((_, term)) = refused.iter().find(|(word, _)| *word == name) {
            let what = format!("a {kind} named `{name}` (use {term})");
            self.findings.push(self.source.finding(span.start().line, what, "use the field's term"));
        }
    }
}

impl<'ast> Visit<'ast> for NameFinder<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.check("type", item.ident.span(), &item.ident.to_string(), REFUSED_TYPES);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check("type", item.ident.span(), &item.ident.to_string(), REFUSED_TYPES);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.check("type", item.ident.span(), &item.ident.to_string(), REFUSED_TYPES);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.check("type", item.ident.span(), &item.ident.to_string(), REFUSED_TYPES);
        visit::visit_item_type(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.check("function", signature.ident.span(), &signature.ident.to_string(), REFUSED_FUNCTIONS);
        visit::visit_signature(self, signature);
    }
}

/// Finds doc comments that begin with one of [`REFUSED_BEGINNINGS`].
fn check_doc_beginnings(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for comment in source.comments.iter().filter(|comment| is_first_doc_line(source, comment.line)) {
        let first = comment.text.trim_start_matches(['/', '!']).split_whitespace().next().unwrap_or_default();
        let word = first.trim_end_matches([',', ':']);
        if REFUSED_BEGINNINGS.contains(&word) && !is_model_schema(source, comment.line) {
            let what = format!("the first line of docs begins with `{word}`");
            findings.push(source.finding(
                comment.line,
                what,
                "say what the item is or does, in the field's terms",
            ));
        }
    }
    findings
}

/// Returns whether the doc comment is a description in the JSON Schema of a tool. Models read these descriptions, and
/// snapshots pin their text.
fn is_model_schema(source: &SourceFile, line: usize) -> bool {
    let item = source.lines[line..].iter().skip_while(|text| text.trim().starts_with("///"));
    let derives =
        item.take_while(|text| text.trim().starts_with("#[")).any(|text| text.contains("JsonSchema"));
    let enclosing = source.lines[..line].iter().rev().find(|text| text.contains("derive("));
    derives || enclosing.is_some_and(|text| text.contains("JsonSchema"))
}

/// Returns whether the line, counted from 1, is the first line of a doc comment.
fn is_first_doc_line(source: &SourceFile, line: usize) -> bool {
    let is_doc = |line: usize| {
        let text =
            line.checked_sub(1).and_then(|index| source.lines.get(index)).map_or("", |text| text.trim());
        text.starts_with("///") || text.starts_with("//!")
    };
    is_doc(line) && !line.checked_sub(1).is_some_and(is_doc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        assert_eq!(findings(check, "crates/a/src/a.rs", text), expected, "{text}");
    }

    #[test]
    fn refused_names_are_found_with_the_term_to_use() {
        check_text(
            "struct Told;",
            &[
                "crates/a/src/a.rs:1: a type named `Told` (use `Notice`, `…Outcome`, `…Message` with the noun); use the field's term",
            ],
        );
        check_text(
            "impl A { fn goes_on(&self) {} }",
            &[
                "crates/a/src/a.rs:1: a function named `goes_on` (use `resume_…`, `is_resumable`); use the field's term",
            ],
        );
        check_text("struct StepNotice; fn notify_readers() {} enum RunOutcome { Told }", &[]);
    }

    #[test]
    fn docs_begin_with_what_an_item_is() {
        let finding = "crates/a/src/a.rs:1: the first line of docs begins with `What`; say what the item is or does, in the field's terms";
        check_text("/// What is told.\nstruct A;", &[finding]);
        check_text("/// A notice.\n/// What follows is a second line.\nstruct A;", &[]);
        check_text("// What a plain comment asks.\nstruct A;", &[]);
    }

    #[test]
    fn two_types_may_share_a_name_and_a_third_may_not() {
        let parse = |path: &str| SourceFile::parse(path, "struct Page;\nenum Error {}").unwrap();
        let two = [parse("a.rs"), parse("b.rs")];
        assert!(check_shared_names(&two).is_empty());
        let three = [parse("a.rs"), parse("b.rs"), parse("c.rs")];
        assert_eq!(check_shared_names(&three).len(), 3);
    }
}
