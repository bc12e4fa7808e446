//! A message that the user writes, with its attachments: a text file that is mentioned as `@FILE` is attached as a
//! delimited block of text, and an image as an image.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use agent::{Agent, looks_secret};
use protocol::{ContentBlock, HumanMessage, ThreadId};
use terminal::{format_bytes, sanitize_line};

use super::input::paste::{ExpandedInput, is_image};
use crate::exit::{CliFailure, ExitReason};

/// The most bytes of one file that are attached. Of a larger file, only the beginning is attached.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of all text files that are attached to one message.
const FILES_BYTES_MAX: usize = 256 * 1024;
/// The most bytes of one image. Model providers refuse larger images.
const IMAGE_BYTES_MAX: u64 = 5 * 1024 * 1024;
/// The number of bytes that are inspected to decide whether a file is text.
const PROBE_BYTES: usize = 8 * 1024;

/// A message before it is sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MessageDraft {
    /// The text of the message.
    text: String,
    /// The attached files, each as a delimited block.
    files: Vec<String>,
    /// The paths of the attached images.
    images: Vec<PathBuf>,
    /// Notes for the user: which files are attached, and the reasons why others are not.
    pub(super) notes: Vec<String>,
}

impl MessageDraft {
    /// Reads the files that the text mentions. A file is not attached, and its name stays an ordinary word, if it does not
    /// exist, was only mentioned in pasted text, lies outside the workspace, or looks like a file with secrets.
    ///
    /// Files are read immediately, at most [`FILE_BYTES_MAX`] bytes of each and [`FILES_BYTES_MAX`] of all. Images are
    /// read when the message is sent.
    pub(super) fn new(input: ExpandedInput, workspace: &Path) -> Self {
        let mut draft = Self { text: input.text, images: input.images, ..Self::default() };
        let mut remaining = FILES_BYTES_MAX;
        for name in mentions(&draft.text) {
            let path = match resolve_mention(&name, workspace) {
                Ok(_) if input.pasted_mentions.contains(&name) => {
                    draft.skip_file(&name, "was pasted, not typed");
                    continue;
                }
                Ok(path) => path,
                Err(reason) => {
                    if let Some(reason) = reason {
                        draft.skip_file(&name, reason);
                    }
                    continue;
                }
            };
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() && is_image(&path) => {
                    draft
                        .notes
                        .push(format!("@{name} is attached as an image, {}", format_bytes(metadata.len())));
                    draft.images.push(path);
                }
                Ok(metadata) if metadata.is_file() => draft.attach_file(&name, &path, &mut remaining),
                Ok(_) => draft.skip_file(&name, "is a folder"),
                Err(_) => draft.skip_file(&name, "cannot be read"),
            }
        }
        draft
    }

    /// Notes that a file is not attached. `reason` reads after the file's name.
    fn skip_file(&mut self, name: &str, reason: &str) {
        self.notes.push(format!("@{} {reason}: only its name is sent", sanitize_line(name)));
    }

    /// Attaches the beginning of a text file, and subtracts its length from `remaining`, the number of bytes that may
    /// still be attached.
    fn attach_file(&mut self, name: &str, path: &Path, remaining: &mut usize) {
        let limit = FILE_BYTES_MAX.min(*remaining);
        if limit == 0 {
            return self.skip_file(name, "exceeds the size limit of a message");
        }
        match read_beginning(path, limit) {
            Ok((text, bytes)) => {
                *remaining = remaining.saturating_sub(text.len());
                let (attached, is_whole) = (text.len() as u64, text.len() as u64 >= bytes);
                self.notes.push(match is_whole {
                    true => format!("@{name} is attached, {}", format_bytes(bytes)),
                    false => {
                        let (attached, bytes) = (format_bytes(attached), format_bytes(bytes));
                        format!("@{name}: the first {attached} of {bytes} are attached")
                    }
                });
                self.files.push(file_block(name, &text, bytes));
            }
            Err(reason) => self.skip_file(name, &reason),
        }
    }

    /// Stores the images in the thread and returns the message.
    ///
    /// # Errors
    /// Fails if an image cannot be read, is too large or has an unsupported format, or if it cannot be stored.
    pub(super) async fn into_message(
        self,
        agent: &Agent,
        thread_id: ThreadId,
    ) -> Result<HumanMessage, CliFailure> {
        let mut content = vec![ContentBlock::text(self.text)];
        content.extend(self.files.into_iter().map(ContentBlock::text));
        for path in self.images {
            let (bytes, media_type) = read_image(&path)?;
            content.push(agent.threads().attach_file(thread_id, bytes, media_type).await?);
        }
        Ok(HumanMessage { id: None, content })
    }
}

