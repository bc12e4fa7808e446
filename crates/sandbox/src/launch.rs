//! The way in which a program is started in the sandbox, for crates that start programs and decide nothing about their
//! access: they get a function that prepares the start.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// A function that prepares the start of a program in the sandbox. It is called before each start, because files of
/// secrets may have been added; it reads folders and blocks. The error says, as a lowercase fragment, why the program
/// cannot be started.
///
/// The private folder of the program exists as long as the function.
pub type PrepareLaunch = Arc<dyn Fn(&ProgramStart<'_>) -> Result<ProgramLaunch, String> + Send + Sync>;

/// A program that is about to be started.
#[derive(Debug, Clone, Copy)]
pub struct ProgramStart<'a> {
    /// The folder in which it starts.
    pub folder: &'a Path,
    /// The program: a path, or a name on the search path.
    pub program: &'a Path,
}

/// The command line and the environment of a program in the sandbox. The default starts it without a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramLaunch {
    /// The beginning of the command line.
    pub prefix: Vec<OsString>,
    /// Variables to set.
    pub variables: Vec<(&'static str, OsString)>,
    /// Variables to remove.
    pub removed_variables: &'static [&'static str],
}

impl ProgramLaunch {
    /// Returns the program to execute in place of `program`, and its first arguments.
    pub fn command_line(&self, program: OsString) -> (OsString, Vec<OsString>) {
        let mut words = self.prefix.iter().cloned().chain([program]);
        let first = words.next().unwrap_or_default();
        (first, words.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_follows_the_beginning_of_the_command_line() {
        let check = |prefix: &[&str], program: &str, args: &[&str]| {
            let prefix = prefix.iter().map(OsString::from).collect();
            let launch = ProgramLaunch { prefix, ..ProgramLaunch::default() };
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert_eq!(launch.command_line("sh".into()), (OsString::from(program), args));
        };
        check(&[], "sh", &[]);
        check(&["/bin/launcher", "policy"], "/bin/launcher", &["policy", "sh"]);
    }
}
