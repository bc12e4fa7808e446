//! Pasted text: a long text is represented in the line by a short label and sent in full; the path of an image becomes
//! an attachment. Images are read when the line is sent, not when they are pasted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossterm::event::Event;
use parking_lot::Mutex;
use reedline::{EditCommand, EditMode, Emacs, PromptEditMode, ReedlineEvent, ReedlineRawEvent};
use terminal::{format_bytes, sanitize_line};

use super::EditorState;
use crate::commands::chat::message_draft::mentions;

/// The most lines of a pasted text that is inserted unchanged. A longer text is represented by a label.
const LINES_MAX: usize = 10;
/// The most characters of a pasted text that is inserted unchanged. A longer text is represented by a label.
const CHARS_MAX: usize = 1_000;
/// The longest pasted text, in bytes, that is checked for being a path.
const PATH_BYTES_MAX: usize = 4_096;
/// The extensions of files that are sent as images.
const IMAGE_EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// A line of the chat with its pasted text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::commands::chat) struct ExpandedInput {
    /// The text, in which labels are replaced by the pasted texts.
    pub(in crate::commands::chat) text: String,
    /// The paths of the images whose labels are in the text.
    pub(in crate::commands::chat) images: Vec<PathBuf>,
    /// The mentions (`@FILE`) that come from pasted text. The user did not type these names, so the files are not
    /// attached: pasted text must not be able to send files to a model.
    pub(in crate::commands::chat) pasted_mentions: Vec<String>,
}

/// The texts and images that were pasted in this chat.
#[derive(Debug, Default)]
pub(super) struct PasteBuffer {
    /// Labels with the content that they represent.
    entries: Vec<(String, PasteContent)>,
    /// The names of all mentions in pasted texts.
    mentioned_names: Vec<String>,
}

/// The content that a label represents.
#[derive(Debug)]
enum PasteContent {
    /// A text that replaces its label when the line is sent.
    Text(String),
    /// An image that is attached when the line is sent.
    Image(PathBuf),
}

impl PasteBuffer {
    /// Stores a pasted text and returns the text to insert into the line: the text itself, or its label.
    fn insert_paste(&mut self, pasted: &str) -> String {
        let text = pasted.replace("\r\n", "\n").replace('\r', "\n");
        self.record_mentions(&text);
        if let Some((path, bytes)) = pasted_image(&text) {
            let name =
                path.file_name().map(|name| sanitize_line(&name.to_string_lossy())).unwrap_or_default();
            return self
                .add_entry(format!("image {name} {}", format_bytes(bytes)), PasteContent::Image(path));
        }
        let lines = text.lines().count();
        match lines > LINES_MAX || text.chars().nth(CHARS_MAX).is_some() {
            true => {
                let description =
                    if lines == 1 { "pasted 1 line".to_owned() } else { format!("pasted {lines} lines") };
                self.add_entry(description, PasteContent::Text(text))
            }
            false => text,
        }
    }

    /// Records the mentions of a pasted text.
    pub(super) fn record_mentions(&mut self, text: &str) {
        for name in mentions(text) {
            if !self.mentioned_names.contains(&name) {
                self.mentioned_names.push(name);
            }
        }
    }

    /// Adds an entry and returns its label. Entries with the same description are numbered, so that each label is unique.
    fn add_entry(&mut self, description: String, content: PasteContent) -> String {
        let same = self.entries.iter().filter(|(label, _)| label[1..].starts_with(&description)).count();
        let label =
            if same == 0 { format!("[{description}]") } else { format!("[{description} #{}]", same + 1) };
        self.entries.push((label.clone(), content));
        label
    }

    /// Returns a line with its labels resolved: pasted texts replace their labels; labels of images stay, and the images are
    /// listed.
    pub(super) fn expand(&self, line: &str) -> ExpandedInput {
        let mut input = ExpandedInput { text: String::with_capacity(line.len()), ..ExpandedInput::default() };
        let mut remaining = line;
        while let Some(index) = remaining.find('[') {
            let (before, from) = remaining.split_at(index);
            input.text.push_str(before);
            let entry = self.entries.iter().find(|(label, _)| from.starts_with(label.as_str()));
            remaining = match entry {
                Some((label, PasteContent::Text(text))) => {
                    input.text.push_str(text);
                    &from[label.len()..]
                }
                Some((label, PasteContent::Image(path))) => {
                    input.text.push_str(label);
                    input.images.push(path.clone());
                    &from[label.len()..]
                }
                None => {
                    input.text.push('[');
                    &from[1..]
                }
            };
        }
        input.text.push_str(remaining);
        if !self.mentioned_names.is_empty() {
            input.pasted_mentions = mentions(&input.text);
            input.pasted_mentions.retain(|name| self.mentioned_names.contains(name));
        }
        input
    }
}

