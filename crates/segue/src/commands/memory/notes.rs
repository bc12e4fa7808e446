//! `segue memory show`, `edit`, `search` and `path`, and `segue remember`: agent.md, which every conversation begins with.
//! Which part of it Segue itself keeps, and what never goes into it, is decided by the `memory` room.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use agent::{Extent, FoundKind, Remembered, Rewritten, SearchRequest};
use serde::Serialize;
use serde_json::json;
use tempfile::TempPath;
use terminal::{
    Audience, Choice, Markdown, Screen, ask, editor, found, one_line, shorten, shown_path, size, wrap,
};

use crate::cli::Format;
use crate::cli::memory::Remember;
use crate::commands::Context;
use crate::commands::history::search::{Asked, check, names, printed, quoted, ways};
use crate::commands::import::count as count_of;
use crate::commands::memory::tiers::{self, withheld};
use crate::exit::{Code, Failure, Outcome};

/// What is said of the part of agent.md that is not the person's.
const BLOCK: &str = "Segue keeps what is between <current_thread_summary> and </current_thread_summary>: a model is shown it in the first \
                     turn of the thread it was made for, and in no other.";

/// A line of agent.md that was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Line<'a> {
    line: usize,
    text: &'a str,
}

/// Performs `segue memory show`.
pub(crate) async fn show(context: &Context, limit: usize) -> Outcome {
    let summaries = context.agent.memory().recent_summaries(limit).await?;
    if context.format == Format::Json {
        let (path, text) = (context.agent.memory().agent_md_path(), read(context)?);
        let summaries = tiers::printed(&summaries);
        context.json(&json!({"path": path, "text": text, "summaries": summaries}))?;
        return Ok(Code::Done);
    }
    let (screen, style) = (&context.screen, context.screen.style);
    show_file(context)?;
    if limit > 0 {
        screen.line("")?;
        screen.line(style.bold("Summaries of old turns"))?;
        tiers::show_summaries(context, &summaries, Asked::Command).await?;
    }
    Ok(Code::Done)
}

/// Shows agent.md, and says which part of it Segue keeps.
///
/// # Errors
/// When the file cannot be read, or stdout cannot be written to.
pub(crate) fn show_file(context: &Context) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    screen.line(style.dim(shown_path(&context.agent.memory().agent_md_path())))?;
    let Some(text) = read(context)? else {
        return Ok(screen.line(style.dim("There is nothing in it yet."))?);
    };
    let mut markdown = Markdown::new(screen);
    screen.write(&(markdown.push(&text) + &markdown.finish()))?;
    if context.agent.memory().agent_md()?.block.is_some() {
        screen.line("")?;
        screen.line(style.dim(wrap(BLOCK, screen.text_columns(), "", "  ")))?;
    }
    Ok(())
}

/// Performs `segue memory path`.
pub(crate) fn path(context: &Context) -> Outcome {
    let path = context.agent.memory().agent_md_path();
    match context.format {
        Format::Json => context.json(&json!({"path": path}))?,
        Format::Text => context.screen.line(path.display())?,
    }
    Ok(Code::Done)
}

/// Performs `segue memory search`.
pub(crate) async fn search(context: &Context, words: &str, limit: usize) -> Outcome {
    check(words)?;
    let request = SearchRequest {
        kinds: vec![FoundKind::Summary, FoundKind::Item],
        assistant_id: Some(context.agent.assistant_id().clone()),
        limit,
        ..SearchRequest::of(words)
    };
    let found = context.agent.memory().search(&request).await?;
    let text = read(context)?.unwrap_or_default();
    let lines = holding(&text, &found.words, limit);
    if context.format == Format::Json {
        let mut report = serde_json::to_value(printed(&found))?;
        report["agent_md"] = json!(lines);
        context.json(&report)?;
        return Ok(Code::Done);
    }
    let screen = &context.screen;
    if lines.is_empty() && found.hits.is_empty() {
        let text =
            format!("Nothing was found about {}; `segue search` looks through what was said.", quoted(words));
        screen.line(wrap(&text, screen.text_columns(), "", "  "))?;
    }
    for line in &lines {
        let place = format!("agent.md:{}", line.line);
        let columns = screen.text_columns().saturating_sub(place.len() + 2);
        screen.line(format!("{}  {}", screen.style.code(&place), shorten(&one_line(line.text), columns)))?;
    }
    let names = names(context, &found.hits).await?;
    for (at, hit) in found.hits.iter().enumerate() {
        if at > 0 || !lines.is_empty() {
            screen.line("")?;
        }
        screen.lines(found::hit(screen, hit, &names))?;
    }
    if !found.hits.is_empty() {
        let ways = ways(&found.hits, &names, Asked::Command);
        screen.note(screen.style.dim(wrap(&ways, screen.text_columns(), "", "  ")));
    }
    Ok(Code::Done)
}

