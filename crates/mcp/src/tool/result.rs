//! From a server's result to a tool's output: text as far as a request has room for it, everything else as artifacts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use journal::{Artifact, Write};
use protocol::{Block, ThreadId, ToolStatus};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use runtime::{ToolOutput, Update};
use serde_json::Value;

/// The most bytes of text a call returns.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// Hex digits of an artifact's name that are shown.
const NAME_DIGITS: usize = 16;
/// The most images and other media of one result.
const MEDIA_MAX: usize = 16;

/// What a result comes to, piece by piece.
struct Pieces {
    thread_id: ThreadId,
    now: Timestamp,
    content: Vec<Block>,
    writes: Vec<Write>,
    media: usize,
}

pub(crate) fn output(result: CallToolResult, thread_id: ThreadId, now: Timestamp) -> ToolOutput {
    let mut pieces = Pieces { thread_id, now, content: Vec::new(), writes: Vec::new(), media: 0 };
    for block in result.content {
        match block {
            ContentBlock::Text(text) => pieces.text(text.text),
            ContentBlock::Image(image) => pieces.media("image", image.mime_type, &image.data),
            ContentBlock::Audio(audio) => pieces.media("sound", audio.mime_type, &audio.data),
            ContentBlock::ResourceLink(link) => pieces.text(linked(&link)),
            ContentBlock::Resource(embedded) => pieces.resource(embedded.resource),
            _ => pieces.text("[content of a kind that is not known here]".to_owned()),
        }
    }
    let has_text = pieces.content.iter().any(|block| matches!(block, Block::Text { .. }));
    if let (Some(structured), false) = (result.structured_content, has_text) {
        pieces.text(structured.to_string());
    }
    if pieces.media > MEDIA_MAX {
        pieces.text(format!("[{} more images or other media are left out]", pieces.media - MEDIA_MAX));
    }
    if pieces.content.is_empty() {
        pieces.text("(no content)".to_owned());
    }
    pieces.fit();
    let status = if result.is_error == Some(true) { ToolStatus::Error } else { ToolStatus::Success };
    let update = Update { writes: pieces.writes, ..Update::default() };
    ToolOutput { status, content: pieces.content, update, ..ToolOutput::default() }
}

impl Pieces {
    fn text(&mut self, text: String) {
        self.content.push(Block::Text { text });
    }

    fn media(&mut self, kind: &str, media_type: String, base64: &str) {
        self.media += 1;
        if self.media > MEDIA_MAX {
            return;
        }
        let Ok(bytes) = STANDARD.decode(base64.trim()) else {
            return self.text(format!("[{kind} {media_type:?} that is no base64]"));
        };
        let length = bytes.len() as u64;
        let sha256 = self.keep(media_type.clone(), bytes);
        self.content.push(Block::Media { media_type, sha256: Some(sha256), bytes: Some(length) });
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.text(format!("[resource {uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                self.text(format!("[resource {uri}]"));
                let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                self.media("resource", media_type, &blob);
            }
            _ => self.text("[a resource of a kind that is not known here]".to_owned()),
        }
    }

    /// Keeps bytes as an artifact and returns its name.
    fn keep(&mut self, media_type: String, bytes: Vec<u8>) -> String {
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

    /// Keeps the beginning and the end of too much text, and all of it as an artifact.
    fn fit(&mut self) {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            Block::Thinking { .. } | Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => {
                None
            }
        });
        let mut whole = texts.collect::<Vec<_>>().join("\n");
        if whole.len() <= OUTPUT_BYTES_MAX {
            return;
        }
        // An artifact is read by lines, and much of what servers say is one line of JSON.
        if let Ok(value) = serde_json::from_str::<Value>(&whole) {
            whole = format!("{value:#}");
        }
        let head = whole[..whole.floor_char_boundary(OUTPUT_BYTES_MAX / 2)].to_owned();
        let tail = whole[whole.ceil_char_boundary(whole.len() - OUTPUT_BYTES_MAX / 2)..].to_owned();
        let left_out = whole.len() - head.len() - tail.len();
        let name = self.keep("text/plain".to_owned(), whole.into_bytes());
        let name = &name[..NAME_DIGITS];
        let pointer = format!("[{left_out} bytes left out; read_file artifact:{name} shows all of it]");
        self.content.retain(|block| matches!(block, Block::Media { .. }));
        self.content.insert(0, Block::text(format!("{head}\n{pointer}\n{tail}")));
    }
}

