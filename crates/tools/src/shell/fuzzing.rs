//! The shell parser as a pure function, for fuzz targets. Compiled only with the feature `fuzzing`; no program uses it.

use super::{CommandOperator, SimpleCommand, parse_command_line};

/// A command as the permission rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedCommand {
    /// The words as the program receives them; `None` if the shell expands at least one of them.
    pub literal_words: Option<Vec<String>>,
    /// The form that permission rules match.
    pub canonical: String,
    /// Assignments before the program, in their source form.
    pub assignments: Vec<String>,
    /// The number of redirections.
    pub redirects: usize,
    /// The operator before the command, such as `&&`; empty for the first command.
    pub operator: &'static str,
}

/// Parses a command line. Returns `None` if the parser refuses it.
pub fn parse_commands(line: &str) -> Option<Vec<ParsedCommand>> {
    let parsed = parse_command_line(line)?;
    let operators = parsed.operators.iter().map(|operator| match operator {
        CommandOperator::Pipe => "|",
        CommandOperator::And => "&&",
        CommandOperator::Or => "||",
        CommandOperator::Sequence => ";",
    });
    let commands = parsed.commands.iter().zip(std::iter::once("").chain(operators));
    Some(commands.map(|(command, operator)| describe_command(command, operator)).collect())
}

/// Returns the line with every word that the shell does not expand quoted, and without redirections. Returns `None` if the
/// parser refuses the line.
pub fn render_commands(line: &str) -> Option<String> {
    parse_command_line(line).map(|parsed| parsed.render(SimpleCommand::canonical))
}

fn describe_command(command: &SimpleCommand, operator: &'static str) -> ParsedCommand {
    ParsedCommand {
        literal_words: command.literal_words(),
        canonical: command.canonical(),
        assignments: command.assignments.clone(),
        redirects: command.redirects.len(),
        operator,
    }
}
