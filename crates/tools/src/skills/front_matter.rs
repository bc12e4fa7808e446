//! The head of a SKILL.md: YAML between two lines of dashes. Whether the skill is used is decided by the caller.

use serde::Deserialize;

/// The most bytes of a head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// The most characters of a description.
pub(super) const DESCRIPTION_CHARS_MAX: usize = 1_024;

/// The front matter of a skill file; unknown keys are ignored.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct SkillFrontMatter {
    pub name: String,
    /// A description of what the skill does and when to use it.
    pub description: String,
}

/// Returns the head and the body of a SKILL.md; the error says what is wrong with the head.
pub(super) fn split_front_matter(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim_start_matches('\u{feff}');
    let rest = strip_dash_line(text).ok_or("it does not begin with a line `---`")?;
    let mut at = 0;
    while at < rest.len().min(HEAD_BYTES_MAX) {
        if let Some(body) = strip_dash_line(&rest[at..]) {
            return Ok((&rest[..at], body));
        }
        at += rest[at..].find('\n').map_or(rest.len() - at, |end| end + 1);
    }
    Err("its head does not end with a line `---`".to_owned())
}

/// Reads a head and checks the name.
pub(super) fn parse_front_matter(head: &str) -> Result<SkillFrontMatter, String> {
    let mut head: SkillFrontMatter = serde_saphyr::from_str(head).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or("its head is no YAML").trim().to_owned()
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

fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
}

/// Returns what follows a first line of exactly three dashes.
fn strip_dash_line(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("---")?;
    let line = rest.find('\n').map_or(rest, |end| &rest[..end]);
    line.trim_end().is_empty().then(|| rest[line.len()..].strip_prefix('\n').unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = split_front_matter(text).and_then(|(head, body)| Ok((parse_front_matter(head)?, body)));
        let found = match found {
            Ok((head, body)) => format!("{}|{}|{body}", head.name, head.description),
            Err(error) => error,
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn a_head_is_read_and_a_bad_one_is_explained() {
        check("---\nname: a-1\ndescription: Does.\n---\nBody\n---\n", "a-1|Does.|Body\n---\n");
        check("\u{feff}---\r\nname: a\r\ndescription: |\r\n  Two\r\n  lines\r\n---\r\nB", "a|Two\nlines|B");
        check(
            "---\nname: a\ndescription: d\nlicense: MIT\nmetadata: {x: [1]}\nallowed-tools: Read\n---",
            "a|d|",
        );
        check("Just text", "it does not begin with a line `---`");
        check("----\nname: a\n---\n", "it does not begin with a line `---`");
        check("---\nname: a\ndescription: d\n", "its head does not end with a line `---`");
        check("---\nname: a\ndescription: ''\n---\n", "its description is empty");
        for name in ["A", "a_b", "a--b", "-a", "a-", "ä", &"a".repeat(65)] {
            let said = "is not made of at most 64 lowercase letters, digits and single hyphens";
            check(&format!("---\nname: {name}\ndescription: d\n---\n"), &format!("its name {name:?} {said}"));
        }
    }

    #[test]
    fn yaml_that_is_broken_or_a_trap_is_refused_at_once() {
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
