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
pub(crate) struct JsonOutline {
    members: Vec<OutlineMember>,
}

#[derive(Debug)]
struct OutlineMember {
    depth: usize,
    name: String,
    value: Option<String>,
}

impl JsonOutline {
    /// Returns the names in `bytes`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
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
                    let text = &bytes[at + 1..end];
                    if std::mem::take(&mut name_next) {
                        shape.add_name(text, open.len());
                    } else {
                        shape.add_value(text, open.len());
                    }
                    at = end;
                }
                _ => {}
            }
            at += 1;
        }
        shape
    }

    /// Returns whether there is a member `name` at `depth`.
    pub(crate) fn has_member(&self, depth: usize, name: &str) -> bool {
        self.member_values(depth, name).next().is_some()
    }

    /// Returns whether a member `name` at `depth` has the text `value`.
    pub(crate) fn has_value(&self, depth: usize, name: &str, value: &str) -> bool {
        self.member_values(depth, name).any(|found| found == Some(value))
    }

    /// Returns whether a member `name` at `depth` has a text that starts with `start`.
    pub(crate) fn has_value_start(&self, depth: usize, name: &str, start: &str) -> bool {
        self.member_values(depth, name).flatten().any(|found| found.starts_with(start))
    }

    /// Returns the text of the first member `name` at `depth`.
    pub(crate) fn first_value(&self, depth: usize, name: &str) -> Option<&str> {
        self.member_values(depth, name).next().flatten()
    }

    fn member_values<'s>(&'s self, depth: usize, name: &str) -> impl Iterator<Item = Option<&'s str>> {
        self.members
            .iter()
            .filter(move |member| member.depth == depth && member.name == name)
            .map(|member| member.value.as_deref())
    }

    /// Adds a name.
    fn add_name(&mut self, text: &[u8], depth: usize) {
        if let Some(name) = keepable_text(text, depth) {
            self.members.push(OutlineMember { depth, name, value: None });
        }
    }

    /// Adds the text of the name before it; a text elsewhere, such as in a list, is not kept.
    fn add_value(&mut self, text: &[u8], depth: usize) {
        if let Some(value) = keepable_text(text, depth)
            && let Some(last) = self.members.last_mut()
            && last.depth == depth
            && last.value.is_none()
        {
            last.value = Some(value);
        }
    }
}

/// Returns a text that is short and high enough to be kept.
fn keepable_text(text: &[u8], depth: usize) -> Option<String> {
    let kept = depth <= DEPTH_MAX && text.len() <= VALUE_BYTES_MAX;
    kept.then(|| String::from_utf8_lossy(text).into_owned())
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
