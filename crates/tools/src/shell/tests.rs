//! Tests of the shell parser: canonical form of commands, redirections, and rejection of unsupported lines.

use std::process::Command;

use proptest::prelude::*;

use super::*;

fn check(line: &str, expected: Option<&[&str]>) {
    let parsed = parse_command_line(line)
        .map(|line| line.commands.iter().map(SimpleCommand::canonical).collect::<Vec<_>>());
    let expected = expected.map(|expected| expected.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(parsed, expected, "{line}");
}

#[test]
fn lines_are_parsed_into_simple_commands() {
    check("ls", Some(&["ls"]));
    check("  cargo   test \t --all ", Some(&["cargo test --all"]));
    check("a && b || c; d | e\nf", Some(&["a", "b", "c", "d", "e", "f"]));
    check("a;", Some(&["a"]));
    check("\n\na &&\n b\n", Some(&["a", "b"]));
    check("echo 'a  b' \"c d\" e\\ f", Some(&["echo 'a  b' 'c d' 'e f'"]));
    check("echo \"it's\" '\"'", Some(&["echo 'it'\\''s' '\"'"]));
    check("echo a\\\nb \\\n c", Some(&["echo ab c"]));
    check("\"cargo\" te'st'", Some(&["cargo test"]));
    check("A=1 B='x y' make CC=gcc", Some(&["A=1 B='x y' make 'CC=gcc'"]));
    check("git show HEAD~1^ 'a:~' '~'", Some(&["git show HEAD~1^ 'a:~' '~'"]));
    check("ls *.rs ~ $HOME \"${A}\" {a,b}", Some(&["ls *.rs ~ $HOME \"${A}\" {a,b}"]));
    check("echo '$(x)' '`x`' \\$x '*'", Some(&["echo '$(x)' '`x`' '$x' '*'"]));
    check("echo 5$ \"\"", Some(&["echo '5$' ''"]));
    check("git log --format=%h 2>&1 >/dev/null", Some(&["git log --format=%h"]));
    check("echo a#b 2 >&2", Some(&["echo 'a#b' 2"]));
}

#[test]
fn unsupported_syntax_is_rejected() {
    for line in [
        "",
        " ",
        "&& a",
        "a &&",
        "a |",
        "| a",
        "a ;; b",
        "; a",
        "a & b",
        "a &",
        "a &> b",
        "a |& b",
        "a || ",
        "echo $(x)",
        "echo `x`",
        "echo \"$(x)\"",
        "echo \"`x`\"",
        "echo $((1))",
        "echo ${a:-b}",
        "echo ${!a}",
        "echo $'a'",
        "echo $\"a\"",
        "echo $[1]",
        "(a)",
        "a (b)",
        "{ a; }",
        "if a; then b; fi",
        "! a",
        "time a",
        "for i in a; do b; done",
        "a <<EOF\nb\nEOF",
        "a <<< b",
        "cat <(a)",
        "a >(b)",
        "echo 'a",
        "echo \"a",
        "a \\",
        "a # b",
        "# a",
        "a\rb",
        "a\0b",
        "a \u{1b}[0m",
        "a >",
        "a > ; b",
        "f() { a; }",
        "A=1",
        "[[ a ]]",
        "a >>> b",
    ] {
        check(line, None);
    }
}

#[test]
fn only_redirections_without_a_file_are_harmless() {
    let redirects = |line: &str| parse_command_line(line).unwrap().commands[0].redirects.clone();
    for (line, text) in [
        ("a 2>&1", "2>&1"),
        ("a >/dev/null", ">/dev/null"),
        ("a 2>> '/dev/null'", "2>>/dev/null"),
        ("a < /dev/null", "</dev/null"),
        ("2>/dev/null a", "2>/dev/null"),
    ] {
        assert_eq!(redirects(line), [ShellRedirect::Harmless(text.to_owned())], "{line}");
    }
    for line in [
        "a > b",
        "a >> b",
        "a < b",
        "a 2> b",
        "a >| b",
        "a <> b",
        "a >&b",
        "a >& 3",
        "a 3>/dev/null",
        "a >$X",
    ] {
        assert_eq!(redirects(line), [ShellRedirect::File], "{line}");
    }
}

proptest! {
    #[test]
    fn a_rendered_line_gives_programs_the_same_words(
        words in prop::collection::vec("[ -~\u{e4}\u{202e}]{0,12}", 1..5)
    ) {
        let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        let parsed = parse_command_line(&format!("printf '%s|' {line}")).unwrap();
        prop_assert_eq!(parsed.commands[0].literal_words().unwrap()[2..].to_vec(), words.clone());
        let output = Command::new("/bin/sh").arg("-c").arg(parsed.render(SimpleCommand::canonical)).output().unwrap();
        let expected: String = words.iter().map(|word| format!("{word}|")).collect();
        prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }

    #[test]
    fn any_line_is_either_rejected_or_parsed_like_the_shell_does(
        line in "[ab'\"\\\\ ;|&$(){}<>#=`*~-]{0,12}"
    ) {
        // The parsed words that need no expansion equal the words that the shell passes to a program.
        if let Some(parsed) = parse_command_line(&line)
            && parsed.commands.len() == 1
            && parsed.commands[0].redirects.is_empty()
            && parsed.commands[0].assignments.is_empty()
            && let Some(words) = parsed.commands[0].literal_words()
        {
            let script = format!("show() {{ printf '%s|' \"$@\"; }}\nshow {line}");
            let output = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
            let expected: String = words.iter().map(|word| format!("{word}|")).collect();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        }
    }
}

#[test]
fn a_line_is_portable_only_if_every_shell_gives_it_the_same_meaning() {
    for line in [
        "ls",
        "cargo test --all 2>&1 | tail -5",
        "cd src && git status; true",
        "grep -n 'a b*' \"c\" >/dev/null",
    ] {
        assert!(is_portable(line), "{line}");
    }
    for line in [
        "echo a",
        "printf %q x",
        "[ a == a ]",
        "[[ a ]]",
        "ls *.rs",
        "ls $HOME",
        "ls {a,b}",
        "A=1 make",
        "source x",
        "make > log",
        "cat <(ls)",
        "ls |& cat",
        "for i in 1 2; do ls; done",
        "time ls",
        "diff a b && type ls",
        "./build.sh",
        "cd my dir && ls",
        "cd -e x",
        "cd",
        "ls; exit -1",
    ] {
        assert!(!is_portable(line), "{line}");
    }
}
