//! The chat's commands that show information: `/cost`, `/model`, `/tools` and `/show`. Only `/model` also changes
//! something: the selected model.

use agent::{Agent, HistoryItem, HistoryQuery};
use protocol::message::joined_text;
use protocol::{Message, ToolMessage};
use serde_json::Value;
use terminal::tool_calls::title;
use terminal::{TableColumn, format_dollars, format_tokens, sanitize, sanitize_line, table};

use crate::commands::chat::ChatSession;
use crate::exit::{CliFailure, ExitReason};

/// The source of most tools. `/tools` omits it to keep the table readable.
const BUILT_IN: &str = "built in";
/// The number of the newest history entries that `/show` reads to find a tool call.
const ENTRIES_READ_MAX: usize = 200;

/// Returns the names that completion offers for models: the model in use, and `provider/` for each configured provider, with
/// the reason why it can be used.
pub(super) fn model_candidates(agent: &Agent) -> Vec<(String, String)> {
    let status = agent.model_status();
    let default = status.default.map(|name| (name, "in use".to_owned()));
    let usable = status.providers.into_iter().filter(|provider| provider.configured);
    let providers = usable.map(|provider| (format!("{}/", provider.provider), provider.reason));
    default.into_iter().chain(providers).collect()
}

impl ChatSession {
    /// Performs `/model`: selects a model, or shows the current one if no name is given.
    ///
    /// # Errors
    /// Fails if the model cannot be used; the current model stays selected.
    pub(super) fn show_or_set_model(&mut self, name: Option<&str>) -> Result<(), CliFailure> {
        match name {
            Some(name) => self.use_model(name),
            None => self.show_model(),
        }
    }

    /// Performs `/cost`: shows calls, tokens and cost of the current thread, by model. Unknown prices are shown as `?`.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub(super) async fn show_cost(&self) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let report = self.context.agent.threads().cost_report(thread_id).await?;
        let format_price = |dollars: Option<f64>| dollars.map_or_else(|| "?".to_owned(), format_dollars);
        let rows: Vec<Vec<String>> = report
            .models
            .iter()
            .map(|model| {
                let usage = model.usage;
                vec![
                    sanitize_line(&model.model),
                    model.calls.to_string(),
                    format_tokens(usage.input_tokens),
                    format_tokens(usage.cache_read_tokens),
                    format_tokens(usage.output_tokens),
                    format_price(model.dollars),
                ]
            })
            .collect();
        if rows.is_empty() {
            return self.print_info("No model was called in this thread yet.");
        }
        let columns = [
            TableColumn::Flexible("MODEL"),
            TableColumn::Right("CALLS"),
            TableColumn::Right("IN"),
            TableColumn::Right("CACHED"),
            TableColumn::Right("OUT"),
            TableColumn::Right("COST"),
        ];
        self.context.screen.print_lines(table(&self.context.screen, &columns, &rows))?;
        match report.dollars {
            Some(total) => self.print_info(&format!(
                "{} in total, with prices of {}",
                format_dollars(total),
                report.prices_as_of
            )),
            None => self.print_info("The price of a model is unknown; set it under [prices] in config.toml."),
        }
    }

    /// Performs `/tools`: shows the tools with the rule for their calls, and the skills.
    /// Problems with skills, such as an unreadable file, are printed as warnings.
    ///
    /// # Errors
    /// Fails if the tools or the skills cannot be loaded.
    pub(super) async fn show_tools(&self) -> Result<(), CliFailure> {
        let tools = self.context.agent.admin().tools().await?;
        let rows: Vec<Vec<String>> = tools
            .iter()
            .map(|tool| {
                let source = if tool.source == BUILT_IN { "" } else { tool.source };
                vec![
                    sanitize_line(&tool.name),
                    tool.rule.to_owned(),
                    source.to_owned(),
                    first_line(&tool.description),
                ]
            })
            .collect();
        let columns = [
            TableColumn::Left("TOOL"),
            TableColumn::Left("CALLS"),
            TableColumn::Left("FROM"),
            TableColumn::Flexible("DESCRIPTION"),
        ];
        self.context.screen.print_lines(table(&self.context.screen, &columns, &rows))?;
        let skill_list = self.context.agent.admin().skills().await?;
        let skills = skill_list.skills.iter();
        let rows: Vec<Vec<String>> =
            skills.map(|skill| vec![sanitize_line(&skill.name), first_line(&skill.description)]).collect();
        if !rows.is_empty() {
            self.context.screen.print_line("")?;
            let columns = [TableColumn::Left("SKILL"), TableColumn::Flexible("DESCRIPTION")];
            self.context.screen.print_lines(table(&self.context.screen, &columns, &rows))?;
        }
        for notice in &skill_list.notices {
            self.context.print_notice(notice);
        }
        Ok(())
    }

    /// Performs `/show`: shows the `nth` last tool call with its arguments and its result, counted from 1.
    ///
    /// # Errors
    /// Fails if `nth` is not a positive number or the history cannot be read.
    pub(super) async fn show_nth_call(&self, nth: Option<&str>) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let nth = match nth.map(str::parse::<usize>) {
            None => 1,
            Some(Ok(nth)) if nth > 0 => nth,
            Some(_) => {
                return Err(CliFailure::new(ExitReason::User, "read the number of a tool call")
                    .with_hint("/show 1 shows the last call, /show 2 the call before it"));
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
            .filter_map(|entry| match entry.item {
                HistoryItem::Message(message) => Some(message),
                HistoryItem::Boundary(_)
                | HistoryItem::Failed(_)
                | HistoryItem::Marker(_)
                | HistoryItem::Undone(_)
                | HistoryItem::Archived(_)
                | HistoryItem::Audit(_)
                | HistoryItem::Damaged(_) => None,
            })
            .collect();
        let results = messages.iter().rev().filter_map(|message| match message {
            Message::Tool(result) => Some(result),
            Message::Human(_) | Message::Ai(_) => None,
        });
        match results.clone().nth(nth - 1) {
            Some(result) => self.show_call(&messages, result),
            None => self.print_info("There is no such tool call."),
        }
    }

    /// Prints a tool call: its title, its arguments as JSON, and its result. `messages` contains the answer that made
    /// the call, if it is among the entries that were read.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    fn show_call(&self, messages: &[Message], result: &ToolMessage) -> Result<(), CliFailure> {
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        let call = messages
            .iter()
            .flat_map(Message::tool_calls)
            .find(|(id, _, _)| *id == result.call_id)
            .map(|(_, name, args)| (name, args));
        let (name, args) = call.unwrap_or((result.name.as_deref().unwrap_or("tool"), &Value::Null));
        screen.print_line(style.bold(title(name, args)))?;
        let args = serde_json::to_string_pretty(args)?;
        for line in sanitize(&args).lines() {
            screen.print_line(style.code(line))?;
        }
        screen.print_line(style.dim("────"))?;
        screen.print_lines(sanitize(&joined_text(&result.content)).lines())?;
        Ok(())
    }
}

/// Returns the first line of a description that is not empty.
fn first_line(description: &str) -> String {
    sanitize_line(description.lines().find(|line| !line.trim().is_empty()).unwrap_or_default())
}
