//! Rules for names: no catch-all names, no synonyms of terms in the glossary, and no ids as text.
//!
//! The crate `transcripts` reads files of other programs and may use their terms. The modules of database tables store
//! ids as text.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// Names of modules, files, folders and crates that do not describe their content.
pub const VAGUE_NAMES: [&str; 8] =
    ["utils", "util", "common", "core", "helpers", "helper", "manager", "misc"];
/// Suffixes of type names that do not describe the type.
const VAGUE_SUFFIXES: [&str; 5] = ["Manager", "Helper", "Helpers", "Util", "Utils"];
/// Type names that are synonyms of a term in the glossary, each with the term.
const SYNONYM_TYPES: [(&str, &str); 5] = [
    ("SessionId", "a conversation is a thread: `ThreadId`"),
    ("ChatId", "a conversation is a thread: `ThreadId`"),
    ("ConversationId", "a conversation is a thread: `ThreadId`"),
    ("JobId", "an execution is a run: `RunId`"),
    ("TaskId", "an execution is a run: `RunId`"),
];
/// Names of fields and parameters that must have an id type.
const TYPED_IDS: [&str; 5] = ["thread_id", "run_id", "handoff_id", "event_id", "checkpoint_id"];
/// The folder of the crate that reads files of other programs.
const FOREIGN_WORDS_FOLDER: &str = "crates/transcripts/";

/// The folder of modules for database tables, in which ids are columns of type text.
const COLUMN_FOLDER: &str = "/tables/";

/// Checks the names in one file.
pub fn check(source: &SourceFile) -> Vec<Finding> {
    let mut finder = NameFinder { source, findings: Vec::new() };
    finder.visit_file(&source.tree);
    finder.findings
}

/// A visitor that checks names of modules, types, functions, fields and parameters.
struct NameFinder<'a> {
    source: &'a SourceFile,
    findings: Vec<Finding>,
}

impl NameFinder<'_> {
    fn record(&mut self, span: Span, what: String, remedy: &'static str) {
        self.findings.push(self.source.finding(span.start().line, what, remedy));
    }

    /// Checks the name of a type for vague suffixes and synonyms.
    fn check_type(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        if VAGUE_SUFFIXES.iter().any(|end| name.ends_with(end)) {
            self.record(ident.span(), format!("a type named `{name}`"), "name it after its content");
        }
        let synonym = SYNONYM_TYPES.iter().find(|(word, _)| name == *word);
        if let Some((_, remedy)) = synonym.filter(|_| !self.source.path.starts_with(FOREIGN_WORDS_FOLDER)) {
            self.record(ident.span(), format!("a type named `{name}`"), remedy);
        }
    }

    /// Checks the name of a function for vague suffixes.
    fn check_function(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        if VAGUE_NAMES.iter().any(|word| name.ends_with(&format!("_{word}"))) {
            self.record(ident.span(), format!("a function named `{name}`"), "use a verb and its object");
        }
    }

    /// Checks that a field or parameter with the name of an id has an id type.
    fn check_id(&mut self, ident: &syn::Ident, kind: &syn::Type) {
        let path = &self.source.path;
        let may_be_text = path.starts_with(FOREIGN_WORDS_FOLDER) || path.contains(COLUMN_FOLDER);
        if !may_be_text && TYPED_IDS.iter().any(|id| ident == id) && is_text(kind) {
            self.record(ident.span(), format!("`{ident}` as text"), "use its type from `protocol::ids`");
        }
    }
}

impl<'ast> Visit<'ast> for NameFinder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if VAGUE_NAMES.iter().any(|name| item.ident == name) {
            let what = format!("a module named `{}`", item.ident);
            self.record(item.ident.span(), what, "name it after its content");
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.check_type(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check_type(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.check_type(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(ident) = &field.ident {
            self.check_id(ident, &field.ty);
        }
        visit::visit_field(self, field);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.check_function(&signature.ident);
        visit::visit_signature(self, signature);
    }

    fn visit_pat_type(&mut self, typed: &'ast syn::PatType) {
        if let syn::Pat::Ident(pattern) = &*typed.pat {
            self.check_id(&pattern.ident, &typed.ty);
        }
        visit::visit_pat_type(self, typed);
    }
}

/// Returns whether the type is `String`, `&str` or an `Option` of one.
fn is_text(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Reference(reference) => is_text(&reference.elem),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|segment| match &segment.arguments {
            syn::PathArguments::None => segment.ident == "String" || segment.ident == "str",
            syn::PathArguments::AngleBracketed(generic) if segment.ident == "Option" => generic
                .args
                .iter()
                .any(|arg| matches!(arg, syn::GenericArgument::Type(inner) if is_text(inner))),
            syn::PathArguments::AngleBracketed(_) | syn::PathArguments::Parenthesized(_) => false,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    fn check_text(text: &str, expected: &[&str]) {
        assert_eq!(findings(check, "crates/a/src/a.rs", text), expected, "{text}");
    }

    #[test]
    fn vague_names_are_found() {
        check_text(
            "mod utils {}",
            &["crates/a/src/a.rs:1: a module named `utils`; name it after its content"],
        );
        check_text(
            "\nstruct ThreadManager;",
            &["crates/a/src/a.rs:2: a type named `ThreadManager`; name it after its content"],
        );
        check_text(
            "fn ctx_util() {}",
            &["crates/a/src/a.rs:1: a function named `ctx_util`; use a verb and its object"],
        );
        check_text("mod managers {} struct Utility; fn utilize() {}", &[]);
    }

    #[test]
    fn synonyms_of_glossary_terms_are_found() {
        let finding = "a type named `SessionId`; a conversation is a thread: `ThreadId`";
        check_text("struct SessionId(u8);", &[&format!("crates/a/src/a.rs:1: {finding}")]);
        assert!(findings(check, "crates/transcripts/src/a.rs", "struct SessionId(u8);").is_empty());
    }

    #[test]
    fn ids_are_never_text() {
        let finding = "crates/a/src/a.rs:1: `run_id` as text; use its type from `protocol::ids`";
        check_text("struct A { run_id: String }", &[finding]);
        check_text("fn a(run_id: &str) {}", &[finding]);
        check_text("fn a(run_id: Option<String>) {}", &[finding]);
        check_text("fn a(run_id: RunId, request_id: String) {}", &[]);
        assert!(findings(check, "crates/journal/src/tables/a.rs", "struct A { run_id: String }").is_empty());
    }
}
