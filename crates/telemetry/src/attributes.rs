//! The attributes of an exported span: OpenTelemetry's semantic conventions for generative AI, and the attributes that
//! LangSmith, OpenInference (Phoenix) and Langfuse read. One value can be sent under several keys.

use model::prices::{self, Prices};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use protocol::Usage;

use crate::settings::ContentPolicy;
use crate::span::{SpanOutcome, TraceSpan, TraceSpanKind};

/// Returns the attributes of a span. Its input and output are included only if `content` allows it. The cost of a model
/// call is included if `prices` has a price for the model.
pub(crate) fn span_attributes(span: &TraceSpan, prices: &Prices, content: ContentPolicy) -> Vec<KeyValue> {
    let mut attributes = AttributeList(Vec::new());
    attributes.add_session(span);
    match span.kind {
        TraceSpanKind::Run => attributes.add_agent(span),
        TraceSpanKind::Model => attributes.add_model(span, prices),
        TraceSpanKind::Tool => attributes.add_tool(span),
        TraceSpanKind::Step
        | TraceSpanKind::Compaction
        | TraceSpanKind::Draft
        | TraceSpanKind::Interrupt
        | TraceSpanKind::Resume
        | TraceSpanKind::Decision
        | TraceSpanKind::Accept
        | TraceSpanKind::Seed
        | TraceSpanKind::Cleanup
        | TraceSpanKind::Mirror
        | TraceSpanKind::Transfer => {}
    }
    attributes.add_kinds(span.kind);
    attributes.add_metadata(span);
    if let Some(reason) = failure_text(span, content) {
        attributes.add("error.type", "failed");
        attributes.add("error.message", reason.to_owned());
    }
    if content == ContentPolicy::SendRedacted {
        attributes.add_content(span);
    }
    attributes.0
}

/// Returns the failure message of a span that failed. The message of a tool is the tool's output and therefore content; a
/// fixed text replaces it when content is omitted.
pub(crate) fn failure_text(span: &TraceSpan, content: ContentPolicy) -> Option<&str> {
    match &span.outcome {
        SpanOutcome::Failed(_) if span.kind == TraceSpanKind::Tool && content == ContentPolicy::Omit => {
            Some("the tool failed")
        }
        SpanOutcome::Failed(reason) => Some(reason),
        SpanOutcome::Working | SpanOutcome::Done | SpanOutcome::Waiting | SpanOutcome::Stopped => None,
    }
}

/// A builder of the attributes of one span.
struct AttributeList(Vec<KeyValue>);

impl AttributeList {
    /// Appends an attribute.
    fn add(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.0.push(KeyValue::new(key.into(), value));
    }

    /// Appends an attribute if it has a value.
    fn add_optional(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.0.extend(value.map(|value| KeyValue::new(key, value)));
    }

    /// Adds the ids that locate the span: thread, run, handoff, trace and parent. Other tools call a thread a session or a
    /// conversation.
    fn add_session(&mut self, span: &TraceSpan) {
        let thread_id = span.thread_id.to_string();
        self.add("session.id", thread_id.clone());
        self.add("gen_ai.conversation.id", thread_id.clone());
        self.add("langsmith.metadata.thread_id", thread_id.clone());
        self.add("segue.thread_id", thread_id);
        self.add("segue.seq", i64::try_from(span.seq).unwrap_or(i64::MAX));
        if let Some(run_id) = span.run_id {
            self.add("segue.run_id", run_id.to_string());
            self.add("langsmith.metadata.run_id", run_id.to_string());
        }
        if let Some(handoff_id) = span.handoff_id {
            self.add("segue.handoff_id", handoff_id.to_string());
        }
        self.add("langsmith.trace.name", span.name.clone());
        self.add("langsmith.trace.id", span.trace_id.uuid().to_string());
        self.add("langsmith.span.id", span.span_id.uuid().to_string());
        self.add_optional("langsmith.span.parent_id", span.parent_id.map(|id| id.uuid().to_string()));
    }

    /// Adds the kind of the span in the vocabularies of LangSmith, OpenInference and Langfuse.
    fn add_kinds(&mut self, kind: TraceSpanKind) {
        let (langsmith, openinference, langfuse) = match kind {
            TraceSpanKind::Run => ("chain", "AGENT", "agent"),
            TraceSpanKind::Model => ("llm", "LLM", "generation"),
            TraceSpanKind::Tool => ("tool", "TOOL", "tool"),
            TraceSpanKind::Interrupt | TraceSpanKind::Resume | TraceSpanKind::Decision => {
                ("chain", "CHAIN", "event")
            }
            TraceSpanKind::Step
            | TraceSpanKind::Compaction
            | TraceSpanKind::Draft
            | TraceSpanKind::Accept
            | TraceSpanKind::Seed
            | TraceSpanKind::Cleanup
            | TraceSpanKind::Mirror
            | TraceSpanKind::Transfer => ("chain", "CHAIN", "span"),
        };
        self.add("langsmith.span.kind", langsmith);
        self.add("openinference.span.kind", openinference);
        self.add("langfuse.observation.type", langfuse);
    }

