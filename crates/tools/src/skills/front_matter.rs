//! Parser for the front matter of a SKILL.md: YAML between two lines of three dashes. It reads no file and does not
//! decide which of several skills with the same name is used.

use serde::Deserialize;

/// Maximum size of the front matter in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a skill's name in characters.
const NAME_CHARS_MAX: usize = 64;
/// Characters of a description that the prompt's list shows. A longer description is cut there, not refused.
pub(super) const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// The front matter of a skill file. Unknown keys are ignored.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct SkillFrontMatter {
    /// The skill's name: lowercase letters, digits and single hyphens.
    pub name: String,
    /// A description of what the skill does and when to use it.
    pub description: String,
}

/// Splits a SKILL.md into its front matter, without the lines of dashes, and its body.
///
/// # Errors
/// Returns the reason if a line of dashes is missing or the front matter is longer than [`HEAD_BYTES_MAX`].
pub(super) fn split_front_matter(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim_start_matches('\u{feff}');
    let remaining = strip_dash_line(text).ok_or("it does not begin with a line `---`")?;
    let mut offset = 0;
    while offset < remaining.len().min(HEAD_BYTES_MAX) {
        if let Some(body) = strip_dash_line(&remaining[offset..]) {
            return Ok((&remaining[..offset], body));
        }
        offset += remaining[offset..].find('\n').map_or(remaining.len() - offset, |end| end + 1);
    }
    Err("its front matter does not end with a line `---`".to_owned())
}

/// Parses and checks the front matter of a SKILL.md.
///
/// # Errors
/// Returns the reason if it is not valid YAML, lacks a key, or has an illegal name or an empty description.
pub(super) fn parse_front_matter(head: &str) -> Result<SkillFrontMatter, String> {
    let mut head: SkillFrontMatter = yaml_serde::from_str(head).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or("its front matter is not valid YAML").trim().to_owned()
    })?;
    head.description = head.description.trim().to_owned();
    if head.description.is_empty() {
        return Err("its description is empty".to_owned());
    }
    if !is_name(&head.name) {
        return Err(format!(
            "its name {:?} is not made of at most {NAME_CHARS_MAX} lowercase letters, digits and single hyphens",
            head.name
        ));
    }
    Ok(head)
}

/// Returns whether a skill's name is legal.
fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
}

/// Returns the text after a first line of exactly three dashes, or `None` if the text has no such first line.
fn strip_dash_line(text: &str) -> Option<&str> {
    let remaining = text.strip_prefix("---")?;
    let line = remaining.find('\n').map_or(remaining, |end| &remaining[..end]);
    line.trim_end().is_empty().then(|| remaining[line.len()..].strip_prefix('\n').unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let parsed = split_front_matter(text).and_then(|(head, body)| Ok((parse_front_matter(head)?, body)));
        let actual = match parsed {
            Ok((head, body)) => format!("{}|{}|{body}", head.name, head.description),
            Err(error) => error,
        };
        assert_eq!(actual, expected, "{text:?}");
    }

    #[test]
    fn front_matter_is_parsed_and_errors_give_the_reason() {
        check("---\nname: a-1\ndescription: Does.\n---\nBody\n---\n", "a-1|Does.|Body\n---\n");
        check("\u{feff}---\r\nname: a\r\ndescription: |\r\n  Two\r\n  lines\r\n---\r\nB", "a|Two\nlines|B");
        check(
            "---\nname: a\ndescription: d\nlicense: MIT\nmetadata: {x: [1]}\nallowed-tools: Read\n---",
            "a|d|",
        );
        check("Just text", "it does not begin with a line `---`");
        check("----\nname: a\n---\n", "it does not begin with a line `---`");
        check("---\nname: a\ndescription: d\n", "its front matter does not end with a line `---`");
        check("---\nname: a\ndescription: ''\n---\n", "its description is empty");
        for name in ["A", "a_b", "a--b", "-a", "a-", "ä", &"a".repeat(65)] {
            let reason = "is not made of at most 64 lowercase letters, digits and single hyphens";
            check(
                &format!("---\nname: {name}\ndescription: d\n---\n"),
                &format!("its name {name:?} {reason}"),
            );
        }
    }

    #[test]
    fn broken_or_malicious_yaml_is_refused_quickly() {
        for head in [
            "name: a\n",
            "name: [a]\ndescription: d\n",
            "name: a\ndescription: Use when: asked\n",
            "description: \"\n",
            "\t",
            "",
            "- a\n- b\n",
        ] {
            assert!(parse_front_matter(head).is_err(), "{head:?}");
        }
        let bomb: String =
            (1..20).map(|n| format!("k{n}: &k{n} [{}]\n", format!("*k{}, ", n - 1).repeat(9))).collect();
        assert!(parse_front_matter(&format!("k0: &k0 x\n{bomb}name: a\ndescription: *k19\n")).is_err());
        assert!(parse_front_matter(&format!("name: {}", "[".repeat(10_000))).is_err());
        let endless = format!("---\n{}", "a: b\n".repeat(1_000_000));
        assert!(split_front_matter(&endless).is_err());
    }
}
