//! `segue keys`: manages the API keys with which clients of the server authenticate. Only the hashes of keys are
//! stored.

use agent::UserTools;
use jiff::Timestamp;
use protocol::ApiKey;
use serde::Serialize;
use terminal::{TableColumn, sanitize_line, table};

use crate::cli::OutputFormat;
use crate::cli::serve::ApiKeysCommand;
use crate::commands::CommandContext;
use crate::commands::threads::format_age;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// A key in the form of `--json`, without its hash.
#[derive(Serialize)]
struct ApiKeyReport<'a> {
    /// The public id of the key.
    key_id: &'a str,
    /// The user as which the key authenticates.
    user_id: &'a str,
    /// The label that was given when the key was created.
    label: Option<&'a str>,
    /// The time at which the key was created.
    created_at: Timestamp,
    /// The time at which the key was revoked; `null` if it is valid.
    revoked_at: Option<Timestamp>,
    /// The secret key. It is present only in the output of its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> ApiKeyReport<'a> {
    /// Returns the report of a stored key. `key` is the secret key if it was just created.
    fn new(row: &'a ApiKey, key: Option<&'a str>) -> Self {
        Self {
            key_id: &row.key_id,
            user_id: row.user_id.as_str(),
            label: row.label.as_deref(),
            created_at: row.created_at,
            revoked_at: row.revoked_at,
            key,
        }
    }
}

/// Performs `segue keys`.
///
/// # Errors
/// Fails if the key does not exist, an id prefix is ambiguous, the journal cannot be used, or stdout cannot be written.
pub(crate) async fn run(context: &CommandContext, args: ApiKeysCommand) -> CommandResult {
    match args {
        ApiKeysCommand::Create { user, label } => {
            let (row, key) = context.agent.admin().create_key(&user, label).await?;
            if context.format == OutputFormat::Json {
                context.print_json(&ApiKeyReport::new(&row, Some(&key)))?;
            } else {
                context
                    .screen
                    .print_to_stderr(format!("Key {} of {user}. It cannot be shown again:", row.key_id));
                context.screen.print_line(&key)?;
                context.screen.print_to_stderr(match context.agent.admin().user_tools() {
                    UserTools::None => {
                        "Users have their own threads and memory, and no access to the tools on this machine; `[serve] user_tools = \"all\"` in config.toml grants it."
                    }
                    UserTools::All => {
                        "Users have access to your tools, because `[serve] user_tools = \"all\"` in config.toml grants it: they run commands and read files on this machine as you."
                    }
                });
            }
        }
        ApiKeysCommand::List => list_keys(context).await?,
        ApiKeysCommand::Revoke { key } => {
            let row = find_key(context, &key).await?;
            context.agent.admin().revoke_key(&row.key_id).await?;
            match context.format {
                OutputFormat::Json => {
                    context.print_json(&ApiKeyReport::new(&find_key(context, &row.key_id).await?, None))?;
                }
                OutputFormat::Text => {
                    let text = format!("Key {} of {} is revoked.", row.key_id, row.user_id);
                    context.screen.print_line(text)?;
                }
            }
        }
    }
    Ok(ExitReason::Success)
}

/// Returns the key with the given id, or the only key whose id begins with it.
///
/// # Errors
/// Fails if no id begins with the text, or if several ids do and none is equal to it.
async fn find_key(context: &CommandContext, prefix: &str) -> Result<ApiKey, CliFailure> {
    let mut matches = context.agent.admin().keys().await?;
    matches.retain(|key| key.key_id.starts_with(prefix));
    let exact = matches.iter().position(|key| key.key_id == prefix);
    match (matches.len(), exact) {
        (_, Some(index)) => Ok(matches.swap_remove(index)),
        (1, None) => Ok(matches.swap_remove(0)),
        (0, None) => Err(agent::Error::from(agent::AdminError::UnknownKey(prefix.to_owned())).into()),
        (count, None) => Err(CliFailure::new(
            ExitReason::User,
            format!("choose among {count} keys that begin with `{prefix}`"),
        )
        .with_hint("give more of the id; `segue keys list` shows the ids")),
    }
}

/// Lists all keys.
async fn list_keys(context: &CommandContext) -> Result<(), CliFailure> {
    let keys = context.agent.admin().keys().await?;
    if context.format == OutputFormat::Json {
        return context.print_json(&keys.iter().map(|key| ApiKeyReport::new(key, None)).collect::<Vec<_>>());
    }
    if keys.is_empty() {
        context.screen.print_line("There are no keys. `segue keys create USER` creates one.")?;
        return Ok(());
    }
    let now = Timestamp::now();
    let row = |key: &ApiKey| {
        let state = if key.revoked_at.is_some() { "revoked" } else { "valid" };
        let label = sanitize_line(key.label.as_deref().unwrap_or_default());
        vec![
            key.key_id.clone(),
            key.user_id.to_string(),
            format_age(now, key.created_at),
            state.to_owned(),
            label,
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    let columns = [
        TableColumn::Left("ID"),
        TableColumn::Left("USER"),
        TableColumn::Left("CREATED"),
        TableColumn::Left("STATE"),
        TableColumn::Flexible("LABEL"),
    ];
    context.screen.print_lines(table(&context.screen, &columns, &rows))?;
    Ok(())
}
