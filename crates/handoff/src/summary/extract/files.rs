//! Tells a list of paths shortly: the common folder once, then the names, the most recent first.

/// Names that say little without their folder.
const COMMON_NAMES: [&str; 26] = [
    "index",
    "main",
    "mod",
    "lib",
    "readme",
    "__init__",
    "package",
    "cargo",
    "test",
    "tests",
    "types",
    "utils",
    "config",
    "settings",
    "app",
    "setup",
    "makefile",
    "dockerfile",
    "go",
    "page",
    "skill",
    "types.d",
    "conftest",
    "error",
    "client",
    "server",
];

/// Returns `label` and the paths in at most `chars_max` characters, with the number of those that did not fit; empty
/// when not even one fits.
pub(super) fn list(label: &str, paths: &[&str], chars_max: usize) -> String {
    let root = Some(common_folder(paths)).filter(|root| root.len() > 1).unwrap_or_default();
    let place = if root.is_empty() { String::new() } else { format!(" in {}", root.trim_end_matches('/')) };
    let full: Vec<&str> = paths.iter().map(|path| path.strip_prefix(root).unwrap_or(path)).collect();
    let told = joined(&format!("{label}{place}: "), &full, chars_max);
    if told.1 == paths.len() {
        return told.0;
    }
    let short: Vec<&str> = paths.iter().map(|path| short_name(path)).collect();
    let here = joined(&format!("{label}: "), &short, chars_max);
    if here.1 == 0 { String::new() } else { here.0 }
}

/// Returns the list and how many of the names are in it.
fn joined(label: &str, names: &[&str], chars_max: usize) -> (String, usize) {
    let mut line = label.to_owned();
    let mut length = label.chars().count();
    let mut told: Vec<&str> = Vec::with_capacity(names.len());
    for name in names {
        if told.contains(name) {
            continue;
        }
        let more = name.chars().count() + 2;
        let reserve = if told.len() + 1 < names.len() { " (+99 more)".len() } else { 0 };
        if length + more + reserve > chars_max {
            break;
        }
        if !told.is_empty() {
            line.push_str(", ");
        }
        line.push_str(name);
        length += more;
        told.push(name);
    }
    let distinct = names.iter().collect::<std::collections::HashSet<_>>().len();
    let missing = distinct - told.len();
    match missing {
        0 => {}
        // A longer number would have to be grounded like any other.
        1..=99 => line.push_str(&format!(" (+{missing} more)")),
        _ => line.push_str(" (and more)"),
    }
    (line, if missing == 0 { names.len() } else { told.len() })
}

/// Returns the folder all paths are in, with the slash; empty when there is none or only one path.
fn common_folder<'a>(paths: &[&'a str]) -> &'a str {
    let Some(first) = paths.first() else { return "" };
    let mut end = first.rfind('/').map_or(0, |at| at + 1);
    for path in paths {
        while !path.as_bytes().starts_with(&first.as_bytes()[..end]) {
            end = first[..end.saturating_sub(1)].rfind('/').map_or(0, |at| at + 1);
        }
    }
    &first[..end]
}

/// Returns the name of a file, with its folder when the name alone says little.
fn short_name(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    let (last, folder) = (slashes.next(), slashes.next());
    let name = last.map_or(path, |at| &path[at + 1..]);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_common = COMMON_NAMES.iter().any(|common| common.eq_ignore_ascii_case(stem));
    if is_common { folder.map_or(path, |at| &path[at + 1..]) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_shortly() {
        for (paths, max, expected) in [
            (&["/a/b/c.rs", "/a/b/d/e.rs"][..], 80, "Changed in /a/b: c.rs, d/e.rs"),
            (&["/a/b/c.rs", "/x/y.rs"][..], 80, "Changed: /a/b/c.rs, /x/y.rs"),
            (
                &["/aaaaaaaa/b/one.rs", "/aaaaaaaa/c/mod.rs"][..],
                44,
                "Changed in /aaaaaaaa: b/one.rs, c/mod.rs",
            ),
            (
                &["/very/long/folder/name/one.rs", "/other/folder/c/mod.rs"][..],
                32,
                "Changed: one.rs, c/mod.rs",
            ),
            (
                &["src/one.rs", "src/two.rs", "src/three.rs", "src/four.rs"][..],
                36,
                "Changed: one.rs, two.rs (+2 more)",
            ),
            (&["src/one.rs"][..], 5, ""),
            (&[][..], 80, "Changed: "),
        ] {
            assert_eq!(list("Changed", paths, max), expected, "{paths:?}");
        }
    }
}
