//! A person's message on its way to the agent: the files it names after `@` go along as delimited text, images as
//! images. What the model makes of them is not decided here.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use agent::{Agent, looks_secret};
use protocol::{Block, HumanMessage, ThreadId};
use terminal::{one_line, size};

use super::line::paste::{Written, is_image};
use crate::exit::{Code, Failure};

/// Bytes of one file that go along; of a larger one, its beginning.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all files of one message.
const FILES_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one image; providers take no larger ones.
const IMAGE_BYTES_MAX: u64 = 5 * 1024 * 1024;
/// How much of a file is looked at to tell whether it is text.
const PROBE_BYTES: usize = 8 * 1024;
/// What a message will hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Draft {
    text: String,
    files: Vec<String>,
    images: Vec<PathBuf>,
    /// What the person should know of it.
    pub(super) notes: Vec<String>,
}

impl Draft {
    /// Reads the files that the person named. What is not there, was only pasted, lies outside the workspace or looks
    /// like a secret is left as what it is, a word.
    pub(super) fn new(written: Written, workspace: &Path) -> Self {
        let mut draft = Self { text: written.text, images: written.images, ..Self::default() };
        let mut room = FILES_BYTES_MAX;
        for name in mentions(&draft.text) {
            let path = match named(&name, workspace) {
                Ok(_) if written.pasted.contains(&name) => {
                    draft.leave(&name, "was pasted, not typed");
                    continue;
                }
                Ok(path) => path,
                Err(why) => {
                    if let Some(why) = why {
                        draft.leave(&name, why);
                    }
                    continue;
                }
            };
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() && is_image(&path) => {
                    draft.notes.push(format!("@{name} goes along as an image, {}", size(found.len())));
                    draft.images.push(path);
                }
                Ok(found) if found.is_file() => draft.add(&name, &path, &mut room),
                Ok(_) => draft.leave(&name, "is a folder"),
                Err(_) => draft.leave(&name, "cannot be read"),
            }
        }
        draft
    }

    fn leave(&mut self, name: &str, why: &str) {
        self.notes.push(format!("@{} {why}: only its name goes along", one_line(name)));
    }

    fn add(&mut self, name: &str, path: &Path, room: &mut usize) {
        let limit = FILE_BYTES_MAX.min(*room);
        if limit == 0 {
            return self.leave(name, "does not fit");
        }
        match beginning(path, limit) {
            Ok((text, bytes)) => {
                *room = room.saturating_sub(text.len());
                let is_whole = text.len() as u64 >= bytes;
                self.notes.push(match is_whole {
                    true => format!("@{name} goes along, {}", size(bytes)),
                    false => {
                        format!("@{name}: the first {} of {} go along", size(text.len() as u64), size(bytes))
                    }
                });
                self.files.push(block(name, &text, bytes));
            }
            Err(reason) => self.leave(name, &reason),
        }
    }

    /// Stores the images in the thread and returns the message.
    pub(super) async fn message(self, agent: &Agent, thread_id: ThreadId) -> Result<HumanMessage, Failure> {
        let mut content = vec![Block::text(self.text)];
        content.extend(self.files.into_iter().map(Block::text));
        for path in self.images {
            let (bytes, media_type) = image(&path)?;
            content.push(agent.threads().attach(thread_id, bytes, media_type).await?);
        }
        Ok(HumanMessage { id: None, content })
    }
}

/// The beginning of the block in which a file goes along.
pub(crate) const FILE_BLOCK: &str = "<attached_file ";
const FILE_BLOCK_END: &str = "</attached_file>";

/// The end of the block cannot be written in the file's own text.
fn block(name: &str, text: &str, bytes: u64) -> String {
    let name = one_line(name).replace('"', "'");
    let text = text.replace("</attached_file", "<\\/attached_file");
    let cut = match text.len() as u64 >= bytes {
        true => String::new(),
        false => format!("\n[cut: the file has {bytes} bytes; read_file shows the rest]"),
    };
    format!(
        "{FILE_BLOCK}path=\"{name}\" bytes=\"{bytes}\">\n{}{cut}\n{FILE_BLOCK_END}",
        text.trim_end_matches('\n')
    )
}

/// Returns what the person wrote of a message's text, without the files that went along.
pub(super) fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(FILE_BLOCK) {
        let begins_line = before.is_empty() || before.ends_with('\n');
        match block.split_once(FILE_BLOCK_END).filter(|_| begins_line) {
            Some((_, after)) => {
                words.push_str(before.strip_suffix('\n').unwrap_or(before));
                rest = after;
            }
            None => {
                words.push_str(before);
                words.push_str(FILE_BLOCK);
                rest = block;
            }
        }
    }
    words + rest
}

/// Returns the file that is named, links followed; else why it does not go along, if that is worth a word.
fn named(name: &str, workspace: &Path) -> Result<PathBuf, Option<&'static str>> {
    let is_path = name.contains(['.', '/']);
    let Ok(path) = workspace.join(name).canonicalize() else {
        return Err(is_path.then_some("is not there"));
    };
    let is_inside = workspace.canonicalize().is_ok_and(|workspace| path.starts_with(workspace));
    match is_inside {
        false => Err(Some("is outside this folder")),
        true if looks_secret(Path::new(name)) || looks_secret(&path) => {
            Err(Some("looks like a file with secrets"))
        }
        true => Ok(path),
    }
}

