//! Rules for dependencies between the crates of the workspace, and for foreign crates that only some of them may use.
//! The permitted dependencies are a table in ARCHITECTURE.md, which this module parses.

use anyhow::Context;
use toml_edit::{Document, Item, TableLike};

use super::{Finding, TextFile};

/// The document with the table.
const TABLE_PAGE: &str = "ARCHITECTURE.md";
/// The header row of the table.
const TABLE_HEAD: &str = "| crate | uses |";

/// A row of the table.
#[derive(Debug)]
struct DependencyRow {
    /// The name of the crate.
    name: String,
    /// The crates that it uses.
    uses: Vec<String>,
    /// The line of the row, counted from 1.
    line: usize,
}

/// Foreign crates, each with the crates of the workspace that may use it outside tests.
const RESERVED_CRATES: &[(&str, &[&str])] = &[
    ("anyhow", &["segue", "xtask"]),
    ("axum", &["http", "langgraph", "test_model"]),
    ("bb8", &["postgres"]),
    ("clap", &["segue"]),
    ("hyper", &["http"]),
    ("imara-diff", &["text_diff"]),
    ("inquire", &["terminal"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry-otlp", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("pulldown-cmark", &["terminal"]),
    ("reqwest", &["http", "http_client", "scheduler", "user_hooks", "model"]),
    ("rusqlite", &["journal", "test_disk_faults", "transcripts"]),
    ("rustls", &["http_client", "postgres"]),
    ("syntect", &["terminal"]),
    ("tokio-postgres", &["test_postgres", "postgres"]),
    ("tokio-postgres-rustls", &["postgres"]),
    ("tower-http", &["http"]),
    ("two-face", &["terminal"]),
    ("utoipa", &["http", "langgraph"]),
];

/// Compares the manifests of the workspace with the table.
///
/// # Errors
/// If a manifest is not TOML, or ARCHITECTURE.md is missing.
pub fn check_crates(files: &[TextFile]) -> anyhow::Result<Vec<Finding>> {
    let page = files.iter().find(|file| file.path == TABLE_PAGE).context("find ARCHITECTURE.md")?;
    let rows = parse_rows(&page.text);
    let manifests: Vec<(&TextFile, &str)> =
        files.iter().filter_map(|file| Some((file, crate_name(&file.path)?))).collect();
    let mut findings = check_order(&rows);
    for row in rows.iter().filter(|row| !manifests.iter().any(|(_, name)| *name == row.name)) {
        findings.push(page_finding(row.line, format!("there is no crate `{}`", row.name), "remove its row"));
    }
    for (file, name) in manifests {
        findings.extend(check_manifest(file, name, &rows).with_context(|| format!("read {}", file.path))?);
    }
    Ok(findings)
}

/// Returns the rows of the table in the document.
fn parse_rows(page: &str) -> Vec<DependencyRow> {
    let mut rows = Vec::new();
    let lines = page.lines().zip(1..).skip_while(|(line, _)| *line != TABLE_HEAD).skip(2);
    for (text, line) in lines.take_while(|(text, _)| text.starts_with('|')) {
        // Names are in backticks. Other text in the row is ignored.
        let mut names = text.split('`').skip(1).step_by(2).map(str::to_owned);
        if let Some(name) = names.next() {
            rows.push(DependencyRow { name, uses: names.collect(), line });
        }
    }
    rows
}

/// Checks that each crate uses only crates above it in the table, which excludes cycles.
fn check_order(rows: &[DependencyRow]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for used in row.uses.iter().filter(|used| !rows[..index].iter().any(|above| above.name == **used)) {
            let what = format!("`{}` uses `{used}`, which is not above it", row.name);
            findings.push(page_finding(
                row.line,
                what,
                "order the table so that each crate uses those above it",
            ));
        }
    }
    findings
}

/// Returns a finding about a line of the table.
fn page_finding(line: usize, what: String, remedy: &'static str) -> Finding {
    Finding { path: TABLE_PAGE.to_owned(), line, what, remedy }
}

/// Returns the name of the crate with the manifest `path`: its folder in `crates/` or at the root. Returns `None` for
/// other files.
fn crate_name(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    let name = folder.strip_prefix("crates/").unwrap_or(folder);
    (!name.contains('/')).then_some(name)
}

/// Compares the dependencies of one manifest with the row of its crate.
fn check_manifest(file: &TextFile, name: &str, rows: &[DependencyRow]) -> anyhow::Result<Vec<Finding>> {
    let Some(row) = rows.iter().find(|row| row.name == name) else {
        let what = format!("`{name}` is not in the table of ARCHITECTURE.md");
        let remedy = "add a row with the crate and the crates that it uses";
        return Ok(vec![Finding { path: file.path.clone(), line: 1, what, remedy }]);
    };
    let manifest: Document<&str> = Document::parse(file.text.as_str())?;
    let used = find_dependencies(&manifest, &file.text);
    let mut findings = Vec::new();
    for (other, line) in &used {
        let mut report = |what: String, remedy| {
            findings.push(Finding { path: file.path.clone(), line: *line, what, remedy })
        };
        if rows.iter().any(|row| row.name == *other) && !row.uses.contains(other) {
            report(
                format!("`{name}` depends on `{other}`"),
                "remove the dependency, because the table in ARCHITECTURE.md does not permit it",
            );
        }
        if RESERVED_CRATES.iter().any(|(reserved, crates)| reserved == other && !crates.contains(&name)) {
            report(
                format!("`{name}` uses `{other}`"),
                "only the crates in RESERVED_CRATES in xtask/src/tidy/crate_dependencies.rs may use it",
            );
        }
    }
    for other in row.uses.iter().filter(|other| !used.iter().any(|(used, _)| used == *other)) {
        let what = format!("`{name}` does not use `{other}`");
        findings.push(page_finding(row.line, what, "remove it from the row"));
    }
    Ok(findings)
}

/// Returns the package names and lines of normal and build dependencies, including those of single platforms.
fn find_dependencies(manifest: &Document<&str>, text: &str) -> Vec<(String, usize)> {
    let mut dependencies = Vec::new();
    collect_dependencies(manifest.as_table(), text, &mut dependencies);
    if let Some(platforms) = manifest.get("target").and_then(Item::as_table_like) {
        for table in platforms.iter().filter_map(|(_, item)| item.as_table_like()) {
            collect_dependencies(table, text, &mut dependencies);
        }
    }
    dependencies
}

/// Adds the dependencies in the sections of one table.
fn collect_dependencies(table: &dyn TableLike, text: &str, dependencies: &mut Vec<(String, usize)>) {
    for section in ["dependencies", "build-dependencies"] {
        let Some(entries) = table.get(section).and_then(Item::as_table_like) else { continue };
        for (name, item) in entries.iter() {
            let offset = entries.key(name).and_then(toml_edit::Key::span).map_or(0, |span| span.start);
            let line = text[..offset].matches('\n').count() + 1;
            // A manifest may rename a dependency with `package`.
            let package = item.get("package").and_then(Item::as_str).unwrap_or(name);
            dependencies.push((package.to_owned(), line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
# Architecture

| crate | responsibility |
| --- | --- |
| `a` | first |

| crate | uses |
| --- | --- |
| `a` | no other |
| `b` | `a` |
| `c` | `a`, `b` |
| `for_tests` | no other |

`c` is no row.
";

    fn check_all(table: &str, manifests: &[(&str, &str)], expected: &[&str]) {
        let mut files = vec![TextFile { path: TABLE_PAGE.to_owned(), text: table.to_owned() }];
        files.extend(manifests.iter().map(|(name, dependencies)| TextFile {
            path: format!("crates/{name}/Cargo.toml"),
            text: format!("[package]\n{dependencies}"),
        }));
        let actual: Vec<String> = check_crates(&files)
            .unwrap()
            .iter()
            .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.what))
            .collect();
        assert_eq!(actual, expected, "{manifests:?}");
    }

    /// Checks crate `b` together with other crates that match the table.
    fn check_b(dependencies: &str, expected: &[&str]) {
        let c = "[dependencies]\na.workspace = true\nb.workspace = true\n";
        check_all(TABLE, &[("a", ""), ("b", dependencies), ("c", c), ("for_tests", "")], expected);
    }

    #[test]
    fn a_crate_has_exactly_the_dependencies_in_the_table() {
        check_b("[dependencies]\na.workspace = true\n", &[]);
        check_b(
            "[dependencies]\na.workspace = true\nc = { path = \"../c\" }\n",
            &["crates/b/Cargo.toml:4: `b` depends on `c`"],
        );
        check_b(
            "[dependencies]\na.workspace = true\n[target.'cfg(unix)'.dependencies]\nother = { package = \"c\", version = \"1\" }\n",
            &["crates/b/Cargo.toml:5: `b` depends on `c`"],
        );
        check_b("", &["ARCHITECTURE.md:10: `b` does not use `a`"]);
    }

    #[test]
    fn test_crates_are_only_dev_dependencies() {
        check_b("[dependencies]\na.workspace = true\n[dev-dependencies]\nfor_tests.workspace = true\n", &[]);
        check_b(
            "[dependencies]\na.workspace = true\nfor_tests.workspace = true\n",
            &["crates/b/Cargo.toml:4: `b` depends on `for_tests`"],
        );
    }

    #[test]
    fn reserved_crates_are_refused_elsewhere() {
        let a = "[dependencies]\na.workspace = true\n";
        check_b(&format!("{a}rusqlite.workspace = true\n"), &["crates/b/Cargo.toml:4: `b` uses `rusqlite`"]);
        check_b(&format!("{a}[dev-dependencies]\nrusqlite.workspace = true\n"), &[]);
    }

    #[test]
    fn the_table_names_every_crate_once_in_an_order_without_cycles() {
        let table =
            "| crate | uses |\n| --- | --- |\n| `a` | `b` |\n| `b` | no other |\n| `gone` | no other |\n";
        let a = "[dependencies]\nb.workspace = true\n";
        check_all(
            table,
            &[("a", a), ("b", ""), ("new", "")],
            &[
                "ARCHITECTURE.md:3: `a` uses `b`, which is not above it",
                "ARCHITECTURE.md:5: there is no crate `gone`",
                "crates/new/Cargo.toml:1: `new` is not in the table of ARCHITECTURE.md",
            ],
        );
    }
}
