//! Every target holds for the files of its corpus and for generated inputs. A failure prints the input; as a file in the corpus
//! it becomes a regression test.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};

use fuzzing::corpus::{corpus_folder, read_corpus};
use fuzzing::{FuzzTarget, INPUT_BYTES_MAX, InputGenerator, TARGETS, find_target};

/// The seed of the generated inputs.
const SEED: u64 = 1;

/// Checks one input, and prints it if the check fails.
fn check_input(target: &FuzzTarget, input: &[u8], origin: &str) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    if let Err(failure) = outcome {
        eprintln!("target `{}`, {origin}: b\"{}\"", target.name, input.escape_ascii());
        panic::resume_unwind(failure);
    }
}

/// Checks the corpus of a target, and this number of generated inputs.
fn check_target(name: &str, generated: usize) {
    let target = find_target(name).expect("the target exists");
    let corpus = read_corpus(name).unwrap();
    assert!(!corpus.is_empty(), "the corpus has files");
    for file in &corpus {
        check_input(target, &file.bytes, &file.name);
    }
    let mut generator = InputGenerator::new(SEED, &corpus, target.dictionary);
    for index in 0..generated {
        check_input(target, &generator.next_input(), &format!("generated input {index}"));
    }
}

#[test]
fn a6_any_bytes_are_read_as_a_session_and_keep_what_stands_before_the_damage() {
    check_target("transcripts", test_counts::count(300, 20_000));
}

#[test]
fn any_body_of_a_request_is_within_the_limits_or_refused_with_a_typed_error() {
    check_target("requests", test_counts::count(4_000, 200_000));
}

#[test]
fn g3_any_answer_is_the_decisions_that_it_lists_or_is_refused() {
    check_target("decisions", test_counts::count(4_000, 200_000));
}

#[test]
fn i4_any_event_stream_has_the_events_of_the_standard_in_any_chunks() {
    check_target("sse", test_counts::count(2_000, 100_000));
}

#[test]
fn k6_any_line_is_refused_or_means_to_the_gate_what_it_means_to_bash() {
    check_target("shell", test_counts::count(2_000, 50_000));
}

#[test]
fn k6_any_line_that_is_allowed_without_asking_writes_nothing_and_shows_no_secret() {
    check_target("read_only", test_counts::count(300, 10_000));
}

#[test]
fn g11_any_agent_md_keeps_its_text_and_gets_one_block() {
    check_target("agent_md", test_counts::count(4_000, 200_000));
}

#[test]
fn m16_any_text_keeps_what_is_no_secret_and_hides_no_secret() {
    check_target("redaction", test_counts::count(1_000, 50_000));
}

#[test]
fn k5_any_markdown_is_rendered_without_control_characters_and_within_the_width() {
    check_target("markdown", test_counts::count(500, 20_000));
}

#[test]
fn every_target_has_a_corpus_of_small_files() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let folders = std::fs::read_dir(corpus_folder()).unwrap();
    let folders: BTreeSet<String> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(folders, targets);
    for target in &targets {
        for file in read_corpus(target).unwrap() {
            assert!(
                file.bytes.len() <= INPUT_BYTES_MAX,
                "{target}/{}: {} bytes",
                file.name,
                file.bytes.len()
            );
        }
    }
}

#[test]
fn a_seed_always_generates_the_same_inputs() {
    let corpus = read_corpus("sse").unwrap();
    let target = find_target("sse").unwrap();
    let generate = || {
        let mut generator = InputGenerator::new(SEED, &corpus, target.dictionary);
        (0..200).map(|_| generator.next_input()).collect::<Vec<_>>()
    };
    let inputs = generate();
    assert_eq!(inputs, generate());
    assert!(inputs.iter().collect::<BTreeSet<_>>().len() > 150, "the inputs differ");
    assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
}
