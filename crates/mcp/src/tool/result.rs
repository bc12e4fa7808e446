//! Converts a server's result into a tool's output. Text is included up to a limit; longer text and media are stored as
//! artifacts of the thread.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use journal::{Artifact, Write};
use protocol::{ContentBlock, ThreadId, ToolStatus};
use rmcp::model::{CallToolResult, ContentBlock as McpContent, Resource, ResourceContents};
use runtime::{GraphUpdate, ToolOutput};
use serde_json::Value;

/// Maximum number of bytes of text in an output.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// Number of hex digits of an artifact's SHA-256 that the model is shown as its name.
const NAME_DIGITS: usize = 16;
/// Maximum number of images and other media of one result. Further ones are dropped and counted.
const MEDIA_MAX: usize = 16;

/// Builds the output of a tool from a server's result, block by block.
struct OutputBuilder {
    /// The thread that owns the artifacts.
    thread_id: ThreadId,
    /// The creation time of the artifacts.
    now: Timestamp,
    /// The output's content so far.
    content: Vec<ContentBlock>,
    /// Writes that store the artifacts.
    writes: Vec<Write>,
    /// Number of media in the result so far, including dropped ones.
    media: usize,
}

/// Converts a server's result into a tool's output. Structured content is used only if the result has no text, because
/// servers repeat it as text. Artifacts belong to the thread `thread_id` and get the time `now`.
pub(crate) fn to_tool_output(result: CallToolResult, thread_id: ThreadId, now: Timestamp) -> ToolOutput {
    let mut builder = OutputBuilder { thread_id, now, content: Vec::new(), writes: Vec::new(), media: 0 };
    for block in result.content {
        match block {
            McpContent::Text(text) => builder.push_text(text.text),
            McpContent::Image(image) => builder.push_media("image", image.mime_type, &image.data),
            McpContent::Audio(audio) => builder.push_media("sound", audio.mime_type, &audio.data),
            McpContent::ResourceLink(link) => builder.push_text(resource_link_text(&link)),
            McpContent::Resource(embedded) => builder.push_resource(embedded.resource),
            _ => builder.push_text("[content of an unknown kind]".to_owned()),
        }
    }
    let has_text = builder.content.iter().any(|block| matches!(block, ContentBlock::Text { .. }));
    if let (Some(structured), false) = (result.structured_content, has_text) {
        builder.push_text(structured.to_string());
    }
    if builder.media > MEDIA_MAX {
        builder.push_text(format!("[{} more images or other media are left out]", builder.media - MEDIA_MAX));
    }
    if builder.content.is_empty() {
        builder.push_text("(no content)".to_owned());
    }
    builder.truncate_text();
    let status = if result.is_error == Some(true) { ToolStatus::Error } else { ToolStatus::Success };
    let update = GraphUpdate { writes: builder.writes, ..GraphUpdate::default() };
    ToolOutput { status, content: builder.content, update, ..ToolOutput::default() }
}

impl OutputBuilder {
    /// Adds a text block.
    fn push_text(&mut self, text: String) {
        self.content.push(ContentBlock::Text { text });
    }

    /// Adds a media block and stores its bytes. `kind` names the media in error texts. Data that is not valid base64
    /// becomes a text block.
    fn push_media(&mut self, kind: &str, media_type: String, base64: &str) {
        self.media += 1;
        if self.media > MEDIA_MAX {
            return;
        }
        let Ok(bytes) = STANDARD.decode(base64.trim()) else {
            return self.push_text(format!("[{kind} {media_type:?} with invalid base64 data]"));
        };
        let length = bytes.len() as u64;
        let sha256 = self.store_artifact(media_type.clone(), bytes);
        self.content.push(ContentBlock::Media { media_type, sha256: Some(sha256), bytes: Some(length) });
    }

    /// Adds the content of an embedded resource: its address, and its text or media.
    fn push_resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.push_text(format!("[resource {uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                self.push_text(format!("[resource {uri}]"));
                let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                self.push_media("resource", media_type, &blob);
            }
            _ => self.push_text("[a resource of an unknown kind]".to_owned()),
        }
    }

    /// Stores bytes as an artifact of the thread, and returns its SHA-256 as lowercase hex.
    fn store_artifact(&mut self, media_type: String, bytes: Vec<u8>) -> String {
        let sha256 = protocol::sha256_hex(&bytes);
        let (thread_id, created_at) = (self.thread_id, self.now);
        self.writes.push(Write::PutArtifact(Artifact {
            thread_id,
            sha256: sha256.clone(),
            media_type,
            bytes,
            created_at,
        }));
        sha256
    }

    /// If the text is too long, replaces all text blocks by one with the beginning and the end, and stores the whole
    /// text as an artifact.
    fn truncate_text(&mut self) {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            ContentBlock::Thinking { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        });
        let mut whole = texts.collect::<Vec<_>>().join("\n");
        if whole.len() <= OUTPUT_BYTES_MAX {
            return;
        }
        // An artifact is read line by line, and servers often return JSON in one line, so JSON is reformatted.
        if let Ok(value) = serde_json::from_str::<Value>(&whole) {
            whole = format!("{value:#}");
        }
        let head = whole[..whole.floor_char_boundary(OUTPUT_BYTES_MAX / 2)].to_owned();
        let tail = whole[whole.ceil_char_boundary(whole.len() - OUTPUT_BYTES_MAX / 2)..].to_owned();
        let left_out = whole.len() - head.len() - tail.len();
        let name = self.store_artifact("text/plain".to_owned(), whole.into_bytes());
        let name = &name[..NAME_DIGITS];
        let pointer = format!("[{left_out} bytes left out; read_file artifact:{name} shows all of it]");
        self.content.retain(|block| matches!(block, ContentBlock::Media { .. }));
        self.content.insert(0, ContentBlock::text(format!("{head}\n{pointer}\n{tail}")));
    }
}

