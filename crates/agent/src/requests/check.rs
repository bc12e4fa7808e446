//! What of a request can be refused before there is a run: what makes no sense whatever the thread holds.

use protocol::RunRequest;

use super::bounds::steps_max;
use super::fault::Fault;
use super::wanted::Wanted;

/// Looks at what is asked, as far as it can be seen without a thread.
///
/// # Errors
/// What cannot be read, and where it stands.
pub fn check_readable(request: &RunRequest) -> Result<(), Fault> {
    Wanted::read(request, None)?;
    steps_max(request)?;
    Ok(())
}
