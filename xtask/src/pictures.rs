//! `cargo xtask pictures`: captures the screenshots of the README and the book, each in a light and a dark scheme.
//!
//! Pictures of the terminal are SVG files of the built program in a pseudo-terminal. Pictures of the page are PNG files
//! from Chromium. The program gets the sample session and no model, key or network. [`sandbox`] fixes what would differ
//! between two runs. This command does not compare pictures: reviewers see them in the diff.

mod page_shots;
mod palette;
mod pseudo_terminal;
mod sandbox;
mod screen;
mod svg;
mod terminal_shots;

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;
use crate::machine_setup;
use palette::Scheme;

/// The folder of the pictures, relative to the workspace.
const PICTURES_FOLDER: &str = "docs/src/pictures";
/// Maximum size of a picture in bytes. Pictures are part of the repository and of the book.
const PICTURE_BYTES_MAX: usize = 150_000;

/// A captured picture that is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Picture {
    /// The file name.
    name: String,
    /// The content of the file.
    bytes: Vec<u8>,
}

impl Picture {
    /// Returns a picture named `name-scheme.extension`.
    fn new(name: &str, scheme: Scheme, extension: &str, bytes: Vec<u8>) -> Self {
        Self { name: format!("{name}-{}.{extension}", scheme.name()), bytes }
    }
}

/// Captures all pictures, writes them to the book's folder and prints each file with its size.
///
/// If a picture cannot be captured, no file is written.
///
/// # Errors
/// If a picture cannot be captured, is too large or cannot be written. The error names it and, for a picture of the
/// terminal, contains the screen.
pub fn capture_pictures(root: &Path) -> anyhow::Result<()> {
    machine_setup::set_up_pictures(root)?;
    CommandSpec::from_line("cargo build --locked -p segue").run(root)?;
    let program = CargoMetadata::load(root)?.target_folder.join("debug").join("segue");
    let mut pictures = terminal_shots::capture_all(root, &program)?;
    pictures.extend(page_shots::capture_all(root, &program)?);
    write_pictures(&root.join(PICTURES_FOLDER), &pictures)
}

/// Writes the pictures to `folder`, after all sizes have been checked.
fn write_pictures(folder: &Path, pictures: &[Picture]) -> anyhow::Result<()> {
    for Picture { name, bytes } in pictures {
        if bytes.len() > PICTURE_BYTES_MAX {
            bail!("write {name}: it has {} bytes, the limit is {PICTURE_BYTES_MAX}", bytes.len());
        }
    }
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    for Picture { name, bytes } in pictures {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        println!("{PICTURES_FOLDER}/{name:<32} {:>6.1} kB", bytes.len() as f64 / 1e3);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_is_too_large_is_refused_before_any_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let small = Picture::new("small", Scheme::Light, "svg", vec![0]);
        let large = Picture::new("large", Scheme::Dark, "png", vec![0; PICTURE_BYTES_MAX + 1]);
        let error = write_pictures(folder.path(), &[small.clone(), large]).unwrap_err().to_string();
        assert_eq!(error, "write large-dark.png: it has 150001 bytes, the limit is 150000");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write_pictures(folder.path(), &[small]).unwrap();
        assert_eq!(fs::read(folder.path().join("small-light.svg")).unwrap(), [0]);
    }
}
