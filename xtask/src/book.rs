//! `cargo xtask book`: renders the book in `docs/` to `target/book` and checks its links.
//!
//! The tests of the crate `segue` run the commands in the book and compare the generated pages with the code.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, StartTag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use crate::command::CommandSpec;

/// Generated pages that repeat other pages or have no links. They are not checked.
const GENERATED_PAGES: [&str; 3] = ["print.html", "toc.html", "404.html"];

/// Documents outside the book with links to files of the repository.
const DOCUMENTS: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md", "SECURITY.md"];

/// Renders the book, checks all links and prints the number of pages and links.
///
/// # Errors
/// If the book cannot be rendered or links are broken. The error lists all broken links.
pub fn build_book(root: &Path) -> anyhow::Result<()> {
    let rendered = root.join("target/book");
    if rendered.exists() {
        fs::remove_dir_all(&rendered).with_context(|| format!("remove {}", rendered.display()))?;
    }
    let render = CommandSpec::from_line("mdbook build docs --dest-dir").arg(rendered.display().to_string());
    let status = render.status(root)?;
    if !status.success() {
        bail!("render the book: {status}");
    }
    let pages = read_pages(&rendered)?;
    let mut broken = broken_links(&rendered, &pages);
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).with_context(|| format!("read {document}"))?;
        broken.extend(missing_files(root, &text).map(|link| format!("{document}: {link}")));
    }
    if !broken.is_empty() {
        bail!("{} broken links:\n  {}", broken.len(), broken.join("\n  "));
    }
    println!(
        "book: {} pages, {} links",
        pages.len(),
        pages.values().map(|page| page.links.len()).sum::<usize>()
    );
    Ok(())
}

/// Returns the relative links of a Markdown document to files that do not exist.
fn missing_files<'t>(root: &Path, text: &'t str) -> impl Iterator<Item = &'t str> {
    let links = text.split("](").skip(1).filter_map(|target| target.split(')').next());
    let is_file = |link: &&str| root.join(link.split('#').next().unwrap_or_default()).is_file();
    links.filter(|link| !link.contains("://")).filter(move |link| !is_file(link))
}

/// The anchors and links of a page.
#[derive(Debug, Default)]
struct PageLinks {
    /// The values of all `id` attributes.
    ids: BTreeSet<String>,
    /// The values of all `href` and `src` attributes.
    links: Vec<String>,
}

/// Reads the rendered pages. Keys are file names in the book's folder.
fn read_pages(folder: &Path) -> anyhow::Result<BTreeMap<PathBuf, PageLinks>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "html") && !GENERATED_PAGES.contains(&&*name)
        {
            pages.insert(PathBuf::from(name), parse_page(&fs::read_to_string(&path)?));
        }
    }
    Ok(pages)
}

/// Returns the anchors and links of an HTML page. Elements that scripts add are not included.
fn parse_page(html: &str) -> PageLinks {
    let tokenizer = Tokenizer::new(LinkCollector::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    // The result is the end of the input or of a script, and scripts are not run.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

/// A token sink that collects the ids and links of start tags.
#[derive(Default)]
struct LinkCollector(RefCell<PageLinks>);

impl TokenSink for LinkCollector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        if let Token::TagToken(tag) = token
            && tag.kind == StartTag
        {
            let mut page = self.0.borrow_mut();
            for attribute in &tag.attrs {
                match &*attribute.name.local {
                    "id" => {
                        page.ids.insert(attribute.value.to_string());
                    }
                    "href" | "src" => page.links.push(attribute.value.to_string()),
                    _ => {}
                }
            }
        }
        TokenSinkResult::Continue
    }
}

/// Returns the broken links, each with the path of its Markdown page, sorted.
fn broken_links(folder: &Path, pages: &BTreeMap<PathBuf, PageLinks>) -> Vec<String> {
    let mut broken = BTreeSet::new();
    for (name, page) in pages {
        for link in page.links.iter().filter(|link| !is_valid_link(folder, pages, name, link)) {
            broken.insert(format!("{}: {link}", name.with_extension("md").display()));
        }
    }
    broken.into_iter().collect()
}

/// Returns whether the target of a link exists: the page or file, and the anchor. Links to other sites count as valid,
/// because this check works without a network.
fn is_valid_link(folder: &Path, pages: &BTreeMap<PathBuf, PageLinks>, name: &Path, link: &str) -> bool {
    let is_external =
        ["https://", "http://", "mailto:", "data:"].iter().any(|scheme| link.starts_with(scheme));
    if is_external {
        return true;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return fragment.is_empty() || pages.get(name).is_some_and(|page| page.ids.contains(fragment));
    }
    let target = name.parent().unwrap_or(Path::new("")).join(path);
    let Some(path) = normalize_path(&target) else { return false };
    match pages.get(&path) {
        Some(page) => fragment.is_empty() || page.ids.contains(fragment),
        None => fragment.is_empty() && folder.join(&path).is_file(),
    }
}

/// Returns the path with `.` and `..` resolved, or `None` if it leaves the book's folder.
fn normalize_path(path: &Path) -> Option<PathBuf> {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normalized.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normalized.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normalized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_valid_if_its_page_and_heading_exist() {
        let page = parse_page(
            r##"<h1 id="top">A</h1><a href="b.html#there">b</a><a href="#top">up</a><img src="https://x/y.png">"##,
        );
        let other = parse_page(r#"<h2 id="there">B</h2>"#);
        let pages = BTreeMap::from([("a.html".into(), page), ("b.html".into(), other)]);
        let check = |link: &str| {
            let name = Path::new("a.html");
            is_valid_link(Path::new("/nowhere"), &pages, name, link)
        };
        for link in ["b.html#there", "#top", "https://x/y.png", "./b.html", "x/../b.html", "#"] {
            assert!(check(link), "{link}");
        }
        for link in ["b.html#elsewhere", "#there", "c.html", "../b.html", "/b.html", "c.png", "b.md"] {
            assert!(!check(link), "{link}");
        }
        assert!(broken_links(Path::new("/nowhere"), &pages).is_empty());
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[a](Cargo.toml#top), [b](https://x/y), [c](away.md)";
        assert_eq!(missing_files(root, text).collect::<Vec<_>>(), ["away.md"]);
    }
}