    /// Adds the operation and the agent of a run.
    fn add_agent(&mut self, span: &TraceSpan) {
        self.add("gen_ai.operation.name", "invoke_agent");
        let assistant_id = span.metadata.get("assistant_id").and_then(serde_json::Value::as_str);
        self.add_optional("gen_ai.agent.name", assistant_id.map(str::to_owned));
        self.add_optional("gen_ai.agent.id", assistant_id.map(str::to_owned));
    }

    /// Adds the operation, provider, model, finish reason, usage and cost of a model call.
    fn add_model(&mut self, span: &TraceSpan, prices: &Prices) {
        self.add("gen_ai.operation.name", "chat");
        if let Some(model) = &span.model {
            let (provider, name) = model.split_once('/').unwrap_or(("", model));
            let provider = provider_name(provider);
            // `gen_ai.provider.name` replaced `gen_ai.system` in the conventions; some collectors read only the older key.
            self.add("gen_ai.system", provider.to_owned());
            self.add("gen_ai.provider.name", provider.to_owned());
            self.add("gen_ai.request.model", name.to_owned());
            self.add("gen_ai.response.model", name.to_owned());
            self.add("llm.provider", provider.to_owned());
            self.add("llm.model_name", name.to_owned());
        }
        if let Some(reason) = span.metadata.get("finish_reason").and_then(serde_json::Value::as_str) {
            let reasons: Vec<StringValue> = vec![reason.to_owned().into()];
            self.add("gen_ai.response.finish_reasons", Value::Array(Array::String(reasons)));
        }
        if let Some(usage) = &span.usage {
            self.add_usage(usage);
            let price = span.model.as_deref().and_then(|model| prices::find_price(model, prices));
            self.add_optional("llm.cost.total", price.map(|price| prices::cost(usage, &price)));
        }
    }

    /// Adds the token counts under the keys of OpenTelemetry and OpenInference.
    fn add_usage(&mut self, usage: &Usage) {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = *usage;
        for (keys, tokens) in [
            (["gen_ai.usage.input_tokens", "llm.token_count.prompt"], input_tokens),
            (["gen_ai.usage.output_tokens", "llm.token_count.completion"], output_tokens),
            (["gen_ai.usage.total_tokens", "llm.token_count.total"], usage.total_tokens()),
            (
                ["gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"],
                cache_read_tokens,
            ),
            (
                ["gen_ai.usage.cache_creation.input_tokens", "llm.token_count.prompt_details.cache_write"],
                cache_write_tokens,
            ),
        ] {
            for key in keys {
                self.add(key, i64::try_from(tokens).unwrap_or(i64::MAX));
            }
        }
    }

    /// Adds the operation, tool name and call id of a tool call. The call id comes from a model, so it is redacted.
    fn add_tool(&mut self, span: &TraceSpan) {
        let Some(tool) = &span.tool else { return };
        self.add("gen_ai.operation.name", "execute_tool");
        self.add("gen_ai.tool.name", tool.name.clone());
        self.add("gen_ai.tool.call.id", secrets::redact(&tool.call_id).into_owned());
        self.add("gen_ai.tool.type", "function");
        self.add("tool.name", tool.name.clone());
    }

    /// Adds the tags and metadata of the span: each metadata field for LangSmith, and all of them as JSON for OpenInference.
    fn add_metadata(&mut self, span: &TraceSpan) {
        if !span.tags.is_empty() {
            self.add("langsmith.span.tags", span.tags.join(","));
            let tags: Vec<StringValue> = span.tags.iter().map(|tag| tag.clone().into()).collect();
            self.add("tag.tags", Value::Array(Array::String(tags.clone())));
            self.add("langfuse.trace.tags", Value::Array(Array::String(tags)));
        }
        for (key, value) in &span.metadata {
            self.add(format!("langsmith.metadata.{key}"), to_otel_value(value));
        }
        if !span.metadata.is_empty() {
            let json = serde_json::to_string(&span.metadata).unwrap_or_default();
            self.add("metadata", json);
        }
    }

    /// Adds the input and output of the span. The span has redacted them already.
    fn add_content(&mut self, span: &TraceSpan) {
        for (keys, text) in [
            (["input.value", "gen_ai.prompt"], &span.input),
            (["output.value", "gen_ai.completion"], &span.output),
        ] {
            let Some(text) = text else { continue };
            self.add(keys[0], text.clone());
            if span.kind == TraceSpanKind::Model {
                self.add(keys[1], text.clone());
            }
        }
    }
}

/// Returns the name of a provider in OpenTelemetry's conventions. Unknown names are returned unchanged.
fn provider_name(provider: &str) -> &str {
    match provider {
        "openai" | "openai-chat" => "openai",
        "gemini" => "gcp.gemini",
        provider => provider,
    }
}

/// Converts a JSON value into an attribute value. Arrays, objects and null become JSON text.
fn to_otel_value(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Bool(value) => (*value).into(),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        serde_json::Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}
