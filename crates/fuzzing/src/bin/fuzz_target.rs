//! Runs a target under libFuzzer. The environment variable `FUZZ_TARGET` names it; the arguments are those of libFuzzer.
//! `cargo xtask fuzz` compiles the program with the instrumentation that libFuzzer needs, and starts it.

#![no_main]

use std::sync::LazyLock;

use fuzzing::{FuzzTarget, find_target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("`cargo xtask fuzz` sets the name of the target");
    find_target(&name).expect("`cargo xtask fuzz` sets the name of a target")
});

fuzz_target!(|input: &[u8]| (TARGET.check)(input));
