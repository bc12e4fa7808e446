//! `segue memory`: the memory that outlives a context. `agent_md` shows and edits agent.md, `tiers` shows the tiers,
//! `summarize` summarizes old messages, `embed` embeds messages for searches by meaning, `facts` reviews proposed facts,
//! `history` shows and restores states of agent.md, `pins` performs `segue pin` and `segue unpin`, and `store` performs
//! `segue store`.

pub(crate) mod agent_md;
mod embed;
pub(crate) mod facts;
pub(crate) mod history;
pub(crate) mod pins;
pub(crate) mod store;
pub(crate) mod summarize;
pub(crate) mod tiers;

use agent::ProjectScope;

use crate::cli::memory::{MemoryCommand, ProjectArgs};
use crate::commands::CommandContext;
use crate::exit::CommandResult;

/// Returns the projects that a command covers.
pub(crate) fn project_scope(context: &CommandContext, args: ProjectArgs) -> ProjectScope {
    match args.everywhere {
        true => ProjectScope::Any,
        false => context.agent.default_project_scope(),
    }
}

/// Performs `segue memory`.
///
/// # Errors
/// Fails if the subcommand fails.
pub(crate) async fn run(context: &CommandContext, args: MemoryCommand) -> CommandResult {
    match args {
        MemoryCommand::Show { projects, limit } => {
            agent_md::show_memory(context, projects, limit as usize).await
        }
        MemoryCommand::Edit => agent_md::run_edit(context).await,
        MemoryCommand::Search { words, projects, limit } => {
            agent_md::search_memory(context, &words.join(" "), projects, limit as usize).await
        }
        MemoryCommand::Path => agent_md::print_path(context),
        MemoryCommand::Stats => tiers::run_stats(context).await,
        MemoryCommand::Trace { thread, limit, after } => {
            tiers::run_trace(context, &thread, after, limit as usize).await
        }
        MemoryCommand::Summaries { projects, limit } => {
            tiers::run_summaries(context, projects, limit as usize).await
        }
        MemoryCommand::Summarize => summarize::run(context).await,
        MemoryCommand::Embed => embed::run(context).await,
        MemoryCommand::Review(args) => facts::run_review(context, args).await,
        MemoryCommand::History { revision: None, limit, .. } => {
            history::list_revisions(context, limit as usize).await
        }
        MemoryCommand::History { revision: Some(number), diff: false, .. } => {
            history::show_revision(context, number).await
        }
        MemoryCommand::History { revision: Some(number), diff: true, .. } => {
            history::show_change(context, number).await
        }
        MemoryCommand::Restore { revision } => history::restore_revision(context, revision).await,
    }
}
