//! The work for an input is proportional to its length. The measure is deterministic: the bytes that a parser allocates, and
//! for event streams and secrets what the parser itself counts. Processor time is measured with full counts only. Parsers
//! that scan a text without an allocation have tests of their own, next to them, that count what they read.

use fuzzing::{FuzzTarget, RepeatedInput, TARGETS};
use rustix::time::{ClockId, clock_gettime};

/// The length of the shortest input, in bytes. Shorter ones are dominated by constant work, and by the blocks that the
/// renderer of Markdown holds back.
const LENGTH_MIN: usize = 128 << 10;

/// The growth that is allowed for twice the length, in percent. A vector that is extended byte by byte has up to half of its
/// capacity unused.
const GROWTH_PERCENT_MAX: u64 = 260;

/// The bytes that a parser may allocate whatever the length is.
const CONSTANT_BYTES: u64 = 1 << 20;

/// Returns the number of bytes that are allocated for one parse.
fn allocated_bytes(target: &FuzzTarget, input: &[u8]) -> u64 {
    allocation_counter::measure(|| (target.parse)(input)).bytes_total
}

#[test]
fn every_parser_allocates_in_proportion_to_the_length_of_its_input() {
    for target in TARGETS {
        // What is prepared once is not measured.
        (target.parse)(b"x");
        for repeated in target.repeated {
            let allocated = |length| allocated_bytes(target, &repeated.expand(length));
            let (once, twice) = (allocated(LENGTH_MIN), allocated(2 * LENGTH_MIN));
            assert!(
                twice <= once / 100 * GROWTH_PERCENT_MAX + CONSTANT_BYTES,
                "{}: {repeated:?} allocates {once} bytes, and {twice} for twice the length",
                target.name
            );
        }
    }
}

#[test]
fn an_event_stream_is_read_once_and_copied_once() {
    let target = fuzzing::find_target("sse").unwrap();
    for repeated in target.repeated {
        let input = repeated.expand(LENGTH_MIN);
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
        let (once, twice) = (attempts(LENGTH_MIN), attempts(2 * LENGTH_MIN));
        assert!(twice <= 2 * once + 64, "{repeated:?}: {once}, then {twice}");
    }
}

/// Returns the processor time of one parse in microseconds: the least of several attempts, because other work on the machine
/// only adds to it.
fn processor_time(target: &FuzzTarget, input: &[u8]) -> i64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
    };
    let measure = |_| {
        let started_at = now();
        (target.parse)(input);
        now() - started_at
    };
    (0..3).map(measure).min().unwrap_or_default()
}

/// Doubles the length until one parse takes long enough to be measured. Returns true if the time then grows almost fourfold for
/// twice the length.
fn is_quadratic(target: &FuzzTarget, repeated: &RepeatedInput) -> bool {
    const MICROSECONDS_MIN: i64 = 50_000;
    const LENGTH_MAX: usize = 8 << 20;
    let mut length = LENGTH_MIN;
    let mut time = processor_time(target, &repeated.expand(length));
    while time < MICROSECONDS_MIN && length < LENGTH_MAX {
        length *= 2;
        time = processor_time(target, &repeated.expand(length));
    }
    let twice = processor_time(target, &repeated.expand(2 * length));
    time >= MICROSECONDS_MIN && twice * 10 > time * 32
}

#[test]
fn the_processor_time_of_every_parser_grows_less_than_quadratically() {
    if test_counts::count(true, false) {
        return;
    }
    for target in TARGETS {
        for repeated in target.repeated {
            // A busy machine makes a single measurement unreliable.
            let is_quadratic = (0..3).all(|_| is_quadratic(target, repeated));
            assert!(!is_quadratic, "{}: {repeated:?}", target.name);
        }
    }
}
