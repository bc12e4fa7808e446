//! Compresses the files of the page, which the program embeds.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The folder of the built page, relative to the folder of this package.
const PAGE: &str = "page";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PAGE}");
    let target = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?).join(PAGE);
    // Files of an earlier build have other names and would be embedded too.
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    compress_folder(Path::new(PAGE), &target)
}

/// Writes each file of a folder to the target folder, compressed and under the same name.
fn compress_folder(source: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            compress_folder(&from, &to)?;
        } else {
            let mut encoder = GzEncoder::new(File::create(to)?, Compression::best());
            encoder.write_all(&fs::read(from)?)?;
            encoder.finish()?.flush()?;
        }
    }
    Ok(())
}
