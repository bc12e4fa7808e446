//! The sandbox of programs that the user's settings start: MCP servers and hooks. Their own settings ask for it, so the
//! mode of `[sandbox]`, which is about commands, does not matter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{NetworkAccess, PrepareLaunch, ProgramLaunch, ProgramStart};

use super::{
    CommandSandbox, SERVICE_VARIABLES, SandboxConfig, SandboxMode, SandboxNetwork, SandboxStatus,
    command_launch,
};
use crate::workspace::Workspace;

/// Returns the function that prepares each start of one program in the sandbox.
///
/// The program has the access of a command in the workspace, with the folders that `config` declares, and its own private
/// folder. It cannot open the files and folders in `protected`. Without a sandbox on this system, it is not started.
pub fn sandbox_for_program(
    config: &SandboxConfig,
    network: NetworkAccess,
    workspace: PathBuf,
    protected: &[PathBuf],
) -> PrepareLaunch {
    let network = match network {
        NetworkAccess::Off => SandboxNetwork::Off,
        NetworkAccess::On => SandboxNetwork::On,
    };
    let config = SandboxConfig { mode: SandboxMode::Require, network, ..config.clone() };
    let protected = protected.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let sandbox = CommandSandbox::new(config, protected.collect());
    Arc::new(move |start: &ProgramStart<'_>| sandbox.launch_program(&workspace, start))
}

impl CommandSandbox {
    /// Returns how a program is started.
    ///
    /// # Errors
    /// Returns the reason if this system has no sandbox, or if the sandbox cannot be prepared.
    fn launch_program(&self, workspace: &Path, start: &ProgramStart<'_>) -> Result<ProgramLaunch, String> {
        let support = match self.status() {
            SandboxStatus::Active(support) => support,
            SandboxStatus::Unsupported(_) | SandboxStatus::Off => {
                return Err("its settings require the sandbox, and this system has none".to_owned());
            }
        };
        let workspace = Workspace::open(workspace)?;
        let mut policy = self.policy(&workspace, &[], self.scratch_path()?, support);
        policy.folder = start.folder.canonicalize().unwrap_or_else(|_| start.folder.to_owned());
        // A name on the search path is in a folder that is readable anyway.
        policy.readable.extend(start.program.canonicalize().ok().filter(|_| start.program.is_absolute()));
        let launch = command_launch(&policy)?;
        Ok(ProgramLaunch {
            prefix: launch.prefix,
            variables: launch.variables,
            removed_variables: SERVICE_VARIABLES,
        })
    }
}
