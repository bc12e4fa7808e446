//! Matches on the project's own enums: each names every variant, so that the compiler finds them all when one is added.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// Enums of which a match may leave variants unnamed. A journal holds event types that this program does not know, so every
/// reader of events passes over most of them.
const OPEN_ENUMS: &[&str] = &["EventType"];
/// How the names of errors end. A match picks those that somebody acts on, and passes the others on.
const ERROR_SUFFIX: &str = "Error";
/// Patterns that hold the one that is looked at.
const WRAPPER_PATTERNS: &[&str] = &["Some", "Ok", "Err"];
/// The beginnings of paths that stay in the project; its crates are the others.
const LOCAL_PATH_STARTS: &[&str] = &["crate", "self", "super"];

/// The names that the project knows.
pub struct ProjectNames {
    enums: BTreeSet<String>,
    crates: BTreeSet<String>,
}

impl ProjectNames {
    /// Collects the enums that production code declares, inside macros too, and the crates.
    pub fn collect(sources: &[SourceFile]) -> Self {
        let mut names = Self { enums: BTreeSet::new(), crates: BTreeSet::new() };
        for source in sources.iter().filter(|source| !source.is_tests_only) {
            let declared = source.tokens.windows(2).filter(|pair| pair[0].text == "enum");
            names.enums.extend(declared.map(|pair| pair[1].text.clone()));
            names.crates.extend(
                source
                    .path
                    .strip_prefix("crates/")
                    .and_then(|path| path.split('/').next())
                    .map(str::to_owned),
            );
        }
        names
    }
}

/// Checks one file.
pub fn check(source: &SourceFile, own: &ProjectNames) -> Vec<Finding> {
    if source.is_tests_only {
        return Vec::new();
    }
    let mut foreign = ForeignImports { project: own, names: BTreeSet::new() };
    foreign.visit_file(&source.tree);
    let mut finder = MatchFinder { source, project: own, foreign: foreign.names, findings: Vec::new() };
    finder.visit_file(&source.tree);
    finder.findings
}

/// Collects the names that a file imports from crates of others.
struct ForeignImports<'a> {
    project: &'a ProjectNames,
    names: BTreeSet<String>,
}

impl ForeignImports<'_> {
    fn add(&mut self, tree: &syn::UseTree) {
        let name = match tree {
            syn::UseTree::Path(path) => return self.add(&path.tree),
            syn::UseTree::Group(group) => return group.items.iter().for_each(|tree| self.add(tree)),
            syn::UseTree::Name(name) => &name.ident,
            syn::UseTree::Rename(rename) => &rename.rename,
            syn::UseTree::Glob(_) => return,
        };
        self.names.insert(name.to_string());
    }
}

impl<'ast> Visit<'ast> for ForeignImports<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let syn::UseTree::Path(path) = &item.tree else { return };
        let root = path.ident.to_string();
        if !LOCAL_PATH_STARTS.contains(&root.as_str()) && !self.project.crates.contains(&root) {
            self.add(&path.tree);
        }
    }
}

struct MatchFinder<'a> {
    source: &'a SourceFile,
    project: &'a ProjectNames,
    foreign: BTreeSet<String>,
    findings: Vec<Finding>,
}

impl MatchFinder<'_> {
    /// Returns the own enum whose variant the pattern names.
    fn project_enum(&self, pattern: &syn::Pat) -> Option<String> {
        let path = match pattern {
            syn::Pat::Or(or) => return or.cases.iter().find_map(|case| self.project_enum(case)),
            syn::Pat::Reference(reference) => return self.project_enum(&reference.pat),
            syn::Pat::Paren(inner) => return self.project_enum(&inner.pat),
            syn::Pat::Ident(bound) => return self.project_enum(&bound.subpat.as_ref()?.1),
            syn::Pat::Tuple(tuple) => return tuple.elems.iter().find_map(|part| self.project_enum(part)),
            syn::Pat::TupleStruct(tuple) if tuple.path.get_ident().is_some_and(is_wrapper) => {
                return tuple.elems.first().and_then(|inner| self.project_enum(inner));
            }
            syn::Pat::TupleStruct(tuple) => &tuple.path,
            syn::Pat::Struct(fields) => &fields.path,
            syn::Pat::Path(unit) => &unit.path,
            _ => return None,
        };
        let mut names = path.segments.iter().rev().skip(1).map(|segment| segment.ident.to_string());
        let name = names.next()?;
        let is_foreign = match names.last() {
            Some(root) => !LOCAL_PATH_STARTS.contains(&root.as_str()) && !self.project.crates.contains(&root),
            None => self.foreign.contains(&name),
        };
        let is_own = name == "Self" || (self.project.enums.contains(&name) && !is_foreign);
        let is_open = OPEN_ENUMS.contains(&name.as_str()) || name.ends_with(ERROR_SUFFIX);
        (is_own && !is_open).then_some(name)
    }
}

