//! The help of every command, as the binary prints it: it fits the smallest terminal, or its first screen is enough. Errors
//! about the arguments suggest only names that the help shows.

use crate::sandbox::TestSandbox;

/// The size of the smallest terminal whose first screen must be enough.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// The sections of a page that do not list commands.
const OTHER_SECTIONS: [&str; 8] = [
    "Usage:",
    "Arguments:",
    "Options:",
    "Pending handoffs:",
    "Answers:",
    "Global options:",
    "Exit codes:",
    "Example for two calls:",
];

/// Returns the help of a command.
fn print_help(sandbox: &TestSandbox, command: &[String], flag: &str) -> String {
    let args: Vec<&str> = command.iter().map(String::as_str).chain([flag]).collect();
    let output = sandbox.run(&args);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args:?}: {output:?}");
    output.stdout
}

/// Returns the heading of a section, if the line is one.
fn section_heading(line: &str) -> Option<&str> {
    let is_heading = line.ends_with(':') && line.chars().all(|c| c.is_ascii_alphabetic() || " :".contains(c));
    is_heading.then_some(line).filter(|line| !line.starts_with(' '))
}

/// Returns the names of the commands that a page lists.
fn listed_commands(page: &str) -> Vec<String> {
    let mut is_list = false;
    let mut names = Vec::new();
    for line in page.lines() {
        if let Some(heading) = section_heading(line) {
            is_list = !OTHER_SECTIONS.contains(&heading);
        } else if line.is_empty() || line.starts_with("Decision") {
            is_list = false;
        } else if is_list
            && let Some(name) = line.strip_prefix("  ").filter(|name| !name.starts_with([' ', '-']))
        {
            names.extend(name.split_whitespace().next().map(str::to_owned));
        }
    }
    names
}

/// Returns every command that the help lists, as its words after `segue`; the first one is empty.
fn all_commands(sandbox: &TestSandbox) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut next = 0;
    while let Some(command) = commands.get(next).cloned() {
        let page = print_help(sandbox, &command, "--help");
        commands
            .extend(listed_commands(&page).into_iter().map(|name| [command.clone(), vec![name]].concat()));
        next += 1;
    }
    commands
}

#[test]
fn the_help_of_every_command_fits_80_columns_and_its_first_24_lines_are_enough() {
    let sandbox = TestSandbox::new();
    let commands = all_commands(&sandbox);
    let names: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    for name in ["", "chat", "threads export", "store put", "handoff export flush", "config keys", "man"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    for (command, name) in commands.iter().zip(&names) {
        let page = print_help(&sandbox, command, "--help");
        let lines: Vec<&str> = page.lines().collect();
        for line in &lines {
            assert!(line.chars().count() <= COLUMNS, "{name}: {line}");
        }
        let index_of = |is_line: &dyn Fn(&str) -> bool| lines.iter().position(|line| is_line(line));
        let usage = index_of(&|line| line.starts_with("Usage: segue"));
        let first_heading = index_of(&|line| section_heading(line).is_some());
        // The list of all commands comes before the few options of `segue` itself.
        let own =
            if name.is_empty() { first_heading } else { index_of(&|line| line.starts_with("  -h, --help")) };
        for needed in [usage, first_heading, own] {
            assert!(needed.is_some_and(|line| line < ROWS), "{name}: {page}");
        }
        let headings: Vec<&str> = lines.iter().filter_map(|line| section_heading(line)).collect();
        assert_eq!(headings.last(), Some(&"Global options:"), "{name}: {page}");
        assert!(first_heading < index_of(&|line| line == "Global options:"), "{name}: {page}");
        assert_eq!(page.matches("--home <DIR>").count(), 1, "{name}: {page}");
    }
}

#[test]
fn the_short_help_of_every_command_fits_one_screen() {
    let sandbox = TestSandbox::new();
    for command in all_commands(&sandbox) {
        let page = print_help(&sandbox, &command, "-h");
        assert!(page.lines().count() <= ROWS, "{command:?}: {page}");
        assert!(page.lines().all(|line| line.chars().count() <= COLUMNS), "{command:?}: {page}");
        assert!(!page.contains("--home <DIR>") && page.contains("`--help` explains more"), "{page}");
    }
}

#[test]
fn the_suggestions_for_an_unknown_command_are_names_that_the_help_lists() {
    let sandbox = TestSandbox::new();
    for (args, suggestion) in [
        (&["handof"][..], Some("exists: 'handoff'")),
        (&["handoffz"], Some("exists: 'handoff'")),
        (&["memory", "setle"], Some("exist: 'restore', 'summarize'")),
        (&["mirro"], None),
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.code, 2, "{output:?}");
        match suggestion {
            Some(tip) => assert!(output.stderr.contains(&format!("{tip}\n")), "{output:?}"),
            None => assert!(!output.stderr.contains("tip:"), "{output:?}"),
        }
        for former in ["'handoffs'", "'settle'", "'mirror'"] {
            assert!(!output.stderr.contains(former), "{output:?}");
        }
    }
}

#[test]
fn the_help_of_decide_has_the_format_of_the_decision_file() {
    let help = TestSandbox::new().run(&["decide", "--help"]).stdout;
    let example = help.lines().skip_while(|line| !line.starts_with("Example")).nth(1).unwrap();
    let decisions: serde_json::Value = serde_json::from_str(example).unwrap();
    assert_eq!(decisions["decisions"].as_array().map(Vec::len), Some(2), "{help}");
    for decision in ["approve", "edit", "reject", "respond", "defer"] {
        assert!(help.contains(&format!("{{\"type\": \"{decision}\"")), "{decision}: {help}");
    }
}
