//! The names under which models know the tools of servers: `mcp__server__tool`, in the characters and the length that
//! every provider takes, and never two alike.

use std::collections::HashMap;

/// The prefix of every qualified name.
const PREFIX: &str = "mcp";
/// The most characters of a tool's name that every provider takes.
const NAME_CHARS_MAX: usize = 64;
/// Hex digits that tell names apart which would be alike.
const HASH_CHARS: usize = 8;

/// Returns a name for each pair of server and tool, in their order. A name depends on its own pair and on whether
/// another pair would have the same one, not on the order.
pub(crate) fn qualify_names(pairs: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = pairs.iter().map(|(server, tool)| plain_name(server, tool)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *uses.entry(name).or_default() += 1;
    }
    let names = plain.iter().zip(pairs).map(|(name, pair)| match uses.get(name.as_str()) {
        Some(1) if name.len() <= NAME_CHARS_MAX => name.clone(),
        // All that would be alike are marked: what a rule says about one name must not come to mean another tool.
        Some(_) | None => hashed_name(name, pair.0, pair.1),
    });
    names.collect()
}

/// Returns a server's name as a part of file and tool names.
pub(crate) fn legal_name(name: &str) -> String {
    let legal = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' });
    legal.collect()
}

fn plain_name(server: &str, tool: &str) -> String {
    format!("{PREFIX}__{}__{}", legal_name(server), legal_name(tool))
}

fn hashed_name(name: &str, server: &str, tool: &str) -> String {
    let hash = protocol::sha256_hex(format!("{server}\0{tool}"));
    // Legal names are ASCII.
    let kept = name.len().min(NAME_CHARS_MAX - HASH_CHARS - 1);
    format!("{}_{}", &name[..kept], &hash[..HASH_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], expected: &[&str]) {
        let names = qualify_names(pairs);
        assert_eq!(names, expected);
        for name in &names {
            assert!(name.len() <= NAME_CHARS_MAX && *name == legal_name(name), "{name}");
        }
        let mut reversed: Vec<_> = pairs.to_vec();
        reversed.reverse();
        let mut again = qualify_names(&reversed);
        again.reverse();
        assert_eq!(again, names, "the order matters");
    }

    #[test]
    fn names_are_legal_distinct_and_the_same_in_any_order() {
        check(&[], &[]);
        check(&[("github", "create_issue"), ("a-b", "c")], &["mcp__github__create_issue", "mcp__a-b__c"]);
        check(&[("é h", "files.read")], &["mcp____h__files_read"]);
        check(
            &[("a", "b__c"), ("a__b", "c"), ("a", "b")],
            &["mcp__a__b__c_01b8a75b", "mcp__a__b__c_a92700ce", "mcp__a__b"],
        );
        check(
            &[("s", "x.y"), ("s", "x_y"), ("s", "")],
            &["mcp__s__x_y_8618a32d", "mcp__s__x_y_5fb6de5e", "mcp__s__"],
        );
        let long = "t".repeat(60);
        let longer = "t".repeat(61);
        let expected = [format!("mcp__s__{}_", "t".repeat(47))];
        let names = qualify_names(&[("s", &long), ("s", &longer)]);
        assert!(names.iter().all(|name| name.len() == 64 && name.starts_with(&expected[0])), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
