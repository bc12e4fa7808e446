//! `cargo xtask bench` and `bench-gateway`: run the benchmarks of the crates and measure the built program, the page
//! and the server. Results are printed and, except for sizes, not compared with a limit.

mod program_bench;
mod session_generator;
mod size;

use std::path::Path;

use anyhow::bail;
use toml_edit::{Document, Item};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// Runs all benchmarks, or those of one crate, of `program` or of `page`; or measures the `size` of the program.
///
/// # Errors
/// If the argument names none of these, or a benchmark fails.
pub fn run_benches(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let crates = crates_with_benches(root)?;
    match args {
        [] => {
            run_crates(root, &crates)?;
            run_program(root)?;
            run_page(root)
        }
        [name] if name == "program" => run_program(root),
        [name] if name == "page" => run_page(root),
        [name] if name == "size" => size::measure_size(root),
        [name] if crates.contains(name) => run_crates(root, std::slice::from_ref(name)),
        _ => bail!("run benchmarks: name one of {}, program, page, size", crates.join(", ")),
    }
}

/// Measures the built program as a server under the load of many clients, with a scripted model.
///
/// # Errors
/// If a program cannot be built, the server does not start, or a client receives an incomplete stream.
pub fn run_gateway(root: &Path) -> anyhow::Result<()> {
    CommandSpec::from_line("cargo build --locked --release -p segue -p segue-test-model").run(root)?;
    let target = CargoMetadata::load(root)?.target_folder;
    let release = target.join("release");
    let paths = [release.join("segue"), release.join("segue-test-model"), target.join("bench-gateway")];
    let paths = paths.map(|path| path.to_string_lossy().into_owned());
    CommandSpec::from_line("cargo bench --locked -p segue-http --bench load --").args(&paths).run(root)
}

/// Runs the benchmarks of the crates in these folders of `crates/`.
fn run_crates(root: &Path, folders: &[String]) -> anyhow::Result<()> {
    for folder in folders {
        // `--bench *` excludes the unit tests, which `cargo bench` would run as benchmarks of zero length.
        CommandSpec::from_line("cargo bench --locked --bench * -p").arg(package_name(folder)).run(root)?;
    }
    Ok(())
}

/// Returns the package name of the crate in a folder of `crates/`.
fn package_name(folder: &str) -> String {
    match folder {
        "segue" => folder.to_owned(),
        folder => format!("segue-{}", folder.replace('_', "-")),
    }
}

/// Measures processes of the built program, with a scripted model.
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

/// Returns the folders of `crates/` with a manifest that declares a benchmark, sorted.
fn crates_with_benches(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut crates = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|_| has_bench(&manifest)) {
            crates.push(name);
        }
    }
    crates.sort();
    Ok(crates)
}

/// Returns whether a manifest has a `[[bench]]` section. A manifest that is not TOML has none.
fn has_bench(manifest: &str) -> bool {
    let Ok(manifest) = Document::parse(manifest) else { return false };
    manifest.get("bench").is_some_and(Item::is_array_of_tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_name_follows_from_the_folder() {
        assert_eq!(package_name("segue"), "segue");
        assert_eq!(package_name("user_hooks"), "segue-user-hooks");
    }

    #[test]
    fn a_declared_benchmark_is_detected() {
        assert!(has_bench("[[bench]]\nname = \"append\"\nharness = false\n"));
        assert!(!has_bench("[package]\nname = \"bench\"\n"));
        assert!(!has_bench(""));
    }
}