/// Returns whether a file is sent as an image, according to its extension.
pub(in crate::commands::chat) fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    extension.is_some_and(|extension| IMAGE_EXTENSIONS.contains(&extension.as_str()))
}

/// Returns the path and the size in bytes of an image if the pasted text is its path. Terminals paste the path of a
/// file that is dropped on them in quotes, with backslashes, or as a `file://` URL. Otherwise returns `None`.
fn pasted_image(text: &str) -> Option<(PathBuf, u64)> {
    let text = text.trim();
    if text.is_empty() || text.len() > PATH_BYTES_MAX || text.contains('\n') {
        return None;
    }
    let quoted = ['\'', '"'].iter().find_map(|mark| text.strip_prefix(*mark)?.strip_suffix(*mark));
    let plain = match (quoted, text.strip_prefix("file://")) {
        (Some(quoted), _) => quoted.to_owned(),
        (None, Some(url_path)) => percent_decode(url_path),
        (None, None) => unescape(text),
    };
    let path = PathBuf::from(plain);
    let metadata = std::fs::metadata(&path).ok().filter(|metadata| is_image(&path) && metadata.is_file())?;
    Some((path, metadata.len()))
}

/// Removes the backslashes that escape characters of a shell word.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}

/// Decodes the percent-encoded bytes of a URL. An invalid sequence is left unchanged.
fn percent_decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut remaining = text.as_bytes();
    while let [byte, after @ ..] = remaining {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *byte == b'%') {
            Some(code) => {
                out.push(code);
                remaining = &after[2..];
            }
            None => {
                out.push(*byte);
                remaining = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The edit mode of the editor: Emacs keys, with pasted text handled by the [`PasteBuffer`].
pub(super) struct PasteEditMode {
    /// The key bindings.
    keys: Emacs,
    /// The buffer of pasted texts.
    shared: Arc<Mutex<EditorState>>,
}

impl PasteEditMode {
    /// Returns an edit mode with these key bindings.
    pub(super) fn new(keys: Emacs, shared: Arc<Mutex<EditorState>>) -> Self {
        Self { keys, shared }
    }
}

impl EditMode for PasteEditMode {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match Event::from(event) {
            Event::Paste(text) => {
                let text = self.shared.lock().pastes.insert_paste(&text);
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
    fn a_mention_in_pasted_text_is_marked_as_pasted() {
        let mut pastes = PasteBuffer::default();
        let line = pastes.insert_paste("see @.env please");
        assert_eq!(pastes.expand(&format!("{line} and @a.txt")).pasted_mentions, [".env"]);
        let long = pastes.insert_paste(&"look at @b.txt\n".repeat(120));
        assert_eq!(pastes.expand(&long).pasted_mentions, ["b.txt"]);
    }

    #[test]
    fn a_long_paste_has_a_label_in_the_line_and_is_sent_in_full() {
        let mut pastes = PasteBuffer::default();
        assert_eq!(pastes.insert_paste("short\r\ntext"), "short\ntext");
        let long = "line\n".repeat(120);
        assert_eq!(pastes.insert_paste(&long), "[pasted 120 lines]");
        assert_eq!(pastes.insert_paste(&"x".repeat(1_001)), "[pasted 1 line]");
        let other = "other\n".repeat(120);
        assert_eq!(pastes.insert_paste(&other), "[pasted 120 lines #2]");
        let line = "see [pasted 120 lines #2] and [pasted 120 lines] [not this] [";
        let expected = format!("see {other} and {long} [not this] [");
        assert_eq!(pastes.expand(line), ExpandedInput { text: expected, ..ExpandedInput::default() });
    }

    #[test]
    fn the_pasted_path_of_an_image_becomes_an_attachment() {
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
            let mut pastes = PasteBuffer::default();
            let label = pastes.insert_paste(&form);
            assert_eq!(label, "[image a b.PNG 120 kB]", "{form}");
            let expected =
                ExpandedInput { text: label.clone(), images: vec![path.clone()], ..ExpandedInput::default() };
            assert_eq!(pastes.expand(&label), expected);
        }
        assert_eq!(PasteBuffer::default().insert_paste("/nowhere/a.png"), "/nowhere/a.png");
    }
}
