//! The endpoints of the Agent Server API that are not about runs: assistants, threads, their states,
//! the store. Each handler reads what was asked, asks the agent, and gives the answer its shape.

pub(crate) mod assistants;
pub(crate) mod page;
mod states;
mod store;
mod subset;
mod threads;

use agent::{Error, ThreadError};
use protocol::{Thread, ThreadId};
use utoipa_axum::router::OpenApiRouter;

use crate::caller::Caller;
use crate::error::ApiError;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .merge(assistants::routes())
        .merge(threads::routes())
        .merge(states::routes())
        .merge(store::routes())
}

/// Returns the thread, which the caller must see.
pub async fn find_thread(caller: &Caller, thread_id: ThreadId) -> Result<Thread, ApiError> {
    let found = caller.agent.threads().get(thread_id).await?;
    found.ok_or_else(|| thread_not_found(thread_id))
}

/// Returns how a client is told that a thread could not be made: one of somebody else is not there for it.
pub(crate) async fn create_thread_error(caller: &Caller, error: Error) -> ApiError {
    match error {
        Error::Thread(ThreadError::Exists(thread_id)) => match caller.agent.threads().get(thread_id).await {
            Ok(None) => thread_not_found(thread_id),
            Ok(Some(_)) | Err(_) => error.into(),
        },
        error => error.into(),
    }
}

/// The answer to a thread that is not there.
fn thread_not_found(thread_id: ThreadId) -> ApiError {
    ApiError::not_found(format!("Thread with ID {thread_id} not found"))
}