/// Returns the lines of agent.md with any of the words, those with the most of them first.
fn holding<'a>(text: &'a str, words: &[String], limit: usize) -> Vec<Line<'a>> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let held = |text: &str| {
        let text = text.to_lowercase();
        words.iter().filter(|word| text.contains(word.as_str())).count()
    };
    let lines =
        text.lines().enumerate().map(|(at, text)| (held(text), Line { line: at + 1, text: text.trim() }));
    let mut lines: Vec<(usize, Line<'_>)> = lines.filter(|(held, _)| *held > 0).collect();
    lines.sort_by_key(|(held, _)| std::cmp::Reverse(*held));
    lines.into_iter().take(limit).map(|(_, line)| line).collect()
}

/// Performs `segue remember`.
pub(crate) async fn remember(context: &Context, args: Remember) -> Outcome {
    let text = match args.text.as_slice() {
        [only] if only == "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            text
        }
        words => words.join(" "),
    };
    let kept = keep(context, &text).await?;
    match context.format {
        Format::Json => context.json(&json!({
            "path": kept.path, "line": kept.line, "was_known": kept.was_known, "withheld": kept.withheld,
            "bytes": kept.bytes, "bytes_max": kept.bytes_max,
        }))?,
        Format::Text => tell(&context.screen, &kept)?,
    }
    Ok(Code::Done)
}

/// Keeps a sentence in agent.md.
///
/// # Errors
/// When there are no words, or the file cannot be written.
pub(crate) async fn keep(context: &Context, text: &str) -> Result<Remembered, Failure> {
    match text.trim() {
        "" => Err(Failure::new(Code::User, "remember: no words were given")
            .with_hint("write what is to be remembered, in a sentence")),
        text => Ok(context.agent.memory().remember(text).await?),
    }
}

/// Says where a sentence went, and what of it was withheld.
pub(crate) fn tell(screen: &Screen, kept: &Remembered) -> Result<(), Failure> {
    let lead = if kept.was_known { "Already in" } else { "Kept in" };
    let (path, bytes, bytes_max) = (shown_path(&kept.path), size(kept.bytes), size(kept.bytes_max));
    let place = format!("{lead} {path} ({bytes} of {bytes_max}):");
    screen.line(screen.style.dim(wrap(&place, screen.text_columns(), "", "  ")))?;
    screen.line(wrap(&one_line(&kept.line), screen.text_columns(), "  ", "    "))?;
    if let Some(text) = withheld(kept.withheld) {
        screen.line(screen.style.warn(text))?;
    }
    Ok(())
}

/// Performs `segue memory edit`.
pub(crate) async fn edit(context: &Context) -> Outcome {
    let done = change(context).await?;
    match context.format {
        Format::Json => {
            context.json(
                &json!({"path": context.agent.memory().agent_md_path(), "changed": done == Change::Taken}),
            )?;
        }
        Format::Text => context.screen.line(told_change(done))?,
    }
    Ok(Code::Done)
}

/// What became of a person's edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// agent.md is what they made of it.
    Taken,
    /// They left it as it was.
    Nothing,
}

/// Returns what a person is told who edited agent.md.
pub(crate) const fn told_change(change: Change) -> &'static str {
    match change {
        Change::Taken => "Changed; it is read again with the next message.",
        Change::Nothing => "Nothing was changed.",
    }
}

