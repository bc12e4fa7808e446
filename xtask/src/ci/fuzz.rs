//! `cargo xtask fuzz`: runs a target of the crate `fuzzing` under libFuzzer, which changes inputs and keeps those that reach new
//! code. The instrumentation is that of the compiler and works with the stable toolchain; libFuzzer itself is compiled with a
//! C++ compiler. The targets and their corpus belong to the crate.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::command::CommandSpec;

/// The folder with the corpus of each target.
const CORPUS_FOLDER: &str = "crates/fuzzing/corpus";
/// The folder for the instrumented build, the inputs that were found, and those that failed.
const OUTPUT_FOLDER: &str = "target/fuzz";
/// The profile of the instrumented build: optimised, with the checks of development builds.
const PROFILE: &str = "soak";
/// The time of a run in seconds, if the command does not say it.
const SECONDS_DEFAULT: u64 = 60;
/// The flags with which the compiler records the code and the comparisons that an input reaches.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// The limits of an input: its length in bytes, its time in seconds, its memory in MiB.
const LIMITS: [&str; 3] = ["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048"];

/// The arguments of the command.
#[derive(Debug, PartialEq, Eq)]
struct FuzzOptions {
    target: String,
    seconds: u64,
    found: FoundInputs,
}

/// The use of inputs that reach new code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundInputs {
    /// The next run begins with them.
    NextRun,
    /// They are added to the corpus too.
    Corpus,
}

/// Builds the targets with instrumentation, and runs one of them for a time.
///
/// # Errors
/// If the arguments are malformed, the build fails, or an input fails. libFuzzer prints the file of that input.
pub fn run_fuzzing(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let targets = list_targets(root)?;
    let options = parse_options(args, &targets)?;
    let host = host_triple(root)?;
    build_command(&host).run(root).context("build the fuzz targets; libFuzzer needs a C++ compiler")?;
    let program = root.join(OUTPUT_FOLDER).join(&host).join(PROFILE).join("fuzz_target");
    let corpus = root.join(CORPUS_FOLDER).join(&options.target);
    let folder = |kind: &str| -> anyhow::Result<PathBuf> {
        let folder = root.join(OUTPUT_FOLDER).join(kind).join(&options.target);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(folder)
    };
    let (found, failures) = (folder("found")?, folder("failures")?);
    let target = CommandSpec::from_program(&program).env("FUZZ_TARGET", &options.target);
    let run =
        target.clone().args(&LIMITS.map(str::to_owned)).arg(format!("-max_total_time={}", options.seconds));
    let run = run.arg(format!("-artifact_prefix={}/", failures.display()));
    run.arg(path_text(&found)).arg(path_text(&corpus)).run(root)?;
    match options.found {
        FoundInputs::NextRun => Ok(()),
        // Merging adds the smallest inputs that reach code which no file of the corpus reaches.
        FoundInputs::Corpus => {
            target.arg("-merge=1").arg(path_text(&corpus)).arg(path_text(&found)).run(root)
        }
    }
}

/// Returns the names of the targets: the folders of the corpus.
fn list_targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(root.join(CORPUS_FOLDER)).context("list the fuzz targets")?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.context("list the fuzz targets")?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Parses the arguments.
fn parse_options(args: &[String], targets: &[String]) -> anyhow::Result<FuzzOptions> {
    let Some((target, rest)) = args.split_first().filter(|(target, _)| targets.contains(target)) else {
        bail!("name one of the fuzz targets: {}", targets.join(", "));
    };
    let mut options =
        FuzzOptions { target: target.clone(), seconds: SECONDS_DEFAULT, found: FoundInputs::NextRun };
    let mut rest = rest.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument {
            "--seconds" => {
                let value = rest.next().context("`--seconds` needs a number")?;
                options.seconds = value.parse().context("`--seconds` needs a number")?;
            }
            "--keep" => options.found = FoundInputs::Corpus,
            unknown => bail!("`fuzz` has no argument `{unknown}`"),
        }
    }
    Ok(options)
}

/// Returns the command that builds the targets. With an explicit target, build scripts and macros are not instrumented.
fn build_command(host: &str) -> CommandSpec {
    let line = format!(
        "cargo build --locked --package segue-fuzzing --bin fuzz_target --features libfuzzer --profile {PROFILE} \
         --target {host} --target-dir {OUTPUT_FOLDER}"
    );
    CommandSpec::from_line(&line).env("RUSTFLAGS", INSTRUMENTATION)
}

/// Returns the name of this platform in the compiler's form.
fn host_triple(root: &Path) -> anyhow::Result<String> {
    let version = CommandSpec::from_line("rustc -vV").output(root)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("find the host in the output of `rustc -vV`")
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<FuzzOptions, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let targets = ["shell", "sse"].map(str::to_owned);
        parse_options(&args, &targets).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_target_runs_for_a_minute_unless_the_arguments_say_otherwise() {
        let options = |seconds, found| Ok(FuzzOptions { target: "sse".to_owned(), seconds, found });
        assert_eq!(parse("sse"), options(60, FoundInputs::NextRun));
        assert_eq!(parse("sse --keep --seconds 5"), options(5, FoundInputs::Corpus));
        for (line, reason) in [
            ("", "name one of the fuzz targets: shell, sse"),
            ("other", "name one of the fuzz targets: shell, sse"),
            ("sse --seconds", "`--seconds` needs a number"),
            ("sse --seconds x", "`--seconds` needs a number"),
            ("sse --all", "`fuzz` has no argument `--all`"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.starts_with(reason), "{line}: {error}");
        }
    }

    #[test]
    fn the_build_is_instrumented_and_apart_from_other_builds() {
        let command = build_command("x86_64-unknown-linux-gnu").to_string();
        assert!(command.starts_with("RUSTFLAGS='-Cpasses=sancov-module "), "{command}");
        assert!(command.contains("--target x86_64-unknown-linux-gnu --target-dir target/fuzz"), "{command}");
    }
}
