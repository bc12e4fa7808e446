//! The names and short texts in the first bytes of JSON, with their depth. The bytes may break off anywhere, so nothing
//! is parsed and nothing is required to be valid.

/// How many names are kept.
const NAMES_MAX: usize = 4_000;

/// The deepest level that is looked at; the members of a top object are level 1.
const DEPTH_MAX: usize = 4;

/// The longest text that is kept with its name.
const VALUE_BYTES_MAX: usize = 100;

/// The names at the start of a file.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    depth: usize,
    name: String,
    value: Option<String>,
}

impl Shape {
    /// Returns the names in `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut shape = Self::default();
        let mut open: Vec<u8> = Vec::new();
        let mut name_next = false;
        let mut at = 0;
        while at < bytes.len() && shape.members.len() < NAMES_MAX {
            match bytes[at] {
                byte @ (b'{' | b'[') => {
                    open.push(byte);
                    name_next = byte == b'{';
                }
                b'}' | b']' => {
                    open.pop();
                    name_next = false;
                }
                b',' => name_next = open.last() == Some(&b'{'),
                b'"' => {
                    let end = string_end(bytes, at + 1);
                    shape.add(&bytes[at + 1..end], open.len(), name_next);
                    name_next = false;
                    at = end;
                }
                _ => {}
            }
            at += 1;
        }
        shape
    }

    /// Returns whether there is a member `name` at `depth`.
    pub(crate) fn has(&self, depth: usize, name: &str) -> bool {
        self.named(depth, name).next().is_some()
    }

    /// Returns whether a member `name` at `depth` has the text `value`.
    pub(crate) fn has_value(&self, depth: usize, name: &str, value: &str) -> bool {
        self.named(depth, name).any(|found| found == Some(value))
    }

    /// Returns whether a member `name` at `depth` has a text that starts with `start`.
    pub(crate) fn has_value_start(&self, depth: usize, name: &str, start: &str) -> bool {
        self.named(depth, name).flatten().any(|found| found.starts_with(start))
    }

    /// Returns the text of the first member `name` at `depth`.
    pub(crate) fn first_value(&self, depth: usize, name: &str) -> Option<&str> {
        self.named(depth, name).next().flatten()
    }

    fn named<'s>(&'s self, depth: usize, name: &str) -> impl Iterator<Item = Option<&'s str>> {
        self.members
            .iter()
            .filter(move |member| member.depth == depth && member.name == name)
            .map(|member| member.value.as_deref())
    }

    /// Adds a string: a name, or the text of the name before it.
    fn add(&mut self, text: &[u8], depth: usize, is_name: bool) {
        if depth > DEPTH_MAX || text.len() > VALUE_BYTES_MAX {
            return;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        if is_name {
            self.members.push(Member { depth, name: text, value: None });
        } else if let Some(last) = self.members.last_mut()
            && last.depth == depth
            && last.value.is_none()
        {
            last.value = Some(text);
        }
    }
}

/// Returns where the string that begins at `from` ends; the end of the bytes when it does not.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
