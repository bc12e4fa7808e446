//! The endpoints of the Agent Server API for everything except runs: assistants, threads, thread states and the store.
//!
//! Each handler parses the request, calls a service of the agent in the caller's scope, and converts the result into
//! the shape of the protocol. The handlers contain no rules of their own.

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

/// Returns the routes of all resources.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .merge(assistants::routes())
        .merge(threads::routes())
        .merge(states::routes())
        .merge(store::routes())
}

/// Returns a thread of the caller.
///
/// # Errors
/// Not found if the thread does not exist or belongs to another owner; an internal error if the journal fails.
pub async fn find_thread(caller: &Caller, thread_id: ThreadId) -> Result<Thread, ApiError> {
    let thread = caller.agent.threads().get(thread_id).await?;
    thread.ok_or_else(|| thread_not_found(thread_id))
}

/// Converts an error of creating a thread into a response. If the id belongs to a thread of another owner, the response
/// is "not found" instead of "exists", so that it does not reveal the thread.
pub(crate) async fn create_thread_error(caller: &Caller, error: Error) -> ApiError {
    match error {
        Error::Thread(ThreadError::Exists(thread_id)) => match caller.agent.threads().get(thread_id).await {
            Ok(None) => thread_not_found(thread_id),
            Ok(Some(_)) | Err(_) => error.into(),
        },
        error => error.into(),
    }
}

/// Returns the error for a thread that does not exist.
fn thread_not_found(thread_id: ThreadId) -> ApiError {
    ApiError::not_found(format!("Thread with ID {thread_id} not found"))
}
