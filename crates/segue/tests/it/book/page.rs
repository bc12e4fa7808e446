//! A page of the book as text: its fenced blocks, what each is, and the keys that are typed into it. Nothing is run here.

use std::fs;
use std::path::PathBuf;

/// The fences that open and close a block.
const FENCES: [&str; 2] = ["```", "~~~"];

/// A page.
pub struct BookPageText {
    /// The file, in the folder of the pages.
    pub name: String,
    pub blocks: Vec<BookBlock>,
    /// Lines with a fence that is none: one in a quotation, or after other text.
    pub stray_lines: Vec<usize>,
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct BookBlock {
    /// The line of its fence, from 1.
    pub line: usize,
    /// The kind of block; `None` where the book has no such kind.
    pub kind: Option<BookBlockKind>,
    pub text: String,
}

/// The kind of a block, which decides how it is tested.
#[derive(Debug, PartialEq, Eq)]
pub enum BookBlockKind {
    /// Commands, which are run.
    Commands,
    /// Commands that are run in a terminal, and what is typed there.
    Typed(Vec<TypedKey>),
    /// Output of a command.
    Printed,
    /// A `config.toml`.
    Config,
    Json,
    /// Something in another language, which is only read.
    Foreign,
}

/// A key or a line that is typed.
#[derive(Debug, PartialEq, Eq)]
pub struct TypedKey {
    /// The texts that must be on the screen first, one below the other.
    pub awaited_texts: Vec<String>,
    /// The bytes that a terminal sends for it.
    pub bytes: String,
}

impl BookPageText {
    /// Reads all pages, in the order of their names. The summary is none: mdBook has it for the list of them.
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

    /// Names a line of the page in a message.
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
    /// Reads `KEY`, or `TEXT:KEY` for one that waits for a text.
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

    /// Returns whether what it waits for is on the screen.
    pub fn is_awaited(&self, screen: &str) -> bool {
        let below = self
            .awaited_texts
            .iter()
            .try_fold(screen, |above, text| Some(above.split_once(text.as_str())?.1));
        below.is_some()
    }
}

/// A line that begins or ends a block.
struct FenceLine<'a> {
    /// The spaces before it, which the lines of the block have too.
    indent: usize,
    mark: char,
    length: usize,
    /// The info string of the block, with the fence where it is not the usual one.
    info: &'a str,
}

impl<'a> FenceLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let inner = line.trim_start();
        let mark = inner.chars().next().filter(|_| FENCES.iter().any(|fence| inner.starts_with(*fence)))?;
        let length = inner.chars().take_while(|&one| one == mark).count();
        let info = inner.trim_start_matches('`').trim();
        Some(Self { indent: line.len() - inner.len(), mark, length, info })
    }

    fn closes(&self, opening: &Self) -> bool {
        self.mark == opening.mark
            && self.length >= opening.length
            && self.info.chars().all(|one| one == self.mark)
    }

    fn strip_indent<'b>(&self, line: &'b str) -> &'b str {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces.min(self.indent)..]
    }
}

/// Reads the list of the pages.
pub fn read_summary() -> String {
    fs::read_to_string(pages_folder().join("SUMMARY.md")).unwrap()
}

fn pages_folder() -> PathBuf {
    repository_root().join("docs/src")
}

/// The folder of the checkout.
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
fn blocks_are_found_with_what_they_are() {
    check("no block\n", []);
    check("a\n\n```sh\nsegue\n```\nb\n", [(3, Some(BookBlockKind::Commands), "segue\n")]);
    check("- a\n\n  ```text\n  one\n    two\n  ```\n", [(3, Some(BookBlockKind::Printed), "one\n  two\n")]);
    let nested = "````toml\n```sh\n````\n```json\n```\n";
    check(nested, [(1, Some(BookBlockKind::Config), "```sh\n"), (4, Some(BookBlockKind::Json), "")]);
    check("```rust,ignore\n```\n", [(1, Some(BookBlockKind::Foreign), "")]);
}

#[test]
fn a_block_of_no_known_language_is_none_the_book_has() {
    for fence in ["```", "```bash", "```shell", "```console", "```sh,ignore", "```sh,typed=", "~~~sh", "~~~"]
    {
        check(&format!("{fence}\nsegue\n{}\n", &fence[..3]), [(1, None, "segue\n")]);
    }
    assert_eq!(BookPageText::parse("a.md", "a\n> ```sh\n> segue\n> ```\n").stray_lines, [2, 4]);
}

#[test]
fn keys_wait_for_what_is_before_the_colon() {
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
