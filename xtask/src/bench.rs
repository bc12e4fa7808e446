//! `cargo xtask bench`: runs the benches of every room that has some, then measures the built program. Figures are
//! printed, not judged.

mod program_bench;
mod session_generator;

use std::path::Path;

use anyhow::bail;
use toml_edit::{Document, Item};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// Runs every bench; an argument names a room, or `program` or `page`, to run alone.
///
/// # Errors
/// When the argument names nothing that has benches, or a bench fails.
pub fn run_benches(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let rooms = crates_with_benches(root)?;
    match args {
        [] => {
            run_crates(root, &rooms)?;
            run_program(root)?;
            run_page(root)
        }
        [name] if name == "program" => run_program(root),
        [name] if name == "page" => run_page(root),
        [name] if rooms.contains(name) => run_crates(root, std::slice::from_ref(name)),
        _ => bail!("run benches: name one of {}, program, page", rooms.join(", ")),
    }
}

/// Puts load on the built program as a server of many clients.
///
/// # Errors
/// When a program cannot be built or does not serve, or a stream is not whole.
pub fn run_gateway(root: &Path) -> anyhow::Result<()> {
    CommandSpec::from_line("cargo build --locked --release -p segue -p segue-test-model").run(root)?;
    let target = CargoMetadata::load(root)?.target_folder;
    let release = target.join("release");
    let places = [release.join("segue"), release.join("segue-test-model"), target.join("bench-gateway")];
    let places = places.map(|place| place.to_string_lossy().into_owned());
    CommandSpec::from_line("cargo bench --locked -p segue-http --bench load --").args(&places).run(root)
}

fn run_crates(root: &Path, rooms: &[String]) -> anyhow::Result<()> {
    for room in rooms {
        // `--bench *` leaves the unit tests out, which `cargo bench` would run as benches of zero length.
        CommandSpec::from_line("cargo bench --locked --bench * -p").arg(package_name(room)).run(root)?;
    }
    Ok(())
}

/// Returns the name of the package in a folder of `crates/`.
fn package_name(folder: &str) -> String {
    match folder {
        "segue" => folder.to_owned(),
        folder => format!("segue-{}", folder.replace('_', "-")),
    }
}

fn run_program(root: &Path) -> anyhow::Result<()> {
    CommandSpec::from_line("cargo build --locked --release -p segue -p segue-test-model").run(root)?;
    let target = CargoMetadata::load(root)?.target_folder;
    program_bench::measure_program(&target.join("release").join("segue"), &target.join("bench"))
}

/// Measures the page in a browser, served by the built program.
fn run_page(root: &Path) -> anyhow::Result<()> {
    CommandSpec::from_line("cargo build --locked --release -p segue").run(root)?;
    let program = CargoMetadata::load(root)?.target_folder.join("release").join("segue");
    CommandSpec::from_line("node web/bench/page.mjs").arg(program.to_string_lossy()).run(root)
}

/// Returns the rooms whose manifest declares a bench.
fn crates_with_benches(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut rooms = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|_| has_bench(&manifest)) {
            rooms.push(name);
        }
    }
    rooms.sort();
    Ok(rooms)
}

fn has_bench(manifest: &str) -> bool {
    let Ok(manifest) = Document::parse(manifest) else { return false };
    manifest.get("bench").is_some_and(Item::is_array_of_tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_package() {
        assert_eq!(package_name("segue"), "segue");
        assert_eq!(package_name("user_hooks"), "segue-user-hooks");
    }

    #[test]
    fn a_room_with_a_declared_bench_is_found() {
        assert!(has_bench("[[bench]]\nname = \"append\"\nharness = false\n"));
        assert!(!has_bench("[package]\nname = \"bench\"\n"));
        assert!(!has_bench(""));
    }
}
