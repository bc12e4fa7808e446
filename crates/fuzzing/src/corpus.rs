//! The corpus: small inputs for each target, one file each. They were written by hand or derived from the inputs of other
//! tests. An input that makes a target fail is added.

use std::path::PathBuf;
use std::{fs, io};

/// An input of the corpus.
#[derive(Debug, Clone)]
pub struct CorpusFile {
    /// The name of the file.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Returns the folder with a folder for each target.
pub fn corpus_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))
}

/// Returns the inputs of the target of this name, sorted by the names of their files.
///
/// # Errors
/// If the folder of the target or a file in it cannot be read.
pub fn read_corpus(target: &str) -> io::Result<Vec<CorpusFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(corpus_folder().join(target))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push(CorpusFile { name, bytes: fs::read(entry.path())? });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