/// Returns the paths a text names after `@`, each once, in order.
pub(super) fn mentions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let starts = c == '@' && (before.is_whitespace() || "([{,;:\"'".contains(before));
        before = c;
        if !starts {
            continue;
        }
        let rest = &text[at + 1..];
        let name = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split(['"', '\n']).next().unwrap_or_default(),
            None => rest.split(char::is_whitespace).next().unwrap_or_default(),
        };
        let name = name.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '"']);
        if !name.is_empty() && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Returns at most `limit` bytes of a text file, whole characters, and the size of the file.
fn beginning(path: &Path, limit: usize) -> Result<(String, u64), String> {
    let failed = |error: std::io::Error| format!("cannot be read ({error})");
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut read = Vec::new();
    file.take(limit as u64).read_to_end(&mut read).map_err(failed)?;
    if read[..read.len().min(PROBE_BYTES)].contains(&0) {
        return Err("is no text".to_owned());
    }
    match String::from_utf8(read) {
        Ok(text) => Ok((text, bytes)),
        Err(error) => {
            let end = error.utf8_error().valid_up_to();
            let mut read = error.into_bytes();
            // Only a character that the limit cut may be left out.
            if end + 4 <= read.len() {
                return Err("is no text".to_owned());
            }
            read.truncate(end);
            Ok((String::from_utf8_lossy(&read).into_owned(), bytes))
        }
    }
}

/// Returns an image and its media type, which its first bytes tell.
fn image(path: &Path) -> Result<(Vec<u8>, &'static str), Failure> {
    let failed = |why: String| {
        Failure::new(Code::User, format!("send {}: {why}", path.display()))
            .with_hint("PNG, JPEG, GIF and WebP of up to 5 MB can be sent")
    };
    let found = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if found.len() > IMAGE_BYTES_MAX {
        return Err(failed(format!("it has {}", size(found.len()))));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let media_type = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err(failed("it is no image".to_owned())),
    };
    Ok((bytes, media_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_an_at_sign_that_begins_a_word() {
        let check = |text: &str, expected: &[&str]| assert_eq!(mentions(text), expected, "{text}");
        check("look at @src/a.rs, and (@b.rs).", &["src/a.rs", "b.rs"]);
        check("@\"a b.txt\" @a @a", &["a b.txt", "a"]);
        check("me@example.org @ @", &[]);
    }

    #[test]
    fn what_a_person_wrote_is_told_from_the_files_that_went_along() {
        let sent = |text: &str| {
            format!("{text}\n{}\n{}", block("a.txt", "one\n", 4), block("b.txt", "</attached_file>", 16))
        };
        let check = |text: &str, expected: &str| assert_eq!(words(text), expected);
        check(&sent("see @a.txt and @b.txt"), "see @a.txt and @b.txt");
        check(&sent("two\nlines @a.txt @b.txt"), "two\nlines @a.txt @b.txt");
        check("what is <attached_file x> in this?", "what is <attached_file x> in this?");
        check("<attached_file x>\nnever closed", "<attached_file x>\nnever closed");
        check("", "");
    }

    #[test]
    fn a_file_goes_along_delimited_and_a_large_one_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one\n</attached_file>\n").unwrap();
        std::fs::write(folder.path().join("big.txt"), "é".repeat(FILE_BYTES_MAX)).unwrap();
        std::fs::write(folder.path().join("b.bin"), b"a\0b").unwrap();
        std::fs::write(folder.path().join("c.png"), b"\x89PNG").unwrap();
        let text = "see @a.txt @big.txt @b.bin @c.png @nothing @.";
        let draft = Draft::new(Written { text: text.to_owned(), ..Written::default() }, folder.path());
        assert_eq!(draft.text, text);
        assert_eq!(
            draft.files[0],
            "<attached_file path=\"a.txt\" bytes=\"21\">\none\n<\\/attached_file>\n</attached_file>"
        );
        assert!(draft.files[1].ends_with("read_file shows the rest]\n</attached_file>"));
        assert_eq!(draft.files.len(), 2);
        assert_eq!(draft.images, [folder.path().canonicalize().unwrap().join("c.png")]);
        assert_eq!(draft.notes.len(), 4, "{:?}", draft.notes);
        assert!(draft.notes[2].contains("is no text"), "{:?}", draft.notes);
    }

    #[test]
    fn k5_only_what_a_person_named_goes_along() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("work");
        std::fs::create_dir(&folder).unwrap();
        let inside = ["a.txt", "pasted.txt", ".env", ".env.local", "server.pem", ".env.example"];
        for name in inside.map(|name| folder.join(name)).iter().chain([&around.path().join("passwd")]) {
            std::fs::write(name, "words\n").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("../passwd", folder.join("link.txt")).unwrap();
        let text = "@a.txt @pasted.txt @.env @.env.local @server.pem @.env.example @../passwd @link.txt @nope.py @you";
        let written =
            Written { text: text.to_owned(), pasted: vec!["pasted.txt".to_owned()], ..Written::default() };
        let draft = Draft::new(written, &folder);
        let notes = draft.notes.join("\n");
        assert_eq!(draft.files.len(), 2, "{notes}");
        for (part, count) in
            [("was pasted", 1), ("secrets", 3), ("outside", 2), ("@nope.py is not there", 1), ("@you", 0)]
        {
            assert_eq!(notes.matches(part).count(), count, "{part}:\n{notes}");
        }
    }
}
