//! `cargo xtask bench` and `bench-gateway`: run the benchmarks of the crates and measure the built program, the page
//! and the server. Results are printed with the project's goals and, except for sizes, are no failure.

mod comparison;
mod harness;
mod machine;
mod options;
mod report;
mod rows;
mod scale;
mod session_generator;
mod size;

use std::path::Path;

use anyhow::bail;
use toml_edit::{Document, Item};

use self::harness::BenchPrograms;
use self::machine::MachineFigures;
use self::options::BenchOptions;
use self::rows::{BenchRow, ROWS, find_rows};
pub use self::scale::simulate_scale;
use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// The name for all benchmarks of the program.
const ALL_ROWS: &str = "program";

/// Runs all benchmarks, or those that the arguments name: crates, benchmarks of the program, the `program`, the `page` or
/// its `size`. `--json` writes the results of the program's benchmarks; `--against` compares them with a revision.
///
/// # Errors
/// If an argument names none of these, or a benchmark fails.
pub fn run_benches(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let options = BenchOptions::parse(args)?;
    if options.is_list {
        ROWS.iter().for_each(|row| println!("{:<18} {}", row.name, row.about));
        return Ok(());
    }
    if let Some(path) = &options.table {
        print!("{}", report::markdown_table(path)?);
        return Ok(());
    }
    let crates = crates_with_benches(root)?;
    let is_program_only = options.json.is_some() || options.against.is_some();
    match options.names.as_slice() {
        [] if !is_program_only => {
            run_crates(root, &crates)?;
            run_program(root, &options, &ROWS)?;
            run_page(root)
        }
        [] => run_program(root, &options, &ROWS),
        [name] if name == ALL_ROWS => run_program(root, &options, &ROWS),
        [name] if !is_program_only && name == "page" => run_page(root),
        [name] if !is_program_only && name == "size" => size::measure_size(root),
        [name] if !is_program_only && crates.contains(name) => run_crates(root, std::slice::from_ref(name)),
        names => match find_rows(names) {
            Ok(rows) => run_program(root, &options, &rows),
            Err(error) => bail!("{error}; other names are {}, program, page and size", crates.join(", ")),
        },
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

/// Runs benchmarks of the program: compares them with a revision, or prints and records their results.
fn run_program(root: &Path, options: &BenchOptions, rows: &[BenchRow]) -> anyhow::Result<()> {
    let programs = build_programs(root)?;
    let machine = MachineFigures::measure(&programs.target_folder.join("bench"))?;
    println!("{}", machine.text());
    if let Some(revision) = &options.against {
        return comparison::compare_revisions(&programs, revision, rows, options.pairs);
    }
    let mut measurements = Vec::new();
    for row in rows {
        println!("{}", row.name);
        for measurement in row.run(&programs)? {
            println!("{}", measurement.text());
            measurements.push(measurement);
        }
    }
    match &options.json {
        Some(path) => report::write_report(path, &machine, &machine::revision(root)?, &measurements),
        None => Ok(()),
    }
}

/// Builds the measured program and those that the benchmarks use.
fn build_programs(root: &Path) -> anyhow::Result<BenchPrograms> {
    CommandSpec::from_line("cargo build --locked --release -p segue -p segue-test-model").run(root)?;
    CommandSpec::from_line("cargo build --locked -p segue-test-postgres").run(root)?;
    let target_folder = CargoMetadata::load(root)?.target_folder;
    let release = target_folder.join("release");
    Ok(BenchPrograms {
        segue: release.join("segue"),
        test_model: release.join("segue-test-model"),
        test_postgres: target_folder.join("debug").join("segue-test-postgres"),
        checkout: root.to_owned(),
        target_folder,
    })
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
