//! `cargo xtask bench`: runs the benches of every room that has some, then measures the built program. Figures are
//! printed, not judged.

mod program;
mod session;

use std::path::Path;

use anyhow::bail;
use toml_edit::{Document, Item};

use crate::command::Command;
use crate::metadata::Metadata;

/// Runs every bench; an argument names a room, or `program` or `page`, to run alone.
///
/// # Errors
/// When the argument names nothing that has benches, or a bench fails.
pub fn run(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let rooms = rooms_with_benches(root)?;
    match args {
        [] => {
            run_rooms(root, &rooms)?;
            run_program(root)?;
            run_page(root)
        }
        [name] if name == "program" => run_program(root),
        [name] if name == "page" => run_page(root),
        [name] if rooms.contains(name) => run_rooms(root, std::slice::from_ref(name)),
        _ => bail!("run benches: name one of {}, program, page", rooms.join(", ")),
    }
}

/// Puts load on the built program as a server of many clients.
///
/// # Errors
/// When a program cannot be built or does not serve, or a stream is not whole.
pub fn run_gateway(root: &Path) -> anyhow::Result<()> {
    Command::line("cargo build --locked --release -p segue -p segue-test-model").run(root)?;
    let target = Metadata::read(root)?.target_folder;
    let release = target.join("release");
    let places = [release.join("segue"), release.join("segue-test-model"), target.join("bench-gateway")];
    let places = places.map(|place| place.to_string_lossy().into_owned());
    Command::line("cargo bench --locked -p segue-http --bench load --").args(&places).run(root)
}

fn run_rooms(root: &Path, rooms: &[String]) -> anyhow::Result<()> {
    for room in rooms {
        // `--bench *` leaves the unit tests out, which `cargo bench` would run as benches of zero length.
        Command::line("cargo bench --locked --bench * -p").arg(package_of(room)).run(root)?;
    }
    Ok(())
}

/// Returns the name of the package in a folder of `crates/`.
fn package_of(folder: &str) -> String {
    match folder {
        "segue" => folder.to_owned(),
        folder => format!("segue-{}", folder.replace('_', "-")),
    }
}

fn run_program(root: &Path) -> anyhow::Result<()> {
    Command::line("cargo build --locked --release -p segue -p segue-test-model").run(root)?;
    let target = Metadata::read(root)?.target_folder;
    program::measure(&target.join("release").join("segue"), &target.join("bench"))
}

/// Measures the page in a browser, served by the built program.
fn run_page(root: &Path) -> anyhow::Result<()> {
    Command::line("cargo build --locked --release -p segue").run(root)?;
    let program = Metadata::read(root)?.target_folder.join("release").join("segue");
    Command::line("node web/bench/page.mjs").arg(program.to_string_lossy()).run(root)
}

/// Returns the rooms whose manifest declares a bench.
fn rooms_with_benches(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut rooms = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|_| declares_bench(&manifest)) {
            rooms.push(name);
        }
    }
    rooms.sort();
    Ok(rooms)
}

fn declares_bench(manifest: &str) -> bool {
    let Ok(manifest) = Document::parse(manifest) else { return false };
    manifest.get("bench").is_some_and(Item::is_array_of_tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_package() {
        assert_eq!(package_of("segue"), "segue");
        assert_eq!(package_of("user_hooks"), "segue-user-hooks");
    }

    #[test]
    fn a_room_with_a_declared_bench_is_found() {
        assert!(declares_bench("[[bench]]\nname = \"append\"\nharness = false\n"));
        assert!(!declares_bench("[package]\nname = \"bench\"\n"));
        assert!(!declares_bench(""));
    }
}
