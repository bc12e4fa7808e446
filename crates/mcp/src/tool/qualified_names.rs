//! Qualified names of the servers' tools, such as `mcp__server__tool`. They are unique, and they use only the
//! characters and the length that every model provider accepts.

use std::collections::HashMap;

/// The prefix of every qualified name.
const PREFIX: &str = "mcp";
/// Maximum length of a tool name that every model provider accepts, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Number of hex digits of the hash in a name that would be ambiguous or too long without it.
const HASH_CHARS: usize = 8;

/// Returns a unique name for each pair of server and tool, in the same order.
///
/// A name depends on its own pair and on whether another pair would get the same plain name, but not on the order of
/// the pairs, so names stay the same when servers are added.
pub(crate) fn qualify_names(pairs: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = pairs.iter().map(|(server, tool)| plain_name(server, tool)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *uses.entry(name).or_default() += 1;
    }
    let names = plain.iter().zip(pairs).map(|(name, pair)| match uses.get(name.as_str()) {
        Some(1) if name.len() <= NAME_CHARS_MAX => name.clone(),
        // Every pair with an ambiguous name gets a hash. If one kept the plain name, a permission rule for that name
        // could later apply to another tool.
        Some(_) | None => hashed_name(name, pair.0, pair.1),
    });
    names.collect()
}

/// Returns a name with every character replaced by `_` that is not an ASCII letter, a digit, `-` or `_`. The result is
/// also used in file names.
pub(crate) fn legal_name(name: &str) -> String {
    let legal = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' });
    legal.collect()
}

/// Returns the name of a tool without a hash.
fn plain_name(server: &str, tool: &str) -> String {
    format!("{PREFIX}__{}__{}", legal_name(server), legal_name(tool))
}

/// Returns the beginning of a plain name with a hash of the original names.
fn hashed_name(name: &str, server: &str, tool: &str) -> String {
    let hash = protocol::sha256_hex(format!("{server}\0{tool}"));
    // Legal names are ASCII, so every byte offset is a character boundary.
    let prefix_len = name.len().min(NAME_CHARS_MAX - HASH_CHARS - 1);
    format!("{}_{}", &name[..prefix_len], &hash[..HASH_CHARS])
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