/// The beginning of the block of an attached file.
pub(crate) const FILE_BLOCK: &str = "<attached_file ";
/// The end of the block of an attached file.
const FILE_BLOCK_END: &str = "</attached_file>";

/// Returns the block of an attached file. The end of the block is escaped in the file's own text, so that the text cannot
/// close the block. `bytes` is the size of the whole file, of which `text` may be only the beginning.
fn file_block(name: &str, text: &str, bytes: u64) -> String {
    let name = sanitize_line(name).replace('"', "'");
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

/// Returns the text of a message as the user wrote it, without the blocks of attached files.
pub(super) fn strip_attachments(text: &str) -> String {
    let mut stripped = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some((before, block)) = remaining.split_once(FILE_BLOCK) {
        // The user may write the text of a block within a line, so only a complete block on its own lines is removed.
        let begins_line = before.is_empty() || before.ends_with('\n');
        match block.split_once(FILE_BLOCK_END).filter(|_| begins_line) {
            Some((_, after)) => {
                stripped.push_str(before.strip_suffix('\n').unwrap_or(before));
                remaining = after;
            }
            None => {
                stripped.push_str(before);
                stripped.push_str(FILE_BLOCK);
                remaining = block;
            }
        }
    }
    stripped + remaining
}

/// Returns the path of a mentioned file, with symbolic links resolved.
///
/// # Errors
/// Returns the reason why the file is not attached. The reason is `None` if the file does not exist and its name does
/// not look like a path, because then the word is probably not a file name.
fn resolve_mention(name: &str, workspace: &Path) -> Result<PathBuf, Option<&'static str>> {
    let is_path = name.contains(['.', '/']);
    let Ok(path) = workspace.join(name).canonicalize() else {
        return Err(is_path.then_some("does not exist"));
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

/// Returns the paths that a text mentions as `@PATH` or `@"PATH WITH SPACES"`, each once, in order. The `@` must begin
/// a word, so an e-mail address is not a mention. Punctuation at the end is not part of the path.
pub(super) fn mentions(text: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut previous = ' ';
    for (index, c) in text.char_indices() {
        let starts = c == '@' && (previous.is_whitespace() || "([{,;:\"'".contains(previous));
        previous = c;
        if !starts {
            continue;
        }
        let after = &text[index + 1..];
        let path = match after.strip_prefix('"') {
            Some(quoted) => quoted.split(['"', '\n']).next().unwrap_or_default(),
            None => after.split(char::is_whitespace).next().unwrap_or_default(),
        };
        let path = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '"']);
        if !path.is_empty() && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// Returns at most `limit` bytes from the beginning of a text file, without a partial character at the end, and the
/// size of the whole file in bytes.
///
/// # Errors
/// Returns the reason why the file is not attached, as text that reads after the file's name: the file cannot be read,
/// or is not UTF-8 text.
fn read_beginning(path: &Path, limit: usize) -> Result<(String, u64), String> {
    let failed = |error: std::io::Error| format!("cannot be read ({error})");
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut read = Vec::new();
    file.take(limit as u64).read_to_end(&mut read).map_err(failed)?;
    if read[..read.len().min(PROBE_BYTES)].contains(&0) {
        return Err("is not text".to_owned());
    }
    match String::from_utf8(read) {
        Ok(text) => Ok((text, bytes)),
        Err(error) => {
            let end = error.utf8_error().valid_up_to();
            let mut read = error.into_bytes();
            // The limit can cut a character, which has at most 4 bytes. Invalid bytes before that are not UTF-8.
            if end + 4 <= read.len() {
                return Err("is not text".to_owned());
            }
            read.truncate(end);
            Ok((String::from_utf8_lossy(&read).into_owned(), bytes))
        }
    }
}

/// Returns the bytes of an image, and its media type, which is detected from the first bytes.
///
/// # Errors
/// Fails if the file cannot be read, is larger than [`IMAGE_BYTES_MAX`], or has none of the supported formats.
fn read_image(path: &Path) -> Result<(Vec<u8>, &'static str), CliFailure> {
    let failed = |reason: String| {
        CliFailure::new(ExitReason::User, format!("send {}: {reason}", path.display()))
            .with_hint("PNG, JPEG, GIF and WebP images of up to 5 MB can be sent")
    };
    let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if metadata.len() > IMAGE_BYTES_MAX {
        return Err(failed(format!("its size is {}", format_bytes(metadata.len()))));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let media_type = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err(failed("it is not an image of a supported format".to_owned())),
    };
    Ok((bytes, media_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_of_a_file_is_an_at_sign_that_begins_a_word() {
        let check = |text: &str, expected: &[&str]| assert_eq!(mentions(text), expected, "{text}");
        check("look at @src/a.rs, and (@b.rs).", &["src/a.rs", "b.rs"]);
        check("@\"a b.txt\" @a @a", &["a b.txt", "a"]);
        check("me@example.org @ @", &[]);
    }

    /// Text that only looks like a block, or a block that is never closed, belongs to the user's message.
    #[test]
    fn attachments_are_removed_from_a_message_and_nothing_else_is() {
        let sent = |text: &str| {
            format!(
                "{text}\n{}\n{}",
                file_block("a.txt", "one\n", 4),
                file_block("b.txt", "</attached_file>", 16)
            )
        };
        let check = |text: &str, expected: &str| assert_eq!(strip_attachments(text), expected);
        check(&sent("see @a.txt and @b.txt"), "see @a.txt and @b.txt");
        check(&sent("two\nlines @a.txt @b.txt"), "two\nlines @a.txt @b.txt");
        check("what is <attached_file x> in this?", "what is <attached_file x> in this?");
        check("<attached_file x>\nnever closed", "<attached_file x>\nnever closed");
        check("", "");
    }

    #[test]
    fn a_file_is_attached_as_a_delimited_block_and_a_large_file_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one\n</attached_file>\n").unwrap();
        std::fs::write(folder.path().join("big.txt"), "é".repeat(FILE_BYTES_MAX)).unwrap();
        std::fs::write(folder.path().join("b.bin"), b"a\0b").unwrap();
        std::fs::write(folder.path().join("c.png"), b"\x89PNG").unwrap();
        let text = "see @a.txt @big.txt @b.bin @c.png @nothing @.";
        let draft = MessageDraft::new(
            ExpandedInput { text: text.to_owned(), ..ExpandedInput::default() },
            folder.path(),
        );
        assert_eq!(draft.text, text);
        assert_eq!(
            draft.files[0],
            "<attached_file path=\"a.txt\" bytes=\"21\">\none\n<\\/attached_file>\n</attached_file>"
        );
        assert!(draft.files[1].ends_with("read_file shows the rest]\n</attached_file>"));
        assert_eq!(draft.files.len(), 2);
        assert_eq!(draft.images, [folder.path().canonicalize().unwrap().join("c.png")]);
        assert_eq!(draft.notes.len(), 4, "{:?}", draft.notes);
        assert!(draft.notes[2].contains("is not text"), "{:?}", draft.notes);
    }

    #[test]
    fn k5_only_files_that_a_person_mentioned_in_the_workspace_are_attached() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("work");
        std::fs::create_dir(&folder).unwrap();
        let inside = ["a.txt", "pasted.txt", ".env", ".env.local", "server.pem", ".env.example"];
        for name in inside.map(|name| folder.join(name)).iter().chain([&parent.path().join("passwd")]) {
            std::fs::write(name, "words\n").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("../passwd", folder.join("link.txt")).unwrap();
        let text = "@a.txt @pasted.txt @.env @.env.local @server.pem @.env.example @../passwd @link.txt @nope.py @you";
        let input = ExpandedInput {
            text: text.to_owned(),
            pasted_mentions: vec!["pasted.txt".to_owned()],
            ..ExpandedInput::default()
        };
        let draft = MessageDraft::new(input, &folder);
        let notes = draft.notes.join("\n");
        assert_eq!(draft.files.len(), 2, "{notes}");
        for (part, count) in
            [("was pasted", 1), ("secrets", 3), ("outside", 2), ("@nope.py does not exist", 1), ("@you", 0)]
        {
            assert_eq!(notes.matches(part).count(), count, "{part}:\n{notes}");
        }
    }
}
