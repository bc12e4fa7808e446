//! Parser for a page of the book: its fenced blocks, the kind of each block, and the keys to type into it.
//! This module runs no commands.

use std::fs;
use std::path::PathBuf;

/// The fences that open and close a block.
const FENCES: [&str; 2] = ["```", "~~~"];

/// A page of the book.
pub struct BookPageText {
    /// File name, relative to the folder of the pages.
    pub name: String,
    pub blocks: Vec<BookBlock>,
    /// Numbers of the lines with a fence that does not open a block, such as a fence in a quotation or
    /// after other text.
    pub stray_lines: Vec<usize>,
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct BookBlock {
    /// Line number of the opening fence, from 1.
    pub line: usize,
    /// Kind of the block; `None` if its info string is not one that the book uses.
    pub kind: Option<BookBlockKind>,
    pub text: String,
}

/// The kind of a block, which decides how it is tested.
#[derive(Debug, PartialEq, Eq)]
pub enum BookBlockKind {
    /// Shell commands, which are run.
    Commands,
    /// Shell commands that are run in a terminal, with the keys to type.
    Typed(Vec<TypedKey>),
    /// Output of a command.
    Printed,
    /// A complete `config.toml`.
    Config,
    Json,
    /// Text in another language. It is parsed at most, never run.
    Foreign,
}

/// A key or a line to type.
#[derive(Debug, PartialEq, Eq)]
pub struct TypedKey {
    /// Texts that must be on the screen before the key is typed, each below the previous one.
    pub awaited_texts: Vec<String>,
    /// Bytes that a terminal sends for the key.
    pub bytes: String,
}

impl BookPageText {
    /// Reads all pages, sorted by file name. Skips the summary, which is mdBook's table of contents.
    pub fn load_all() -> Vec<Self> {
        let files = fs::read_dir(pages_folder())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> =
            files.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
        names.sort();
        names.iter().map(|name| Self::load(name)).collect()
    }

    pub fn load(name: &str) -> Self {
        let text =
            fs::read_to_string(pages_folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Self {
        let mut page = Self { name: name.to_owned(), blocks: Vec::new(), stray_lines: Vec::new() };
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let Some(opening) = FenceLine::parse(line) else {
                if FENCES.iter().any(|fence| line.contains(*fence)) {
                    page.stray_lines.push(number);
                }
                continue;
            };
            let mut inside = String::new();
            loop {
                let Some((line, _)) = lines.next() else {
                    panic!("{name}:{number}: this fence is not closed")
                };
                if FenceLine::parse(line).is_some_and(|fence| fence.closes(&opening)) {
                    break;
                }
                inside.push_str(opening.strip_indent(line));
                inside.push('\n');
            }
            page.blocks.push(BookBlock {
                line: number,
                kind: BookBlockKind::parse(opening.info),
                text: inside,
            });
        }
        page
    }

    /// Returns the blocks that are run.
    pub fn commands(&self) -> impl Iterator<Item = &BookBlock> {
        self.blocks
            .iter()
            .filter(|block| matches!(block.kind, Some(BookBlockKind::Commands | BookBlockKind::Typed(_))))
    }

    /// Formats the location `FILE:LINE` for a message.
    pub fn location_of(&self, line: impl std::fmt::Display) -> String {
        format!("docs/src/{}:{line}", self.name)
    }
}

impl BookBlockKind {
    fn parse(info: &str) -> Option<Self> {
        if let Some(keys) = info.strip_prefix("sh,typed=") {
            return keys.split('+').map(TypedKey::parse).collect::<Option<_>>().map(Self::Typed);
        }
        match info {
            "sh" => Some(Self::Commands),
            "text" => Some(Self::Printed),
            "toml" => Some(Self::Config),
            "json" => Some(Self::Json),
            "rust" | "rust,ignore" | "http" | "python" | "sql" | "js" => Some(Self::Foreign),
            _ => None,
        }
    }
}

impl TypedKey {
    /// Parses `KEY`, or `TEXT:KEY` for a key that waits for a text on the screen.
    fn parse(item: &str) -> Option<Self> {
        let (after, key) = item.split_once(':').unwrap_or(("", item));
        let spaced = |text: &str| text.replace('_', " ");
        let bytes = match key {
            "" => return None,
            "enter" => "\r".to_owned(),
            "esc" => "\x1b".to_owned(),
            "tab" => "\t".to_owned(),
            "up" => "\x1b[A".to_owned(),
            "down" => "\x1b[B".to_owned(),
            "ctrl-c" => "\x03".to_owned(),
            "ctrl-d" => "\x04".to_owned(),
            text => spaced(text),
        };
        Some(Self {
            awaited_texts: after.split('…').filter(|text| !text.is_empty()).map(spaced).collect(),
            bytes,
        })
    }

