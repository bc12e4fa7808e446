//! Matches on the project's own enums: each names every variant, so that the compiler finds them all when one is added.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;

/// Enums of which a match may leave variants unnamed. A journal holds event types that this program does not know, so every
/// reader of events passes over most of them.
const OPEN: &[&str] = &["EventType"];
/// How the names of errors end. A match picks those that somebody acts on, and passes the others on.
const ERROR: &str = "Error";
/// Patterns that hold the one that is looked at.
const WRAPPERS: &[&str] = &["Some", "Ok", "Err"];
/// The beginnings of paths that stay in the project; its crates are the others.
const INSIDE: &[&str] = &["crate", "self", "super"];

/// The names that the project knows.
pub struct OwnNames {
    enums: BTreeSet<String>,
    crates: BTreeSet<String>,
}

impl OwnNames {
    /// Collects the enums that production code declares, inside macros too, and the crates.
    pub fn collect(sources: &[Source]) -> Self {
        let mut names = Self { enums: BTreeSet::new(), crates: BTreeSet::new() };
        for source in sources.iter().filter(|source| !source.tests_only) {
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
pub fn check(source: &Source, own: &OwnNames) -> Vec<Finding> {
    if source.tests_only {
        return Vec::new();
    }
    let mut foreign = ForeignImports { own, names: BTreeSet::new() };
    foreign.visit_file(&source.tree);
    let mut finder = Finder { source, own, foreign: foreign.names, findings: Vec::new() };
    finder.visit_file(&source.tree);
    finder.findings
}

/// Collects the names that a file imports from crates of others.
struct ForeignImports<'a> {
    own: &'a OwnNames,
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
        if !INSIDE.contains(&root.as_str()) && !self.own.crates.contains(&root) {
            self.add(&path.tree);
        }
    }
}

struct Finder<'a> {
    source: &'a Source,
    own: &'a OwnNames,
    foreign: BTreeSet<String>,
    findings: Vec<Finding>,
}

impl Finder<'_> {
    /// Returns the own enum whose variant the pattern names.
    fn own_enum(&self, pattern: &syn::Pat) -> Option<String> {
        let path = match pattern {
            syn::Pat::Or(or) => return or.cases.iter().find_map(|case| self.own_enum(case)),
            syn::Pat::Reference(reference) => return self.own_enum(&reference.pat),
            syn::Pat::Paren(inner) => return self.own_enum(&inner.pat),
            syn::Pat::Ident(bound) => return self.own_enum(&bound.subpat.as_ref()?.1),
            syn::Pat::Tuple(tuple) => return tuple.elems.iter().find_map(|part| self.own_enum(part)),
            syn::Pat::TupleStruct(tuple) if tuple.path.get_ident().is_some_and(is_wrapper) => {
                return tuple.elems.first().and_then(|inner| self.own_enum(inner));
            }
            syn::Pat::TupleStruct(tuple) => &tuple.path,
            syn::Pat::Struct(fields) => &fields.path,
            syn::Pat::Path(unit) => &unit.path,
            _ => return None,
        };
        let mut names = path.segments.iter().rev().skip(1).map(|segment| segment.ident.to_string());
        let name = names.next()?;
        let is_foreign = match names.last() {
            Some(root) => !INSIDE.contains(&root.as_str()) && !self.own.crates.contains(&root),
            None => self.foreign.contains(&name),
        };
        let is_own = name == "Self" || (self.own.enums.contains(&name) && !is_foreign);
        let is_open = OPEN.contains(&name.as_str()) || name.ends_with(ERROR);
        (is_own && !is_open).then_some(name)
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        let wildcard = item.arms.iter().find(|arm| matches!(arm.pat, syn::Pat::Wild(_)));
        let named = item.arms.iter().find_map(|arm| self.own_enum(&arm.pat));
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
    WRAPPERS.iter().any(|wrapper| name == wrapper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENUMS: &str = "pub enum Kind { A, B }\nnamed_enum! { pub enum Named { A = \"a\", B = \"b\" } }\nenum EventType { A, B }";

    #[track_caller]
    fn check_match(body: &str, expected: &[&str]) {
        let text = format!("{ENUMS}\nfn f() {{\n{body}\n}}");
        let source = Source::parse("crates/a/src/a.rs", &text).unwrap();
        let sources = [source];
        let own = OwnNames::collect(&sources);
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
        let sources = [Source::parse("crates/a/src/a.rs", &text).unwrap()];
        assert_eq!(check(&sources[0], &OwnNames::collect(&sources)).len(), 0);
    }
}
