//! What a person can look at in a chat: what fills the window, what was spent, models, tools, memory, a tool call in
//! full. Only the memory file and the model are changed here.

use agent::{Agent, ContextReport, EventQuery, HistoryItem};
use protocol::message::joined_text;
use protocol::{Category, Message, ToolMessage};
use serde_json::Value;

use crate::commands::chat::Chat;
use crate::exit::{Code, Failure};
use crate::terminal::ask::question::{Choice, ask};
use crate::terminal::editor;
use crate::terminal::screen::Audience;
use crate::terminal::show::calls::title;
use crate::terminal::show::markdown::Markdown;
use crate::terminal::text::amount::{self, tokens};
use crate::terminal::text::safe::{one_line, safe, shown_path};
use crate::terminal::text::table::{Column, table};

/// The columns of the bar that shows the window.
const BAR_COLUMNS: usize = 40;
/// Where most tools come from, which needs not be said.
const BUILT_IN: &str = "built in";
/// Events that are read to find a tool call.
const EVENTS_READ_MAX: usize = 200;

/// Returns the models that can be named, each with why it can be used.
pub(super) fn models(agent: &Agent) -> Vec<(String, String)> {
    let status = agent.models();
    let default = status.default.map(|name| (name, "in use".to_owned()));
    let usable = status.providers.into_iter().filter(|provider| provider.configured);
    let providers = usable.map(|provider| (format!("{}/", provider.provider), provider.reason));
    default.into_iter().chain(providers).collect()
}

impl Chat {
    pub(super) fn model(&mut self, name: Option<&str>) -> Result<(), Failure> {
        match name {
            Some(name) => self.use_model(name),
            None => self.note_model(),
        }
    }

    pub(super) async fn context_report(&self) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let report = self.context.agent.context(thread_id).await?;
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        let window = report.window_tokens.unwrap_or(report.tokens).max(1);
        screen.line(style.bold(one_line(&report.model)))?;
        let (used, of) = (tokens(report.tokens), tokens(window));
        screen.line(style.dim(format!("{used} of {of} tokens, by estimate")))?;
        screen.line(bar(&report, window, BAR_COLUMNS.min(screen.columns.saturating_sub(2))))?;
        let percent = |tokens: u64| format!("{} %", (tokens * 100).div_ceil(window));
        let mut rows: Vec<Vec<String>> = report
            .parts
            .iter()
            .map(|part| vec![one_line(&part.name), tokens(part.tokens), percent(part.tokens)])
            .collect();
        if let Some(window) = report.window_tokens {
            let free = window.saturating_sub(report.tokens);
            rows.push(vec!["free".to_owned(), tokens(free), percent(free)]);
        }
        let columns = [Column::Flexible("PART"), Column::Right("TOKENS"), Column::Right("SHARE")];
        for line in table(screen, &columns, &rows) {
            screen.line(line)?;
        }
        self.say(&format!("{} messages", report.message_count))
    }

    pub(super) async fn cost(&self) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let report = self.context.agent.cost(thread_id).await?;
        let price = |dollars: Option<f64>| dollars.map_or_else(|| "?".to_owned(), amount::dollars);
        let rows: Vec<Vec<String>> = report
            .models
            .iter()
            .map(|model| {
                let usage = model.usage;
                vec![
                    one_line(&model.model),
                    model.calls.to_string(),
                    tokens(usage.input_tokens),
                    tokens(usage.cache_read_tokens),
                    tokens(usage.output_tokens),
                    price(model.dollars),
                ]
            })
            .collect();
        if rows.is_empty() {
            return self.say("Nothing was spent in this thread yet.");
        }
        let columns = [
            Column::Flexible("MODEL"),
            Column::Right("CALLS"),
            Column::Right("IN"),
            Column::Right("CACHED"),
            Column::Right("OUT"),
            Column::Right("COST"),
        ];
        for line in table(&self.context.screen, &columns, &rows) {
            self.context.screen.line(line)?;
        }
        match report.dollars {
            Some(dollars) => self.say(&format!(
                "{} in all, by the prices of {}",
                amount::dollars(dollars),
                report.prices_as_of
            )),
            None => self.say("A price is not known; set it under [prices] in config.toml."),
        }
    }

    /// Shows the tools and what becomes of their calls, and the skills.
    pub(super) async fn tools(&self) -> Result<(), Failure> {
        let tools = self.context.agent.tools().await?;
        let rows: Vec<Vec<String>> = tools
            .iter()
            .map(|tool| {
                let source = if tool.source == BUILT_IN { "" } else { tool.source };
                vec![one_line(&tool.name), tool.rule.to_owned(), source.to_owned(), about(&tool.description)]
            })
            .collect();
        let columns = [
            Column::Left("TOOL"),
            Column::Left("CALLS"),
            Column::Left("FROM"),
            Column::Flexible("WHAT IT DOES"),
        ];
        for line in table(&self.context.screen, &columns, &rows) {
            self.context.screen.line(line)?;
        }
        let found = self.context.agent.skills().await?;
        let rows: Vec<Vec<String>> =
            found.skills.iter().map(|skill| vec![one_line(&skill.name), about(&skill.description)]).collect();
        if !rows.is_empty() {
            self.context.screen.line("")?;
            let columns = [Column::Left("SKILL"), Column::Flexible("WHAT IT IS FOR")];
            for line in table(&self.context.screen, &columns, &rows) {
                self.context.screen.line(line)?;
            }
        }
        for notice in &found.notices {
            self.context.notice(notice);
        }
        Ok(())
    }

    /// Shows agent.md, and opens it in the person's editor if they want that.
    pub(super) fn memory(&self) -> Result<(), Failure> {
        let agent = &self.context.agent;
        let path = agent.home().agent_md(agent.assistant_id());
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        screen.line(style.dim(shown_path(&path)))?;
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let mut markdown = Markdown::new(screen);
                screen.write(&(markdown.push(&text) + &markdown.finish()))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.say("There is nothing in it yet.")?;
            }
            Err(error) => {
                return Err(Failure::new(Code::Store, format!("read {}: {error}", path.display()))
                    .with_hint("check its permissions"));
            }
        }
        if screen.audience == Audience::Program {
            return Ok(());
        }
        let choices = [Choice { key: 'e', label: "Edit", answer: () }];
        match ask(screen, &choices, "Leave it")? {
            Some(()) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                editor::open(&path)?;
                self.say("It is read again with your next message.")
            }
            None => Ok(()),
        }
    }

    /// Shows the `nth` last tool call in full.
    pub(super) async fn show(&self, nth: Option<&str>) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let nth = match nth.map(str::parse::<usize>) {
            None => 1,
            Some(Ok(nth)) if nth > 0 => nth,
            Some(_) => {
                return Err(Failure::new(Code::User, "read the number of a tool call")
                    .with_hint("/show 1 is the last, /show 2 the one before it"));
            }
        };
        let query = EventQuery {
            categories: vec![Category::Message],
            limit: EVENTS_READ_MAX,
            ..EventQuery::default()
        };
        let messages: Vec<Message> = self
            .context
            .agent
            .history_page(thread_id, query)
            .await?
            .into_iter()
            .filter_map(|entry| match entry.what {
                HistoryItem::Message(message) => Some(message),
                HistoryItem::Boundary(_) => None,
            })
            .collect();
        let results = messages.iter().rev().filter_map(|message| match message {
            Message::Tool(result) => Some(result),
            Message::Human(_) | Message::Ai(_) => None,
        });
        match results.clone().nth(nth - 1) {
            Some(result) => self.show_call(&messages, result),
            None => self.say("There is no such tool call."),
        }
    }

    fn show_call(&self, messages: &[Message], result: &ToolMessage) -> Result<(), Failure> {
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        let call = messages
            .iter()
            .flat_map(Message::tool_calls)
            .find(|(id, _, _)| *id == result.call_id)
            .map(|(_, name, args)| (name, args));
        let (name, args) = call.unwrap_or((result.name.as_deref().unwrap_or("tool"), &Value::Null));
        screen.line(style.bold(title(name, args)))?;
        let args = serde_json::to_string_pretty(args)?;
        for line in safe(&args).lines() {
            screen.line(style.code(line))?;
        }
        screen.line(style.dim("────"))?;
        for line in safe(&joined_text(&result.content)).lines() {
            screen.line(line)?;
        }
        Ok(())
    }
}