    /// Returns whether all texts that the key waits for are on the screen.
    pub fn is_awaited(&self, screen: &str) -> bool {
        let below = self
            .awaited_texts
            .iter()
            .try_fold(screen, |above, text| Some(above.split_once(text.as_str())?.1));
        below.is_some()
    }
}

/// A line that opens or closes a block.
struct FenceLine<'a> {
    /// Leading spaces, which the lines of the block have as well.
    indent: usize,
    mark: char,
    length: usize,
    /// Info string of the block, preceded by the fence if that is not the usual one.
    info: &'a str,
}

impl<'a> FenceLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let inner = line.trim_start();
        let mark = inner.chars().next().filter(|_| FENCES.iter().any(|fence| inner.starts_with(*fence)))?;
        let length = inner.chars().take_while(|&character| character == mark).count();
        let info = inner.trim_start_matches('`').trim();
        Some(Self { indent: line.len() - inner.len(), mark, length, info })
    }

    fn closes(&self, opening: &Self) -> bool {
        self.mark == opening.mark
            && self.length >= opening.length
            && self.info.chars().all(|character| character == self.mark)
    }

    fn strip_indent<'b>(&self, line: &'b str) -> &'b str {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces.min(self.indent)..]
    }
}

/// Reads the summary (table of contents) of the book.
pub fn read_summary() -> String {
    fs::read_to_string(pages_folder().join("SUMMARY.md")).unwrap()
}

fn pages_folder() -> PathBuf {
    repository_root().join("docs/src")
}

/// Returns the root folder of the repository.
pub fn repository_root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn check<const COUNT: usize>(text: &str, expected: [(usize, Option<BookBlockKind>, &str); COUNT]) {
    let expected = expected.map(|(line, kind, text)| BookBlock { line, kind, text: text.to_owned() });
    assert_eq!(BookPageText::parse("a.md", text).blocks, expected, "{text}");
}

fn key(after: &[&str], bytes: &str) -> TypedKey {
    TypedKey { awaited_texts: after.iter().map(|&text| text.to_owned()).collect(), bytes: bytes.to_owned() }
}

#[test]
fn blocks_are_parsed_with_their_kind() {
    check("no block\n", []);
    check("a\n\n```sh\nsegue\n```\nb\n", [(3, Some(BookBlockKind::Commands), "segue\n")]);
    check("- a\n\n  ```text\n  one\n    two\n  ```\n", [(3, Some(BookBlockKind::Printed), "one\n  two\n")]);
    let nested = "````toml\n```sh\n````\n```json\n```\n";
    check(nested, [(1, Some(BookBlockKind::Config), "```sh\n"), (4, Some(BookBlockKind::Json), "")]);
    check("```rust,ignore\n```\n", [(1, Some(BookBlockKind::Foreign), "")]);
}

#[test]
fn a_block_in_an_unknown_language_has_no_kind() {
    for fence in ["```", "```bash", "```shell", "```console", "```sh,ignore", "```sh,typed=", "~~~sh", "~~~"]
    {
        check(&format!("{fence}\nsegue\n{}\n", &fence[..3]), [(1, None, "segue\n")]);
    }
    assert_eq!(BookPageText::parse("a.md", "a\n> ```sh\n> segue\n> ```\n").stray_lines, [2, 4]);
}

#[test]
fn a_key_waits_for_the_text_before_its_colon() {
    let typed = |keys: Vec<TypedKey>| Some(BookBlockKind::Typed(keys));
    check("```sh,typed=a+enter\n```\n", [(1, typed(vec![key(&[], "a"), key(&[], "\r")]), "")]);
    let keys = vec![key(&["segue>"], "Go on."), key(&["on.", "Done.", "segue>"], "\x04")];
    check("```sh,typed=segue>:Go_on.+on.…Done.…segue>:ctrl-d\n```\n", [(1, typed(keys), "")]);
    let last = key(&["Done.", "segue>"], "\r");
    assert!(last.is_awaited("segue> Go on.\nDone.\nsegue>"));
    assert!(!last.is_awaited("segue> Go on.\nDone.\n"));
    assert!(!last.is_awaited("segue>"));
    assert!(key(&[], "\r").is_awaited(""));
}
