//! What a person can look at in a chat: what was spent, models, tools, a tool call in full. Only the model is changed here.

use agent::{Agent, HistoryItem, HistoryQuery};
use protocol::message::joined_text;
use protocol::{Message, ToolMessage};
use serde_json::Value;
use terminal::calls::title;
use terminal::{Column, dollars, one_line, safe, table, tokens};

use crate::commands::chat::Chat;
use crate::exit::{Code, Failure};

/// Where most tools come from, which needs not be said.
const BUILT_IN: &str = "built in";
/// Entries that are read to find a tool call.
const ENTRIES_READ_MAX: usize = 200;

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

    pub(super) async fn cost(&self) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let report = self.context.agent.threads().cost_report(thread_id).await?;
        let price = |sum: Option<f64>| sum.map_or_else(|| "?".to_owned(), dollars);
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
        self.context.screen.lines(table(&self.context.screen, &columns, &rows))?;
        match report.dollars {
            Some(sum) => {
                self.say(&format!("{} in all, by the prices of {}", dollars(sum), report.prices_as_of))
            }
            None => self.say("A price is not known; set it under [prices] in config.toml."),
        }
    }

    /// Shows the tools and what becomes of their calls, and the skills.
    pub(super) async fn tools(&self) -> Result<(), Failure> {
        let tools = self.context.agent.admin().tools().await?;
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
        self.context.screen.lines(table(&self.context.screen, &columns, &rows))?;
        let found = self.context.agent.admin().skills().await?;
        let rows: Vec<Vec<String>> =
            found.skills.iter().map(|skill| vec![one_line(&skill.name), about(&skill.description)]).collect();
        if !rows.is_empty() {
            self.context.screen.line("")?;
            let columns = [Column::Left("SKILL"), Column::Flexible("WHAT IT IS FOR")];
            self.context.screen.lines(table(&self.context.screen, &columns, &rows))?;
        }
        for notice in &found.notices {
            self.context.notice(notice);
        }
        Ok(())
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
        let query = HistoryQuery { limit: ENTRIES_READ_MAX, ..HistoryQuery::default() };
        let messages: Vec<Message> = self
            .context
            .agent
            .threads()
            .history_page(thread_id, &query)
            .await?
            .entries
            .into_iter()
            .filter_map(|entry| match entry.what {
                HistoryItem::Message(message) => Some(message),
                HistoryItem::Boundary(_)
                | HistoryItem::Failed(_)
                | HistoryItem::Marker(_)
                | HistoryItem::Undone(_)
                | HistoryItem::Archived(_) => None,
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
        screen.lines(safe(&joined_text(&result.content)).lines())?;
        Ok(())
    }
}

/// Returns the first line of a description.
fn about(description: &str) -> String {
    one_line(description.lines().find(|line| !line.trim().is_empty()).unwrap_or_default())
}