/// Returns the first line of a description.
fn about(description: &str) -> String {
    one_line(description.lines().find(|line| !line.trim().is_empty()).unwrap_or_default())
}

/// Returns the shares of the window as a bar: each part with a picture of its own, the rest free.
fn bar(report: &ContextReport, window: u64, columns: usize) -> String {
    const PICTURES: [char; 4] = ['█', '▓', '▒', '▚'];
    let mut bar = String::new();
    let (mut tokens, mut drawn) = (0, 0);
    for (part, picture) in report.parts.iter().zip(PICTURES.iter().cycle()) {
        tokens += part.tokens;
        // Rounded up in sum, so that the bar is as long as all parts together.
        let end = usize::try_from((tokens * columns as u64).div_ceil(window)).unwrap_or(columns).min(columns);
        bar.extend(std::iter::repeat_n(*picture, end.saturating_sub(drawn)));
        drawn = drawn.max(end);
    }
    bar.extend(std::iter::repeat_n('░', columns - drawn));
    bar
}

#[cfg(test)]
mod tests {
    use agent::ContextPart;

    use super::*;

    #[test]
    fn the_bar_is_as_long_as_the_window_however_full_it_is() {
        let report = |sizes: &[u64]| ContextReport {
            model: String::new(),
            window_tokens: Some(100),
            parts: sizes.iter().map(|tokens| ContextPart { name: String::new(), tokens: *tokens }).collect(),
            tokens: sizes.iter().sum(),
            message_count: 0,
        };
        assert_eq!(bar(&report(&[10, 0, 30]), 100, 10), "█▒▒▒░░░░░░");
        assert_eq!(bar(&report(&[300]), 100, 10), "██████████");
        assert_eq!(bar(&report(&[]), 100, 10), "░░░░░░░░░░");
    }
}
