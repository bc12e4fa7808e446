//! An outline of the first bytes of a JSON file: member names and short string values, each with its depth. The bytes
//! may be cut off anywhere, so the scanner tracks only strings and brackets and does not require valid JSON.

/// Maximum number of members in an outline. The scan stops there.
const NAMES_MAX: usize = 4_000;

/// Maximum depth of members in an outline. The members of a top-level object have depth 1.
const DEPTH_MAX: usize = 4;

/// Maximum length of a name or string value in an outline, in bytes. Longer ones are left out.
const VALUE_BYTES_MAX: usize = 100;

/// The member names at the start of a JSON file, with short string values. Queries are linear in the number of members.
#[derive(Debug, Default)]
pub(crate) struct JsonOutline {
    /// The members in file order.
    members: Vec<OutlineMember>,
}

/// One member of an object.
#[derive(Debug)]
struct OutlineMember {
    /// Number of open brackets around the name; 1 for a member of a top-level object.
    depth: usize,
    /// The name, without decoding of escapes.
    name: String,
    /// The value, if it is a short string.
    value: Option<String>,
}

impl JsonOutline {
    /// Scans `bytes` once and returns their outline.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut outline = Self::default();
        let mut open: Vec<u8> = Vec::new();
        let mut name_next = false;
        let mut index = 0;
        while index < bytes.len() && outline.members.len() < NAMES_MAX {
            match bytes[index] {
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
                    let end = string_end(bytes, index + 1);
                    let text = &bytes[index + 1..end];
                    if std::mem::take(&mut name_next) {
                        outline.add_name(text, open.len());
                    } else {
                        outline.add_value(text, open.len());
                    }
                    index = end;
                }
                _ => {}
            }
            index += 1;
        }
        outline
    }

    /// Returns whether the outline has a member `name` at `depth`.
    pub(crate) fn has_member(&self, depth: usize, name: &str) -> bool {
        self.member_values(depth, name).next().is_some()
    }

    /// Returns whether a member `name` at `depth` has the string value `value`.
    pub(crate) fn has_value(&self, depth: usize, name: &str, value: &str) -> bool {
        self.member_values(depth, name).any(|actual| actual == Some(value))
    }

    /// Returns whether a member `name` at `depth` has a string value that starts with `start`.
    pub(crate) fn has_value_start(&self, depth: usize, name: &str, start: &str) -> bool {
        self.member_values(depth, name).flatten().any(|actual| actual.starts_with(start))
    }

    /// Returns the string value of the first member `name` at `depth`; `None` if its value is no short string.
    pub(crate) fn first_value(&self, depth: usize, name: &str) -> Option<&str> {
        self.member_values(depth, name).next().flatten()
    }

    /// Returns the values of all members `name` at `depth`, in file order.
    fn member_values<'s>(&'s self, depth: usize, name: &str) -> impl Iterator<Item = Option<&'s str>> {
        self.members
            .iter()
            .filter(move |member| member.depth == depth && member.name == name)
            .map(|member| member.value.as_deref())
    }

    /// Adds a member, whose value is not known yet.
    fn add_name(&mut self, text: &[u8], depth: usize) {
        if let Some(name) = bounded_text(text, depth) {
            self.members.push(OutlineMember { depth, name, value: None });
        }
    }

    /// Sets the value of the last member. A string elsewhere, such as in an array, has another depth and is ignored.
    fn add_value(&mut self, text: &[u8], depth: usize) {
        if let Some(value) = bounded_text(text, depth)
            && let Some(last) = self.members.last_mut()
            && last.depth == depth
            && last.value.is_none()
        {
            last.value = Some(value);
        }
    }
}

/// Returns `text` if its length and depth are within the limits of an outline.
fn bounded_text(text: &[u8], depth: usize) -> Option<String> {
    let within_limits = depth <= DEPTH_MAX && text.len() <= VALUE_BYTES_MAX;
    within_limits.then(|| String::from_utf8_lossy(text).into_owned())
}

/// Returns the index of the closing quote of the string that begins at `start`, or `bytes.len()` if the string is cut
/// off.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut index = start;
    while index < bytes.len() {
        match bytes[index] {
            b'"' => return index,
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
    bytes.len()
}
