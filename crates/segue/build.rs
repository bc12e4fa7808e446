//! Links the program at a fixed address where this saves time at each start: a program at a random address has about
//! 100,000 addresses of its own to adjust before `main`, which takes longer than `segue --version` itself and copies
//! two megabytes of the file into private memory. Libraries, heap and stacks stay at random addresses.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);
    // With musl the program is linked statically, for which the linker needs other options.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
