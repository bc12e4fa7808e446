//! Writes the stop words as one text, which the library includes. A table of string slices would be adjusted word by
//! word at each start of the program, because the slices contain addresses.

use std::path::PathBuf;
use std::{env, fs, io};

/// The languages of `sentence_ranking::stems`.
const LANGUAGES: [&str; 10] = ["en", "de", "fr", "es", "pt", "it", "nl", "sv", "ru", "tr"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut lines = String::new();
    for language in LANGUAGES {
        let words = stop_words::lookup(language)
            .ok_or_else(|| io::Error::other(format!("there are no stop words of {language}")))?;
        lines.extend([language, "\t", &words.join("\t"), "\n"]);
    }
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(PathBuf::from(folder).join("stop_words.txt"), lines)
}