/// Returns a link to a resource as text. The resource itself is not read.
fn resource_link_text(link: &Resource) -> String {
    let kind = link.mime_type.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
    let about = link.description.as_deref().map(|about| format!(": {about}")).unwrap_or_default();
    format!("[resource {:?} {}{kind}{about}]", link.name, link.uri)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn thread() -> ThreadId {
        ThreadId::from_uuid(Uuid::nil())
    }

    fn convert(result: Value) -> ToolOutput {
        to_tool_output(serde_json::from_value(result).unwrap(), thread(), Timestamp::UNIX_EPOCH)
    }

    fn check(result: Value, expected: &str) {
        let output = convert(result);
        let mut text = format!("{:?}", output.status);
        for block in &output.content {
            match block {
                ContentBlock::Text { text: block_text } => text.push_str(&format!("|{block_text}")),
                ContentBlock::Media { media_type, bytes, .. } => {
                    text.push_str(&format!("|<{media_type} {}>", bytes.unwrap_or_default()));
                }
                other => text.push_str(&format!("|{other:?}")),
            }
        }
        text.push_str(&format!("|{} stored", output.update.writes.len()));
        assert_eq!(text, expected);
    }

    #[test]
    fn every_kind_of_content_is_converted() {
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            "Success|a|b|0 stored",
        );
        check(json!({"content": [{"type": "text", "text": "no"}], "isError": true}), "Error|no|0 stored");
        check(json!({"content": []}), "Success|(no content)|0 stored");
        check(json!({"structuredContent": {"n": 1}, "content": []}), "Success|{\"n\":1}|0 stored");
        check(
            json!({"structuredContent": {"n": 1}, "content": [{"type": "text", "text": "{\"n\": 1}"}]}),
            "Success|{\"n\": 1}|0 stored",
        );
        check(
            json!({"content": [{"type": "image", "data": "AAEC", "mimeType": "image/png"}]}),
            "Success|<image/png 3>|1 stored",
        );
        check(
            json!({"content": [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]}),
            "Success|<audio/wav 1>|1 stored",
        );
        check(
            json!({"content": [{"type": "image", "data": "~", "mimeType": "image/png"}]}),
            "Success|[image \"image/png\" with invalid base64 data]|0 stored",
        );
        check(
            json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/x", "description": "it"}]}),
            "Success|[resource \"a\" file:///a (text/x): it]|0 stored",
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "body"}}]}),
            "Success|[resource x:1]\nbody|0 stored",
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "blob": "AAEC", "mimeType": "application/pdf"}}]}),
            "Success|[resource x:1]|<application/pdf 3>|1 stored",
        );
    }

    #[test]
    fn long_text_is_stored_whole_and_shown_in_part() {
        let long = "é".repeat(OUTPUT_BYTES_MAX);
        let image = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
        let output = convert(
            json!({"content": [{"type": "text", "text": "head"}, image, {"type": "text", "text": long}]}),
        );
        let [ContentBlock::Text { text }, ContentBlock::Media { .. }] = &output.content[..] else {
            panic!("{:?}", output.content)
        };
        let [Write::PutArtifact(_), Write::PutArtifact(whole)] = &output.update.writes[..] else { panic!() };
        assert_eq!(whole.bytes, format!("head\n{long}").into_bytes());
        assert_eq!(whole.sha256, protocol::sha256_hex(&whole.bytes));
        let (head, tail) = text.split_once(&whole.sha256[..16]).unwrap();
        let (head, pointer) = head.rsplit_once('\n').unwrap();
        let tail = tail.strip_prefix(" shows all of it]\n").unwrap();
        let all = String::from_utf8(whole.bytes.clone()).unwrap();
        assert!(head.len() + tail.len() <= OUTPUT_BYTES_MAX && all.starts_with(head) && all.ends_with(tail));
        let left_out = all.len() - head.len() - tail.len();
        assert_eq!(pointer, format!("[{left_out} bytes left out; read_file artifact:"));
    }

    #[test]
    fn long_json_is_stored_with_line_breaks() {
        let long = json!(vec![1; OUTPUT_BYTES_MAX]);
        let output = convert(json!({"structuredContent": long, "content": []}));
        let [Write::PutArtifact(whole)] = &output.update.writes[..] else { panic!() };
        assert!(whole.bytes.starts_with(b"[\n  1,\n  1,"));
    }

    #[test]
    fn media_above_the_limit_are_dropped_and_counted() {
        let image = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
        let output = convert(json!({"content": vec![image; 1_000]}));
        assert_eq!(output.update.writes.len(), MEDIA_MAX);
        let Some(ContentBlock::Text { text }) = output.content.last() else { panic!("{:?}", output.content) };
        assert_eq!(text, "[984 more images or other media are left out]");
    }
}
