//! The rule for matches on the project's own enums: a match names every variant, so that the compiler reports every
//! match when a variant is added.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Finding;
use super::source::SourceFile;

/// Enums for which a match may have a wildcard. A journal may contain event types that this version does not know, so
/// every reader of events ignores most types.
const OPEN_ENUMS: &[&str] = &["EventType"];
/// The suffix of error enums. A match on an error handles some variants and returns the others.
const ERROR_SUFFIX: &str = "Error";
/// Tuple patterns in which the rule looks for an enum of the project.
const WRAPPER_PATTERNS: &[&str] = &["Some", "Ok", "Err"];
/// First segments of paths inside a crate. All other paths of the project begin with the name of a crate.
const LOCAL_PATH_STARTS: &[&str] = &["crate", "self", "super"];

/// The enums and crates of the project.
pub struct ProjectNames {
    enums: BTreeSet<String>,
    crates: BTreeSet<String>,
}

impl ProjectNames {
    /// Collects the names of all crates and of the enums that production code declares, in macros too.
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

/// Checks the matches in the production code of one file.
pub fn check(source: &SourceFile, project: &ProjectNames) -> Vec<Finding> {
    if source.is_tests_only {
        return Vec::new();
    }
    let mut foreign = ForeignImports { project, names: BTreeSet::new() };
    foreign.visit_file(&source.tree);
    let mut finder = MatchFinder { source, project, foreign: foreign.names, findings: Vec::new() };
    finder.visit_file(&source.tree);
    finder.findings
}

/// A visitor that collects the names that a file imports from crates outside the project.
struct ForeignImports<'a> {
    project: &'a ProjectNames,
    names: BTreeSet<String>,
}

impl ForeignImports<'_> {
    /// Adds the names that an import declares.
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

/// A visitor that finds matches with a wildcard on an enum of the project.
struct MatchFinder<'a> {
    source: &'a SourceFile,
    project: &'a ProjectNames,
    /// Names that the file imports from other projects.
    foreign: BTreeSet<String>,
    findings: Vec<Finding>,
}

impl MatchFinder<'_> {
    /// Returns the project's enum of which the pattern names a variant, unless the enum is open. The check is by name,
    /// because the syntax tree has no types.
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
        let is_of_project = name == "Self" || (self.project.enums.contains(&name) && !is_foreign);
        let is_open = OPEN_ENUMS.contains(&name.as_str()) || name.ends_with(ERROR_SUFFIX);
        (is_of_project && !is_open).then_some(name)
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
                self.findings.push(self.source.finding(line, what, "name the remaining variants"));
            }
        }
        visit::visit_expr_match(self, item);
    }
}

/// Returns whether a name is one of [`WRAPPER_PATTERNS`].
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
        let project = ProjectNames::collect(&sources);
        let actual: Vec<String> =
            check(&sources[0], &project).iter().map(|finding| finding.what.clone()).collect();
        assert_eq!(actual, expected, "{body}");
    }

    #[test]
    fn a_match_on_an_enum_of_the_project_names_every_variant() {
        check_match("match k { Kind::A => 1, _ => 2 };", &["`_` in a match on `Kind`"]);
        check_match("match k { Some(Named::A | Named::B) => 1, _ => 2 };", &["`_` in a match on `Named`"]);
        check_match("match k { kind @ &Kind::A => 1, _ if b => 2, _ => 3 };", &["`_` in a match on `Kind`"]);
        check_match("match (k, n) { (Kind::A, 1) => 1, _ => 2 };", &["`_` in a match on `Kind`"]);
        check_match("match (k, n) { (Kind::A, 1) => 1, (Kind::A | Kind::B, _) => 2 };", &[]);
        check_match("match k { Kind::A => 1, Kind::B => match n { 1 => 1, _ => 2 } };", &[]);
    }

    #[test]
    fn foreign_and_open_enums_may_have_a_wildcard() {
        check_match("match k { EventType::A => 1, _ => 2 };", &[]);
        check_match("match k { toml::Kind::A => 1, _ => 2 };", &[]);
        check_match("use toml::Kind; match k { Kind::A => 1, _ => 2 };", &[]);
        check_match("use crate::Kind; match k { Kind::A => 1, _ => 2 };", &["`_` in a match on `Kind`"]);
        check_match("match k { io::Error::A => 1, _ => 2 };", &[]);
    }

    #[test]
    fn tests_may_have_a_wildcard() {
        let text =
            format!("{ENUMS}\n#[cfg(test)]\nmod tests {{ fn f() {{ match k {{ Kind::A => 1, _ => 2 }} }} }}");
        let sources = [SourceFile::parse("crates/a/src/a.rs", &text).unwrap()];
        assert_eq!(check(&sources[0], &ProjectNames::collect(&sources)).len(), 0);
    }
}
