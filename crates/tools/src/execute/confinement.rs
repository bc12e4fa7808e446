//! The sandbox of commands: its settings, and the policy for one command. Applying a policy is the task of the crate
//! `sandbox`, and whether a command needs approval is decided in [`crate::permission`].

pub(crate) mod program;
mod repository;
mod scratch;
mod secret_files;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use sandbox::{Isolation, Launcher, NetworkAccess, SandboxPolicy, SandboxSupport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use self::scratch::ScratchFolder;
use crate::permission::SandboxedCommands;
use crate::workspace::Workspace;

/// The variable that tells a command that it runs in the sandbox: `namespaces` or `landlock`.
const SANDBOX_VARIABLE: &str = "SEGUE_SANDBOX";
/// Variables that name sockets of services outside, which a command in the sandbox cannot reach.
const SERVICE_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "GPG_AGENT_INFO",
    "DOCKER_HOST",
];
/// Name of the folder for caches below the private folder, where the home folder is not private.
const CACHE_FOLDER: &str = "cache";

/// The sandbox of the commands that the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Use of the sandbox: `auto` uses it where the system supports it, `require` runs no command without it, and `off`
    /// runs all commands without it.
    pub mode: SandboxMode,
    /// The network of commands in the sandbox: `off` or `on`. `off` leaves a loopback interface for each command, where the
    /// system supports namespaces.
    pub network: SandboxNetwork,
    /// The default for commands in the sandbox that no rule is about: `ask` needs an approval for each, `allow` needs none.
    /// `--approve sandboxed` of `segue run` has the effect of `allow`.
    pub commands: SandboxedCommands,
    /// Folders and files that commands may read and write in addition to the workspace. A path is absolute or begins with
    /// `~/`.
    pub writable: Vec<PathBuf>,
    /// Folders and files that commands may read in addition to the system and to toolchains. Files of secrets in the
    /// workspace that are listed here, or are in a listed folder, can be read. A path is absolute or begins with `~/`.
    pub readable: Vec<PathBuf>,
}

impl SandboxConfig {
    /// Returns the first wrong setting as one line of text; `None` if all are valid.
    pub fn validation_error(&self) -> Option<String> {
        let lists = [("writable", &self.writable), ("readable", &self.readable)];
        lists.into_iter().find_map(|(name, paths)| {
            let path = paths.iter().find(|path| !path.is_absolute() && !path.starts_with("~"))?;
            Some(format!("`sandbox.{name}` has the path {path:?}; it must be absolute or begin with `~/`"))
        })
    }
}

/// The use of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// The sandbox is used where the system supports it.
    #[default]
    Auto,
    /// No command runs without the sandbox, except for those that a person approves outside it.
    Require,
    /// The sandbox is not used.
    Off,
}

/// The network of commands in the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// No network.
    #[default]
    Off,
    /// The network of the machine.
    On,
}

/// The state of the sandbox on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStatus {
    /// The settings turn it off.
    Off,
    /// The settings require it, or allow it, and this system does not support it.
    Unsupported(SandboxSupport),
    /// Commands run in it.
    Active(SandboxSupport),
}

/// Returns the state of the sandbox. The first call in a process tries out the system, which blocks for some
/// milliseconds.
pub fn sandbox_status(config: &SandboxConfig) -> SandboxStatus {
    if config.mode == SandboxMode::Off {
        return SandboxStatus::Off;
    }
    let support = Launcher::of_this_program().map(|launcher| launcher.support()).unwrap_or_default();
    if support.is_sufficient() { SandboxStatus::Active(support) } else { SandboxStatus::Unsupported(support) }
}

/// The sandbox of one `execute` tool.
#[derive(Debug)]
pub(super) struct CommandSandbox {
    config: SandboxConfig,
    /// Files and folders that no command may open, such as Segue's home folder.
    protected: Vec<PathBuf>,
    /// The private folder of the commands; `None` until the first command.
    scratch: Mutex<Option<ScratchFolder>>,
}

