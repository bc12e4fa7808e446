//! Measures the redaction of secrets: recall on generated secrets, false positives on generated harmless texts and on
//! files of real conversations, and time. `cargo xtask eval-secrets` runs it; it fails if a figure is below its bar.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use test_secrets::{harmless_texts, secret_samples};

/// The seed of the generated texts.
const SEED: u64 = 25;
/// The number of texts for each kind of secret.
const SAMPLES_PER_KIND: usize = 8;
/// The number of harmless texts.
const HARMLESS_TEXTS: usize = 10_000;
/// The minimum recall, in percent.
const RECALL_PERCENT_MIN: f64 = 98.0;
/// The maximum share of harmless texts that are changed, in percent.
const FALSE_PERCENT_MAX: f64 = 0.5;
/// The length of the long lines, in bytes.
const LINE_BYTES: usize = 10 << 20;
/// How often a long line is measured. The shortest time counts, because other programs use the machine too.
const LINE_RUNS: usize = 5;
/// The maximum time for a long line, in seconds.
const LINE_SECONDS_MAX: f64 = 1.0;

fn main() -> ExitCode {
    let recall = measure_recall();
    let false_share = measure_harmless();
    let slowest = measure_lines();
    if let Some(folder) = std::env::args().nth(1) {
        measure_files(Path::new(&folder));
    }
    let mut has_failed = false;
    let mut require = |is_met: bool, bar: String| {
        println!("{} {bar}", if is_met { "met    " } else { "MISSED " });
        has_failed |= !is_met;
    };
    require(recall >= RECALL_PERCENT_MIN, format!("recall at least {RECALL_PERCENT_MIN} %: {recall:.2} %"));
    require(
        false_share <= FALSE_PERCENT_MAX,
        format!("false positives at most {FALSE_PERCENT_MAX} %: {false_share:.2} %"),
    );
    // An unoptimised build says nothing about the time.
    if !cfg!(debug_assertions) {
        require(
            slowest <= LINE_SECONDS_MAX,
            format!("10 MB line at most {LINE_SECONDS_MAX} s: {slowest:.2} s"),
        );
    }
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints the kinds with leaks, and returns the recall in percent.
fn measure_recall() -> f64 {
    let samples = secret_samples(SEED, SAMPLES_PER_KIND);
    let mut leaks = 0;
    for sample in &samples {
        let redacted = secrets::redact(&sample.text);
        if sample.is_leaked_by(&redacted) {
            leaks += 1;
            println!("leak    {}: {:?} -> {:?}", sample.kind, sample.text, redacted);
        }
    }
    let kinds = samples.len() / SAMPLES_PER_KIND;
    println!("recall  {} of {} generated secrets of {kinds} kinds", samples.len() - leaks, samples.len());
    println!("rules   {}", secrets::rule_summaries().len());
    100.0 * (samples.len() - leaks) as f64 / samples.len() as f64
}

/// Prints the harmless texts that are changed, and returns their share in percent.
fn measure_harmless() -> f64 {
    let texts = harmless_texts(SEED, HARMLESS_TEXTS);
    let mut changed = 0;
    for text in &texts {
        let found = secrets::find_secrets(text);
        if let Some(first) = found.first() {
            changed += 1;
            println!("false   {}: {:?}", first.rule, text.chars().take(160).collect::<String>());
        }
    }
    println!("false   {changed} of {} harmless texts", texts.len());
    100.0 * f64::from(changed) / texts.len() as f64
}

/// Prints the times for long lines, and returns the longest in seconds.
fn measure_lines() -> f64 {
    let mut slowest: f64 = 0.0;
    for (name, unit) in [
        (
            "prose",
            "The quick brown fox asks the user for a review of the task and the tests they wrote today. ",
        ),
        (
            "base64",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg",
        ),
        ("one letter", "a"),
        ("assignments", "password=hunter2hunter2 token: abc.def123456 "),
        ("names", "key token secret password "),
        ("run of names", "password=token=key="),
        ("prefixes", "sk-sk_eyJghp_AKIA"),
        ("headers", "-----BEGIN RSA PRIVATE KEY-----"),
        ("addresses", "https://a:b:c"),
        ("tokens", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln "),
        ("marks", "the **word** a**b `x`y ghp_**aB3d** user__name "),
        ("dotted", "MTk4NjIy.abcdef.MTk4NjIyMTk4.config."),
        ("vendors", "adafruit twitter sourcegraph atlasv1 curl -u a:b "),
    ] {
        let text = unit.repeat(LINE_BYTES / unit.len());
        // The first search compiles the patterns that it needs.
        secrets::redact_and_count(unit);
        let (mut seconds, mut count) = (f64::INFINITY, 0);
        for _ in 0..LINE_RUNS {
            let start = Instant::now();
            count = secrets::redact_and_count(&text).1;
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
        println!(
            "time    {seconds:.3} s for 10 MB of {name}: {count} secrets, {} attempts",
            secrets::attempt_count(&text)
        );
        slowest = slowest.max(seconds);
    }
    slowest
}

/// Prints what is redacted in the files below a folder, by rule, with masked values.
fn measure_files(folder: &Path) {
    let (mut bytes, mut found, mut seconds) = (0, 0, 0.0);
    for file in files_below(folder) {
        let Ok(content) = std::fs::read(&file) else { continue };
        let text = String::from_utf8_lossy(&content);
        let start = Instant::now();
        let reports = secrets::find_secrets(&text);
        seconds += start.elapsed().as_secs_f64();
        bytes += text.len();
        found += reports.len();
        for report in reports {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            println!("found   {name}:{}:{} {} {}", report.line, report.column, report.rule, report.masked);
        }
    }
    let megabytes = bytes as f64 / f64::from(1 << 20);
    println!(
        "found   {found} in {megabytes:.1} MB of real conversations: {:.2} for each MB",
        found as f64 / megabytes
    );
    println!("time    {seconds:.3} s for them: {:.0} MB/s", megabytes / seconds);
}

/// Returns the files below a folder, sorted by path.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}
