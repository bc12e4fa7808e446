//! What is pasted: a long text stands in the line as a few words and is sent whole; the path of an image stands for the
//! image. Reading and attaching it is done when the line is sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossterm::event::Event;
use parking_lot::Mutex;
use reedline::{EditCommand, EditMode, Emacs, PromptEditMode, ReedlineEvent, ReedlineRawEvent};
use terminal::{one_line, size};

use super::Shared;
use crate::commands::chat::message::mentions;

/// A pasted text of more lines stands as a few words.
const LINES_MAX: usize = 10;
/// And so does one of more characters.
const CHARS_MAX: usize = 1_000;
/// The longest path that is looked for.
const PATH_BYTES_MAX: usize = 4_096;
/// The endings of files that are sent as images.
const IMAGES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// What was written in a line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::commands::chat) struct Written {
    /// The text, with what was pasted in full.
    pub(in crate::commands::chat) text: String,
    pub(in crate::commands::chat) images: Vec<PathBuf>,
    /// What stands in it after `@` and was pasted: nobody asked for these files.
    pub(in crate::commands::chat) pasted: Vec<String>,
}

/// What was pasted in this chat, by the words that stand for it.
#[derive(Debug, Default)]
pub(super) struct Pastes {
    kept: Vec<(String, Kept)>,
    /// What stood after `@` in what was pasted.
    names: Vec<String>,
}

#[derive(Debug)]
enum Kept {
    Text(String),
    Image(PathBuf),
}

impl Pastes {
    /// Takes what is pasted and returns what goes into the line.
    fn take(&mut self, pasted: &str) -> String {
        let text = pasted.replace("\r\n", "\n").replace('\r', "\n");
        self.note(&text);
        if let Some((path, bytes)) = image(&text) {
            let name = path.file_name().map(|name| one_line(&name.to_string_lossy())).unwrap_or_default();
            return self.keep(format!("image {name} {}", size(bytes)), Kept::Image(path));
        }
        let lines = text.lines().count();
        match lines > LINES_MAX || text.chars().nth(CHARS_MAX).is_some() {
            true => {
                let words =
                    if lines == 1 { "pasted 1 line".to_owned() } else { format!("pasted {lines} lines") };
                self.keep(words, Kept::Text(text))
            }
            false => text,
        }
    }

    /// Takes down what stands after `@` in a pasted text.
    pub(super) fn note(&mut self, text: &str) {
        for name in mentions(text) {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }

    /// The same words twice would not tell which is meant.
    fn keep(&mut self, words: String, kept: Kept) -> String {
        let alike = self.kept.iter().filter(|(label, _)| label[1..].starts_with(&words)).count();
        let label = if alike == 0 { format!("[{words}]") } else { format!("[{words} #{}]", alike + 1) };
        self.kept.push((label.clone(), kept));
        label
    }

    /// Returns what the line says, with pasted texts in place of the words that stand for them.
    pub(super) fn written(&self, line: &str) -> Written {
        let mut written = Written { text: String::with_capacity(line.len()), ..Written::default() };
        let mut rest = line;
        while let Some(at) = rest.find('[') {
            let (before, from) = rest.split_at(at);
            written.text.push_str(before);
            let found = self.kept.iter().find(|(label, _)| from.starts_with(label.as_str()));
            rest = match found {
                Some((label, Kept::Text(text))) => {
                    written.text.push_str(text);
                    &from[label.len()..]
                }
                Some((label, Kept::Image(path))) => {
                    written.text.push_str(label);
                    written.images.push(path.clone());
                    &from[label.len()..]
                }
                None => {
                    written.text.push('[');
                    &from[1..]
                }
            };
        }
        written.text.push_str(rest);
        if !self.names.is_empty() {
            written.pasted = mentions(&written.text);
            written.pasted.retain(|name| self.names.contains(name));
        }
        written
    }
}

/// Returns whether the file is sent as an image, by its ending.
pub(in crate::commands::chat) fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| IMAGES.contains(&ending.as_str()))
}

/// Returns the image that a pasted path names, as terminals write it when a file is dropped on them.
fn image(text: &str) -> Option<(PathBuf, u64)> {
    let text = text.trim();
    if text.is_empty() || text.len() > PATH_BYTES_MAX || text.contains('\n') {
        return None;
    }
    let quoted = ['\'', '"'].iter().find_map(|mark| text.strip_prefix(*mark)?.strip_suffix(*mark));
    let plain = match (quoted, text.strip_prefix("file://")) {
        (Some(quoted), _) => quoted.to_owned(),
        (None, Some(address)) => percent_decoded(address),
        (None, None) => unescaped(text),
    };
    let path = PathBuf::from(plain);
    let found = std::fs::metadata(&path).ok().filter(|found| is_image(&path) && found.is_file())?;
    Some((path, found.len()))
}

/// Returns the text without the backslashes before blanks and marks.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *byte == b'%') {
            Some(code) => {
                out.push(code);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The keys of the editor, with pastes taken aside.
pub(super) struct Pasting {
    keys: Emacs,
    shared: Arc<Mutex<Shared>>,
}

impl Pasting {
    pub(super) fn new(keys: Emacs, shared: Arc<Mutex<Shared>>) -> Self {
        Self { keys, shared }
    }
}

impl EditMode for Pasting {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match Event::from(event) {
            Event::Paste(text) => {
                let text = self.shared.lock().pastes.take(&text);
                ReedlineEvent::Edit(vec![EditCommand::InsertString(text)])
            }
            event => match ReedlineRawEvent::try_from(event) {
                Ok(event) => self.keys.parse_event(event),
                Err(()) => ReedlineEvent::None,
            },
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.keys.edit_mode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_only_named_in_a_paste_is_marked() {
        let mut pastes = Pastes::default();
        let line = pastes.take("see @.env please");
        assert_eq!(pastes.written(&format!("{line} and @a.txt")).pasted, [".env"]);
        let long = pastes.take(&"look at @b.txt\n".repeat(120));
        assert_eq!(pastes.written(&long).pasted, ["b.txt"]);
    }

    #[test]
    fn a_long_paste_stands_as_a_few_words_and_is_sent_whole() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.take("short\r\ntext"), "short\ntext");
        let long = "line\n".repeat(120);
        assert_eq!(pastes.take(&long), "[pasted 120 lines]");
        assert_eq!(pastes.take(&"x".repeat(1_001)), "[pasted 1 line]");
        let other = "other\n".repeat(120);
        assert_eq!(pastes.take(&other), "[pasted 120 lines #2]");
        let line = "see [pasted 120 lines #2] and [pasted 120 lines] [not this] [";
        let expected = format!("see {other} and {long} [not this] [");
        assert_eq!(pastes.written(line), Written { text: expected, ..Written::default() });
    }

    #[test]
    fn the_path_of_an_image_stands_for_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.PNG");
        std::fs::write(&path, vec![0; 120_400]).unwrap();
        let shown = path.to_str().unwrap();
        let forms = [
            shown.to_owned(),
            format!("'{shown}'"),
            shown.replace(' ', "\\ "),
            format!("file://{}\n", shown.replace(' ', "%20")),
        ];
        for form in forms {
            let mut pastes = Pastes::default();
            let label = pastes.take(&form);
            assert_eq!(label, "[image a b.PNG 120 kB]", "{form}");
            let expected = Written { text: label.clone(), images: vec![path.clone()], ..Written::default() };
            assert_eq!(pastes.written(&label), expected);
        }
        assert_eq!(Pastes::default().take("/nowhere/a.png"), "/nowhere/a.png");
    }
}