/// Lets the person edit agent.md. What is refused is not lost: the person may go on with it, and otherwise it stays in a file
/// that is named.
///
/// # Errors
/// When no editor can be started, or what was edited is refused.
pub(crate) async fn change(context: &Context) -> Result<Change, Failure> {
    let agent = &context.agent;
    let shown = agent.memory().agent_md()?;
    if shown.extent == Extent::Beginning {
        let what = format!("edit {}: it is too large", shown_path(&agent.memory().agent_md_path()));
        return Err(Failure::new(Code::User, what)
            .with_hint("shorten the file itself, which `segue memory path` names"));
    }
    let path = editor::file(agent.home().root(), &shown.bytes)?;
    loop {
        match attempt(context, &shown.bytes, &path).await {
            Ok(Some(change)) => return Ok(change),
            Ok(None) => {}
            Err(failure) => return Err(kept(failure, path, &shown.bytes)),
        }
    }
}

/// Lets the person edit the file once, and takes over what they made of it; `None` when they go on with it.
async fn attempt(context: &Context, shown: &[u8], path: &Path) -> Result<Option<Change>, Failure> {
    let edited = editor::open(path)?;
    let refused = match context.agent.memory().edit_agent_md(shown.to_vec(), edited).await? {
        Rewritten::Done => return Ok(Some(Change::Taken)),
        Rewritten::Unchanged => return Ok(Some(Change::Nothing)),
        refused @ (Rewritten::InBlock | Rewritten::Outrun | Rewritten::Secrets { .. }) => refused,
    };
    // What others wrote meanwhile is not in this text, and going on with it would take it away.
    if refused == Rewritten::Outrun || !goes_on(context, &refused)? {
        return Err(Failure::new(Code::User, format!("change agent.md: {}", why(&refused))));
    }
    Ok(None)
}

/// Says why an edit was refused, and asks whether the person goes on with it.
fn goes_on(context: &Context, refused: &Rewritten) -> Result<bool, Failure> {
    if context.screen.audience == Audience::Program || context.format == Format::Json {
        return Ok(false);
    }
    context.notice(&format!("Not taken over: {}.", why(refused)));
    let choices = [Choice { key: 'e', label: "Edit again", answer: () }];
    Ok(ask(&context.screen, &choices, "Leave it")?.is_some())
}

/// Returns why an edit was not taken over.
fn why(refused: &Rewritten) -> String {
    match refused {
        Rewritten::InBlock => {
            "it changes the part between <current_thread_summary> and </current_thread_summary>, which Segue keeps".to_owned()
        }
        Rewritten::Outrun => "the file was changed by somebody else meanwhile".to_owned(),
        Rewritten::Secrets { count } => {
            format!("it holds {}, as it seems, and those never go into a memory", count_of(*count, "secret"))
        }
        Rewritten::Done | Rewritten::Unchanged => "nothing is wrong with it".to_owned(),
    }
}

/// Keeps what the person made of the text they were shown, and says where.
fn kept(failure: Failure, path: TempPath, shown: &[u8]) -> Failure {
    if fs::read(&path).is_ok_and(|text| text == shown) {
        return failure;
    }
    match path.keep() {
        Ok(path) => {
            failure.with_hint(format!("agent.md is as it was; your text is in {}", shown_path(&path)))
        }
        Err(_) => failure.with_hint("agent.md is as it was"),
    }
}

/// Returns what agent.md holds; `None` when that is nothing.
fn read(context: &Context) -> Result<Option<String>, Failure> {
    let shown = context.agent.memory().agent_md()?;
    let text = String::from_utf8_lossy(&shown.bytes).into_owned();
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_with_the_most_words_come_first() {
        let text = "# Notes\n- the kettle leaks\n- Kettle: descale weekly\n- tea\n";
        let found = |words: &[&str], limit| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            holding(text, &words, limit).iter().map(|line| line.line).collect::<Vec<_>>()
        };
        assert_eq!(found(&["kettle", "descale"], 10), [3, 2]);
        assert_eq!(found(&["kettle", "descale"], 1), [3]);
        assert_eq!(found(&["coffee"], 10), Vec::<usize>::new());
    }
}
