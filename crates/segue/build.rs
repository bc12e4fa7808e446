//! Compresses the sample session, which the program embeds for `segue demo`, and links the program at a fixed address where
//! this saves time at each start.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The session, relative to the folder of this package.
const SESSION: &str = "demo/flaky-test.jsonl";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    link_at_fixed_address();
    compress_session()
}

/// A program at a random address has about 100,000 addresses of its own to adjust before `main`, which takes longer than
/// `segue --version` itself and copies two megabytes of the file into private memory. Libraries, heap and stacks stay
/// at random addresses.
fn link_at_fixed_address() {
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);
    // With musl the program is linked statically, for which the linker needs other options.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

fn compress_session() -> io::Result<()> {
    println!("cargo::rerun-if-changed={SESSION}");
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let file = File::create(folder.join("session.jsonl.gz"))?;
    let mut encoder = GzEncoder::new(file, Compression::best());
    encoder.write_all(&fs::read(SESSION)?)?;
    encoder.finish()?.flush()
}
