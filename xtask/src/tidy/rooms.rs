//! The direction of dependencies between the rooms, and the crates that only some rooms may use. ARCHITECTURE.md
//! draws the same table; a change of one changes the other.

use anyhow::Context;
use toml_edit::{Document, Item, TableLike};

use super::{Finding, TextFile};

/// Each room and the rooms it may use. What is for tests is a room that nobody uses outside them.
const ROOMS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("pg", &[]),
    ("journal", &["protocol", "pg"]),
    ("model", &["protocol"]),
    ("transcripts", &["protocol"]),
    ("runtime", &["protocol", "journal", "model"]),
    ("ledger", &["protocol", "model"]),
    ("compaction", &["protocol", "journal", "model", "runtime", "ledger"]),
    ("tools", &["protocol", "journal", "model", "runtime"]),
    ("mcp", &["protocol", "journal", "model", "runtime"]),
    ("memory", &["protocol", "journal", "model", "runtime", "ledger"]),
    ("telemetry", &["protocol", "journal", "model", "ledger"]),
    ("hooks", &["protocol", "journal", "ledger"]),
    ("handoff", &["protocol", "pg", "journal", "model", "runtime", "ledger", "memory"]),
    (
        "agent",
        &[
            "protocol",
            "journal",
            "model",
            "transcripts",
            "runtime",
            "ledger",
            "compaction",
            "tools",
            "mcp",
            "memory",
            "handoff",
            "telemetry",
            "hooks",
        ],
    ),
    ("dispatch", &["protocol", "agent"]),
    ("gateway", &["protocol", "agent", "dispatch"]),
    ("segue", &["protocol", "agent", "gateway"]),
    ("scripted", &[]),
    ("cluster", &[]),
    ("xtask", &[]),
];

/// Foreign crates that only these rooms may use outside tests.
const RESERVED: &[(&str, &[&str])] = &[
    ("anyhow", &["segue", "xtask"]),
    ("axum", &["gateway", "scripted"]),
    ("bb8", &["pg"]),
    ("clap", &["segue"]),
    ("hyper", &["gateway"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry-otlp", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("reqwest", &["dispatch", "hooks", "model"]),
    ("rusqlite", &["journal", "transcripts"]),
    ("tokio-postgres", &["cluster", "pg"]),
    ("tokio-postgres-rustls", &["pg"]),
    ("tower-http", &["gateway"]),
    ("utoipa", &["gateway"]),
];

/// Checks the manifests of the workspace.
///
/// # Errors
/// When a manifest is not TOML.
pub fn check(files: &[TextFile]) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in files {
        if let Some(room) = room_of(&file.path) {
            findings.extend(check_manifest(file, room).with_context(|| format!("read {}", file.path))?);
        }
    }
    Ok(findings)
}

fn room_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    let room = folder.strip_prefix("crates/").unwrap_or(folder);
    (!room.contains('/')).then_some(room)
}

fn check_manifest(file: &TextFile, room: &str) -> anyhow::Result<Vec<Finding>> {
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        let remedy = "draw it in ARCHITECTURE.md and add it to the table in xtask/src/tidy/rooms.rs";
        let what = format!("`{room}` is a room without a place");
        return Ok(vec![Finding { path: file.path.clone(), line: 1, what, remedy }]);
    };
    let manifest: Document<&str> = Document::parse(file.text.as_str())?;
    let mut findings = Vec::new();
    for (name, line) in dependencies(&manifest, &file.text) {
        let mut report =
            |what: String, remedy| findings.push(Finding { path: file.path.clone(), line, what, remedy });
        if ROOMS.iter().any(|(other, _)| *other == name) && !allowed.contains(&name.as_str()) {
            report(
                format!("`{room}` depends on `{name}`"),
                "turn the arrow around: ARCHITECTURE.md says which room may use which",
            );
        }
        if RESERVED.iter().any(|(other, rooms)| *other == name && !rooms.contains(&room)) {
            report(
                format!("`{room}` uses `{name}`"),
                "leave it to the rooms that RESERVED in xtask/src/tidy/rooms.rs names",
            );
        }
    }
    Ok(findings)
}

/// Returns the names and lines of normal and build dependencies, those of single platforms included.
fn dependencies(manifest: &Document<&str>, text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    collect(manifest.as_table(), text, &mut found);
    if let Some(platforms) = manifest.get("target").and_then(Item::as_table_like) {
        for table in platforms.iter().filter_map(|(_, item)| item.as_table_like()) {
            collect(table, text, &mut found);
        }
    }
    found
}

fn collect(table: &dyn TableLike, text: &str, found: &mut Vec<(String, usize)>) {
    for section in ["dependencies", "build-dependencies"] {
        let Some(entries) = table.get(section).and_then(Item::as_table_like) else { continue };
        for (name, item) in entries.iter() {
            let place = entries.key(name).and_then(toml_edit::Key::span).map_or(0, |span| span.start);
            let line = text[..place].matches('\n').count() + 1;
            // A dependency may have another name here than its package has.
            let package = item.get("package").and_then(Item::as_str).unwrap_or(name);
            found.push((package.to_owned(), line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_room(room: &str, manifest: &str, expected: &[&str]) {
        let file = TextFile { path: format!("crates/{room}/Cargo.toml"), text: manifest.to_owned() };
        let found: Vec<String> = check(&[file])
            .unwrap()
            .iter()
            .map(|finding| format!("{}: {}", finding.line, finding.what))
            .collect();
        assert_eq!(found, expected, "{manifest}");
    }

    #[test]
    fn arrows_between_rooms_point_one_way() {
        check_room("handoff", "[dependencies]\nprotocol.workspace = true\nmemory.workspace = true\n", &[]);
        check_room(
            "handoff",
            "[dependencies]\ntools.workspace = true\n",
            &["2: `handoff` depends on `tools`"],
        );
        check_room(
            "runtime",
            "[package]\n[dependencies]\nprotocol.workspace = true\nhandoff = { path = \"../handoff\" }\n",
            &["4: `runtime` depends on `handoff`"],
        );
        check_room(
            "journal",
            "[target.'cfg(unix)'.dependencies]\nother = { package = \"agent\", version = \"1\" }\n",
            &["2: `journal` depends on `agent`"],
        );
    }

    #[test]
    fn what_is_for_tests_is_used_by_tests_only() {
        check_room("agent", "[dev-dependencies]\nscripted.workspace = true\n", &[]);
        check_room("journal", "[dev-dependencies]\ncluster.workspace = true\n", &[]);
        for room in ["scripted", "cluster"] {
            let manifest = format!("[dependencies]\n{room}.workspace = true\n");
            check_room("agent", &manifest, &[&format!("2: `agent` depends on `{room}`")]);
        }
    }

    #[test]
    fn some_crates_stay_in_their_rooms() {
        check_room("journal", "[dependencies]\nrusqlite.workspace = true\n", &[]);
        check_room("agent", "[dependencies]\nrusqlite.workspace = true\n", &["2: `agent` uses `rusqlite`"]);
        check_room("agent", "[dev-dependencies]\nrusqlite.workspace = true\n", &[]);
    }

    #[test]
    fn a_room_has_a_place_on_the_map() {
        check_room("sidecar", "", &["1: `sidecar` is a room without a place"]);
    }

    #[test]
    fn the_table_is_a_line_without_cycles() {
        for (index, (room, allowed)) in ROOMS.iter().enumerate() {
            for other in *allowed {
                assert!(ROOMS[..index].iter().any(|(name, _)| name == other), "{room} -> {other}");
            }
        }
    }
}
