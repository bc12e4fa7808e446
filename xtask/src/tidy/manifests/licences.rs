//! The rule for the licences of dependencies: only permissive licences. It checks the licence that a package declares,
//! not its licence text.

use crate::cargo_metadata::CargoPackage;

use crate::tidy::Finding;

/// SPDX names of licences that are compatible with Segue's own licence (MIT or Apache-2.0).
const PERMISSIVE_LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks every package from outside the workspace.
pub fn check(packages: &[CargoPackage]) -> Vec<Finding> {
    let foreign = packages.iter().filter(|package| package.is_foreign);
    let refused = foreign.filter(|package| !package.license.as_deref().is_some_and(is_permissive));
    refused
        .map(|package| Finding {
            path: "Cargo.lock".to_owned(),
            line: 1,
            what: format!(
                "{} {} is under {}",
                package.name,
                package.version,
                package.license.as_deref().unwrap_or("no declared licence")
            ),
            remedy: "use a crate under a permissive licence",
        })
        .collect()
}

/// Returns whether an SPDX expression can be satisfied with permissive licences only. An expression with a syntax error
/// is not permissive.
fn is_permissive(expression: &str) -> bool {
    // Older manifests use `/` for `OR`, as in `MIT/Apache-2.0`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let permissive = parse_or(&mut words);
    permissive == Some(true) && words.next().is_none()
}

/// The tokens of an SPDX expression.
type LicenceTokens<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// Parses alternatives, of which one must be permissive. Returns `None` for a syntax error.
fn parse_or(words: &mut LicenceTokens<'_>) -> Option<bool> {
    let mut permissive = parse_and(words)?;
    while words.next_if_eq(&"OR").is_some() {
        permissive |= parse_and(words)?;
    }
    Some(permissive)
}

/// Parses a conjunction, of which all terms must be permissive.
fn parse_and(words: &mut LicenceTokens<'_>) -> Option<bool> {
    let mut permissive = parse_term(words)?;
    while words.next_if_eq(&"AND").is_some() {
        permissive &= parse_term(words)?;
    }
    Some(permissive)
}

/// Parses an expression in parentheses, or a licence with an optional exception.
fn parse_term(words: &mut LicenceTokens<'_>) -> Option<bool> {
    if words.next_if_eq(&"(").is_some() {
        let permissive = parse_or(words)?;
        words.next_if_eq(&")")?;
        return Some(permissive);
    }
    let mut license = words.next()?.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        license = format!("{license} WITH {}", words.next()?);
    }
    Some(PERMISSIVE_LICENCES.contains(&license.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_permissive_if_one_alternative_is() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR LGPL-3.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "ISC AND (Apache-2.0 OR ISC)",
        ] {
            assert!(is_permissive(good), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND LGPL-3.0", "MPL-2.0", "", "MIT OR", "(MIT", "MIT)", "MIT GPL-3.0", "Own"]
        {
            assert!(!is_permissive(bad), "{bad}");
        }
    }

    #[test]
    fn packages_with_unknown_and_copyleft_licences_are_found() {
        let package = |name: &str, license: Option<&str>, foreign| CargoPackage {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            is_foreign: foreign,
            folder: std::path::PathBuf::new(),
            uses: Vec::new(),
        };
        let actual: Vec<String> = check(&[
            package("a", Some("MIT"), true),
            package("b", Some("LGPL-3.0"), true),
            package("c", None, true),
            package("segue", None, false),
        ])
        .iter()
        .map(|finding| finding.what.clone())
        .collect();
        assert_eq!(actual, ["b 1.0.0 is under LGPL-3.0", "c 1.0.0 is under no declared licence"]);
    }
}
