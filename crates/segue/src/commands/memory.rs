//! `segue memory`: what outlives a context. The notes are in `notes`, what there is in the tiers in `tiers`, how old turns
//! become summaries in `settle`; what is kept under a name is in `store`.

pub(crate) mod notes;
pub(crate) mod settle;
pub(crate) mod store;
pub(crate) mod tiers;

use crate::cli::memory::Memory;
use crate::commands::Context;
use crate::exit::Outcome;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Memory) -> Outcome {
    match args {
        Memory::Show { limit } => notes::show(context, limit as usize).await,
        Memory::Edit => notes::edit(context).await,
        Memory::Search { words, limit } => notes::search(context, &words.join(" "), limit as usize).await,
        Memory::Path => notes::path(context),
        Memory::Stats => tiers::stats(context).await,
        Memory::Trace { thread, limit, after } => tiers::trace(context, &thread, after, limit as usize).await,
        Memory::Summaries { limit } => tiers::summaries(context, limit as usize).await,
        Memory::Settle => settle::run(context).await,
    }
}