/// The way in which a command is started.
#[derive(Debug, Default)]
pub(super) struct CommandLaunch {
    /// The beginning of the command line; empty without a sandbox.
    pub prefix: Vec<OsString>,
    /// Variables to set.
    variables: Vec<(&'static str, OsString)>,
}

impl CommandLaunch {
    /// Returns whether the command runs in the sandbox.
    pub fn is_sandboxed(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Adjusts the environment of the command.
    pub fn apply_environment(&self, command: &mut Command) {
        if self.is_sandboxed() {
            for name in SERVICE_VARIABLES {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

impl CommandSandbox {
    /// Returns the sandbox with these settings.
    pub const fn new(config: SandboxConfig, protected: Vec<PathBuf>) -> Self {
        Self { config, protected, scratch: Mutex::new(None) }
    }

    /// Returns the state of the sandbox.
    pub fn status(&self) -> SandboxStatus {
        sandbox_status(&self.config)
    }

    /// Returns the use of the sandbox by the settings.
    pub const fn mode(&self) -> SandboxMode {
        self.config.mode
    }

    /// Returns the network of commands in the sandbox.
    pub const fn network(&self) -> SandboxNetwork {
        self.config.network
    }

    /// Returns how a command is started that may read `approved` files of secrets, with paths relative to the workspace.
    /// It looks for files of secrets in the workspace, which blocks.
    ///
    /// # Errors
    /// Returns the message for the model if the sandbox is required and cannot be used.
    pub fn launch(&self, workspace: &Workspace, approved: &[PathBuf]) -> Result<CommandLaunch, String> {
        let support = match (self.status(), self.config.mode) {
            (SandboxStatus::Active(support), _) => support,
            (SandboxStatus::Unsupported(_), SandboxMode::Require) => {
                return Err(
                    "commands are not run, because the settings require a sandbox and this system has none; a person \
                     can be asked with outside_sandbox"
                        .to_owned(),
                );
            }
            (SandboxStatus::Unsupported(_) | SandboxStatus::Off, _) => return Ok(CommandLaunch::default()),
        };
        command_launch(&self.policy(workspace, approved, self.scratch_path()?, support))
    }

    /// Returns the policy for one command.
    fn policy(
        &self,
        workspace: &Workspace,
        approved: &[PathBuf],
        scratch: PathBuf,
        support: SandboxSupport,
    ) -> SandboxPolicy {
        let root = workspace.root();
        let home = home_folder();
        let resolve = |paths: &[PathBuf]| -> Vec<PathBuf> {
            let paths = paths.iter().filter_map(|path| expand_home(path, home.as_deref()));
            paths.filter_map(|path| path.canonicalize().ok()).collect()
        };
        let repository = repository::find(root, home.as_deref());
        let mut writable = vec![root.to_owned()];
        writable.extend(repository.writable);
        writable.extend(resolve(&self.config.writable));
        let declared = resolve(&self.config.readable);
        // A folder is named by a search, which leaves files of secrets out.
        let approved = approved.iter().filter_map(|path| root.join(path).canonicalize().ok());
        let approved = approved.filter(|path| path.is_file());
        let readable_secrets: Vec<PathBuf> = declared.iter().cloned().chain(approved).collect();
        let mut hidden = secret_files::find(root);
        hidden.retain(|path| !readable_secrets.iter().any(|readable| path.starts_with(readable)));
        let mut readable = repository.readable;
        readable.extend(declared);
        readable.extend(search_path());
        hidden.extend(self.protected.iter().cloned());
        SandboxPolicy {
            folder: root.to_owned(),
            read_only: repository.read_only,
            hidden,
            writable,
            readable,
            scratch,
            home,
            network: match self.config.network {
                SandboxNetwork::Off => NetworkAccess::Off,
                SandboxNetwork::On => NetworkAccess::On,
            },
            isolation: if support.has_namespaces { Isolation::Namespaces } else { Isolation::Landlock },
        }
    }

    /// Returns the private folder, and creates it at the first call.
    ///
    /// # Errors
    /// Returns the message for the model if the folder cannot be created.
    fn scratch_path(&self) -> Result<PathBuf, String> {
        let mut scratch = self.scratch.lock();
        let folder = match scratch.take() {
            Some(folder) => folder,
            None => {
                ScratchFolder::create_in(&env::temp_dir()).map_err(|error| preparation_failure(&error))?
            }
        };
        let path = folder.path().to_owned();
        *scratch = Some(folder);
        Ok(path)
    }
}

/// Returns how a command is started by the policy, and creates the folders that its environment names.
///
/// # Errors
/// Returns the message for the model if this program is no launcher, or the sandbox cannot be prepared.
fn command_launch(policy: &SandboxPolicy) -> Result<CommandLaunch, String> {
    let Some(launcher) = Launcher::of_this_program() else {
        return Err("the sandbox cannot be prepared: this program cannot start it".to_owned());
    };
    let mut variables = vec![("TMPDIR", policy.temporary_folder().into_os_string())];
    match policy.isolation {
        Isolation::Namespaces => variables.push((SANDBOX_VARIABLE, "namespaces".into())),
        Isolation::Landlock => {
            let cache = policy.scratch.join(CACHE_FOLDER);
            for folder in [&cache, &policy.temporary_folder()] {
                fs::create_dir_all(folder).map_err(|error| preparation_failure(&error))?;
            }
            variables.push(("XDG_CACHE_HOME", cache.into_os_string()));
            variables.push((SANDBOX_VARIABLE, "landlock".into()));
        }
    }
    let prefix = launcher.prefix(policy).map_err(|error| preparation_failure(&error))?;
    Ok(CommandLaunch { prefix, variables })
}

/// Returns the message for the model about a sandbox that cannot be prepared.
fn preparation_failure(error: &dyn std::error::Error) -> String {
    format!("the sandbox cannot be prepared: {error}")
}

/// Returns the home folder of the user with links resolved, unless it is the root folder.
fn home_folder() -> Option<PathBuf> {
    let home = PathBuf::from(env::var_os("HOME")?);
    let home = home.is_absolute().then(|| home.canonicalize().ok())??;
    home.parent().is_some().then_some(home)
}

/// Returns a path of the settings with `~` replaced by the home folder.
fn expand_home(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => Some(home?.join(rest)),
        Err(_) => Some(path.to_owned()),
    }
}

/// Returns the folders of `PATH`, whose programs a command may run.
fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| folder.canonicalize().ok())
        .collect()
}
