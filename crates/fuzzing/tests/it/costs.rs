//! The work for an input is proportional to its length. The measure is deterministic: the bytes that a parser allocates, and
//! for event streams and secrets what the parser itself counts. Parsers that scan a text without an allocation have tests of
//! their own, next to them, that count what they read.

use fuzzing::FuzzTarget;

/// The length of the shorter input, in bytes. Below it, constant work and the blocks that the renderer of Markdown holds
/// back can exceed [`CONSTANT_BYTES`].
fn length_min() -> usize {
    test_counts::count(32 << 10, 128 << 10)
}

/// The growth that is allowed for twice the length, in percent. A vector that is extended byte by byte has up to half of its
/// capacity unused.
const GROWTH_PERCENT_MAX: u64 = 260;

/// The bytes that a parser may allocate whatever the length is.
const CONSTANT_BYTES: u64 = 1 << 20;

/// Returns the number of bytes that are allocated for one parse.
fn allocated_bytes(target: &FuzzTarget, input: &[u8]) -> u64 {
    allocation_counter::measure(|| (target.parse)(input)).bytes_total
}

/// Checks a target with its repeated inputs.
fn check_allocations(name: &str) {
    let target = fuzzing::find_target(name).unwrap();
    // The renderer renders the unfinished block again for each line, which takes seconds for one input.
    let inputs_max = if name == "markdown" { test_counts::count(2, usize::MAX) } else { usize::MAX };
    // What is prepared once is not measured.
    (target.parse)(b"x");
    for repeated in target.repeated.iter().take(inputs_max) {
        let allocated = |length| allocated_bytes(target, &repeated.expand(length));
        let (once, twice) = (allocated(length_min()), allocated(2 * length_min()));
        assert!(
            twice <= once / 100 * GROWTH_PERCENT_MAX + CONSTANT_BYTES,
            "{name}: {repeated:?} allocates {once} bytes, and {twice} for twice the length"
        );
    }
}

/// Declares a test of [`check_allocations`] for each target, and one that no target is missing.
macro_rules! allocation_tests {
    ($($name:ident)*) => {
        mod allocations {
            $(
                #[test]
                fn $name() {
                    super::check_allocations(stringify!($name));
                }
            )*

            #[test]
            fn every_target_has_a_test() {
                let tested = [$(stringify!($name)),*];
                assert!(fuzzing::TARGETS.iter().all(|target| tested.contains(&target.name)));
            }
        }
    };
}

allocation_tests!(transcripts requests decisions sse shell read_only agent_md redaction markdown);

#[test]
fn an_event_stream_is_read_once_and_copied_once() {
    let target = fuzzing::find_target("sse").unwrap();
    for repeated in target.repeated {
        let input = repeated.expand(length_min());
        let parsed = model::fuzzing::parse_event_stream(input.chunks(100), usize::MAX);
        assert!(parsed.bytes_handled <= 3 * input.len(), "{repeated:?}: {}", parsed.bytes_handled);
    }
}

#[test]
fn m16_the_number_of_tried_patterns_is_proportional_to_the_length_of_a_text() {
    let target = fuzzing::find_target("redaction").unwrap();
    for repeated in target.repeated {
        let attempts = |length| {
            let text = String::from_utf8(repeated.expand(length)).unwrap();
            secrets::attempt_count(&text)
        };
        let (once, twice) = (attempts(length_min()), attempts(2 * length_min()));
        assert!(twice <= 2 * once + 64, "{repeated:?}: {once}, then {twice}");
    }
}