impl<'ast> Visit<'ast> for MatchFinder<'_> {
    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        let wildcard = item.arms.iter().find(|arm| matches!(arm.pat, syn::Pat::Wild(_)));
        let named = item.arms.iter().find_map(|arm| self.project_enum(&arm.pat));
        if let (Some(arm), Some(name)) = (wildcard, named) {
            let line = arm.fat_arrow_token.spans[0].start().line;
            if !self.source.is_test(line) {
                let what = format!("`_` in a match on `{name}`");
                self.findings.push(self.source.finding(line, what, "name the variants that it stands for"));
            }
        }
        visit::visit_expr_match(self, item);
    }
}

fn is_wrapper(name: &syn::Ident) -> bool {
    WRAPPER_PATTERNS.iter().any(|wrapper| name == wrapper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENUMS: &str = "pub enum Kind { A, B }\nnamed_enum! { pub enum Named { A = \"a\", B = \"b\" } }\nenum EventType { A, B }";

    #[track_caller]
    fn check_match(body: &str, expected: &[&str]) {
        let text = format!("{ENUMS}\nfn f() {{\n{body}\n}}");
        let source = SourceFile::parse("crates/a/src/a.rs", &text).unwrap();
        let sources = [source];
        let own = ProjectNames::collect(&sources);
        let found: Vec<String> =
            check(&sources[0], &own).iter().map(|finding| finding.what.clone()).collect();
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn a_match_on_an_own_enum_names_every_variant() {
        check_match("match k { Kind::A => 1, _ => 2 };", &["`_` in a match on `Kind`"]);
        check_match("match k { Some(Named::A | Named::B) => 1, _ => 2 };", &["`_` in a match on `Named`"]);
        check_match("match k { kind @ &Kind::A => 1, _ if b => 2, _ => 3 };", &["`_` in a match on `Kind`"]);
        check_match("match (k, n) { (Kind::A, 1) => 1, _ => 2 };", &["`_` in a match on `Kind`"]);
        check_match("match (k, n) { (Kind::A, 1) => 1, (Kind::A | Kind::B, _) => 2 };", &[]);
        check_match("match k { Kind::A => 1, Kind::B => match n { 1 => 1, _ => 2 } };", &[]);
    }

    #[test]
    fn enums_of_others_and_open_ones_may_be_left_open() {
        check_match("match k { EventType::A => 1, _ => 2 };", &[]);
        check_match("match k { toml::Kind::A => 1, _ => 2 };", &[]);
        check_match("use toml::Kind; match k { Kind::A => 1, _ => 2 };", &[]);
        check_match("use crate::Kind; match k { Kind::A => 1, _ => 2 };", &["`_` in a match on `Kind`"]);
        check_match("match k { io::Error::A => 1, _ => 2 };", &[]);
    }

    #[test]
    fn tests_may_leave_variants_open() {
        let text =
            format!("{ENUMS}\n#[cfg(test)]\nmod tests {{ fn f() {{ match k {{ Kind::A => 1, _ => 2 }} }} }}");
        let sources = [SourceFile::parse("crates/a/src/a.rs", &text).unwrap()];
        assert_eq!(check(&sources[0], &ProjectNames::collect(&sources)).len(), 0);
    }
}
