//! `segue keys`: the keys by which clients of the server show who they are. Only their hashes are kept.

use agent::UserTools;
use jiff::Timestamp;
use protocol::ApiKey;
use serde::Serialize;
use terminal::{Column, one_line, table};

use crate::cli::Format;
use crate::cli::serve::Keys;
use crate::commands::Context;
use crate::commands::threads::ago;
use crate::exit::{Code, Failure, Outcome};

/// A key, as `--json` has it: without its hash.
#[derive(Serialize)]
struct Printed<'a> {
    key_id: &'a str,
    user_id: &'a str,
    label: Option<&'a str>,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    /// The key itself: only when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> Printed<'a> {
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

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Keys) -> Outcome {
    match args {
        Keys::Create { user, label } => {
            let (row, key) = context.agent.admin().create_key(&user, label).await?;
            if context.format == Format::Json {
                context.json(&Printed::new(&row, Some(&key)))?;
            } else {
                context.screen.note(format!("Key {} of {user}. It is not shown again:", row.key_id));
                context.screen.line(&key)?;
                context.screen.note(match context.agent.admin().user_tools() {
                    UserTools::None => {
                        "Users have their own threads and memory, and no tools on this machine; `[serve] user_tools = \"all\"` in config.toml gives them yours."
                    }
                    UserTools::All => {
                        "Users have your tools, by `[serve] user_tools = \"all\"` in config.toml: what they run and read here, they run and read as you."
                    }
                });
            }
        }
        Keys::List => list(context).await?,
        Keys::Revoke { key } => {
            let row = find(context, &key).await?;
            context.agent.admin().revoke_key(&row.key_id).await?;
            match context.format {
                Format::Json => context.json(&Printed::new(&find(context, &row.key_id).await?, None))?,
                Format::Text => context
                    .screen
                    .line(format!("Key {} of {} lets nobody in any more.", row.key_id, row.user_id))?,
            }
        }
    }
    Ok(Code::Done)
}

/// Returns the key of that id, or the only one whose id begins so.
async fn find(context: &Context, given: &str) -> Result<ApiKey, Failure> {
    let mut found = context.agent.admin().keys().await?;
    found.retain(|key| key.key_id.starts_with(given));
    let exact = found.iter().position(|key| key.key_id == given);
    match (found.len(), exact) {
        (_, Some(at)) => Ok(found.swap_remove(at)),
        (1, None) => Ok(found.swap_remove(0)),
        (0, None) => Err(agent::Error::from(agent::AdminError::UnknownKey(given.to_owned())).into()),
        (many, None) => {
            Err(Failure::new(Code::User, format!("choose among {many} keys that begin with `{given}`"))
                .with_hint("give more of the id; `segue keys list` shows them"))
        }
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let keys = context.agent.admin().keys().await?;
    if context.format == Format::Json {
        return context.json(&keys.iter().map(|key| Printed::new(key, None)).collect::<Vec<_>>());
    }
    if keys.is_empty() {
        context.screen.line("There are no keys. `segue keys create USER` makes one.")?;
        return Ok(());
    }
    let now = Timestamp::now();
    let row = |key: &ApiKey| {
        let state = if key.revoked_at.is_some() { "revoked" } else { "valid" };
        let label = one_line(key.label.as_deref().unwrap_or_default());
        vec![key.key_id.clone(), key.user_id.to_string(), ago(now, key.created_at), state.to_owned(), label]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    let columns = [
        Column::Left("ID"),
        Column::Left("USER"),
        Column::Left("MADE"),
        Column::Left("STATE"),
        Column::Flexible("LABEL"),
    ];
    context.screen.lines(table(&context.screen, &columns, &rows))?;
    Ok(())
}