fn linked(link: &Resource) -> String {
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
        output(serde_json::from_value(result).unwrap(), thread(), Timestamp::UNIX_EPOCH)
    }

    fn check(result: Value, expected: &str) {
        let output = convert(result);
        let mut text = format!("{:?}", output.status);
        for block in &output.content {
            match block {
                Block::Text { text: said } => text.push_str(&format!("|{said}")),
                Block::Media { media_type, bytes, .. } => {
                    text.push_str(&format!("|<{media_type} {}>", bytes.unwrap_or_default()));
                }
                other => text.push_str(&format!("|{other:?}")),
            }
        }
        text.push_str(&format!("|{} kept", output.update.writes.len()));
        assert_eq!(text, expected);
    }

    #[test]
    fn every_kind_of_content_has_a_form() {
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            "Success|a|b|0 kept",
        );
        check(json!({"content": [{"type": "text", "text": "no"}], "isError": true}), "Error|no|0 kept");
        check(json!({"content": []}), "Success|(no content)|0 kept");
        check(json!({"structuredContent": {"n": 1}, "content": []}), "Success|{\"n\":1}|0 kept");
        check(
            json!({"structuredContent": {"n": 1}, "content": [{"type": "text", "text": "{\"n\": 1}"}]}),
            "Success|{\"n\": 1}|0 kept",
        );
        check(
            json!({"content": [{"type": "image", "data": "AAEC", "mimeType": "image/png"}]}),
            "Success|<image/png 3>|1 kept",
        );
        check(
            json!({"content": [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]}),
            "Success|<audio/wav 1>|1 kept",
        );
        check(
            json!({"content": [{"type": "image", "data": "~", "mimeType": "image/png"}]}),
            "Success|[image \"image/png\" that is no base64]|0 kept",
        );
        check(
            json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/x", "description": "it"}]}),
            "Success|[resource \"a\" file:///a (text/x): it]|0 kept",
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "body"}}]}),
            "Success|[resource x:1]\nbody|0 kept",
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "x:1", "blob": "AAEC", "mimeType": "application/pdf"}}]}),
            "Success|[resource x:1]|<application/pdf 3>|1 kept",
        );
    }

    #[test]
    fn too_much_text_is_kept_whole_and_shown_in_part() {
        let long = "é".repeat(OUTPUT_BYTES_MAX);
        let image = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
        let output = convert(
            json!({"content": [{"type": "text", "text": "head"}, image, {"type": "text", "text": long}]}),
        );
        let [Block::Text { text }, Block::Media { .. }] = &output.content[..] else {
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
    fn too_much_json_is_kept_in_lines() {
        let long = json!(vec![1; OUTPUT_BYTES_MAX]);
        let output = convert(json!({"structuredContent": long, "content": []}));
        let [Write::PutArtifact(whole)] = &output.update.writes[..] else { panic!() };
        assert!(whole.bytes.starts_with(b"[\n  1,\n  1,"));
    }

    #[test]
    fn more_media_than_there_is_room_for_are_counted() {
        let image = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
        let output = convert(json!({"content": vec![image; 1_000]}));
        assert_eq!(output.update.writes.len(), MEDIA_MAX);
        let Some(Block::Text { text }) = output.content.last() else { panic!("{:?}", output.content) };
        assert_eq!(text, "[984 more images or other media are left out]");
    }
}
