//! What a span says of itself in the words of those who show traces: OpenTelemetry's conventions for generative AI, and the
//! attributes that LangSmith, OpenInference (Phoenix) and Langfuse read beside them.

use model::prices::{self, Prices};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use protocol::Usage;

use crate::settings::Content;
use crate::span::{Kind, Outcome, Span};

/// Returns the attributes of a span; what went in and came out is among them only where it is wanted.
pub(crate) fn attributes(span: &Span, prices: &Prices, content: Content) -> Vec<KeyValue> {
    let mut told = Attributes(Vec::new());
    told.whose(span);
    match span.kind {
        Kind::Run => told.agent(span),
        Kind::Model => told.model(span, prices),
        Kind::Tool => told.tool(span),
        Kind::Step
        | Kind::Compaction
        | Kind::Draft
        | Kind::Interrupt
        | Kind::Resume
        | Kind::Decision
        | Kind::Accept
        | Kind::Seed
        | Kind::Cleanup
        | Kind::Mirror
        | Kind::Transfer => {}
    }
    told.kinds(span.kind);
    told.metadata(span);
    if let Some(reason) = failure(span, content) {
        told.add("error.type", "failed");
        told.add("error.message", reason.to_owned());
    }
    if content == Content::Sent {
        told.content(span);
    }
    told.0
}

/// Returns why it failed, if it did. What a tool printed is content.
pub(crate) fn failure(span: &Span, content: Content) -> Option<&str> {
    match &span.outcome {
        Outcome::Failed(_) if span.kind == Kind::Tool && content == Content::Kept => Some("the tool failed"),
        Outcome::Failed(reason) => Some(reason),
        Outcome::Working | Outcome::Done | Outcome::Waiting | Outcome::Stopped => None,
    }
}

struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.0.push(KeyValue::new(key.into(), value));
    }

    fn maybe(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.0.extend(value.map(|value| KeyValue::new(key, value)));
    }

    /// Where it belongs: the thread is what they call a session or a conversation.
    fn whose(&mut self, span: &Span) {
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
        self.maybe("langsmith.span.parent_id", span.parent_id.map(|id| id.uuid().to_string()));
    }

    fn kinds(&mut self, kind: Kind) {
        let (langsmith, openinference, langfuse) = match kind {
            Kind::Run => ("chain", "AGENT", "agent"),
            Kind::Model => ("llm", "LLM", "generation"),
            Kind::Tool => ("tool", "TOOL", "tool"),
            Kind::Interrupt | Kind::Resume | Kind::Decision => ("chain", "CHAIN", "event"),
            Kind::Step
            | Kind::Compaction
            | Kind::Draft
            | Kind::Accept
            | Kind::Seed
            | Kind::Cleanup
            | Kind::Mirror
            | Kind::Transfer => ("chain", "CHAIN", "span"),
        };
        self.add("langsmith.span.kind", langsmith);
        self.add("openinference.span.kind", openinference);
        self.add("langfuse.observation.type", langfuse);
    }

    fn agent(&mut self, span: &Span) {
        self.add("gen_ai.operation.name", "invoke_agent");
        let assistant_id = span.metadata.get("assistant_id").and_then(serde_json::Value::as_str);
        self.maybe("gen_ai.agent.name", assistant_id.map(str::to_owned));
        self.maybe("gen_ai.agent.id", assistant_id.map(str::to_owned));
    }

    fn model(&mut self, span: &Span, prices: &Prices) {
        self.add("gen_ai.operation.name", "chat");
        if let Some(named) = &span.model {
            let (provider, name) = named.split_once('/').unwrap_or(("", named));
            let provider = provider_name(provider);
            // The older name beside the newer one: there are readers of either.
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
            self.usage(usage);
            let price = span.model.as_deref().and_then(|model| prices::price(model, prices));
            self.maybe("llm.cost.total", price.map(|price| prices::cost(usage, &price)));
        }
    }

    fn usage(&mut self, usage: &Usage) {
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

    fn tool(&mut self, span: &Span) {
        let Some(tool) = &span.tool else { return };
        self.add("gen_ai.operation.name", "execute_tool");
        self.add("gen_ai.tool.name", tool.name.clone());
        self.add("gen_ai.tool.call.id", facts::redact(&tool.call_id).into_owned());
        self.add("gen_ai.tool.type", "function");
        self.add("tool.name", tool.name.clone());
    }

    fn metadata(&mut self, span: &Span) {
        if !span.tags.is_empty() {
            self.add("langsmith.span.tags", span.tags.join(","));
            let tags: Vec<StringValue> = span.tags.iter().map(|tag| tag.clone().into()).collect();
            self.add("tag.tags", Value::Array(Array::String(tags.clone())));
            self.add("langfuse.trace.tags", Value::Array(Array::String(tags)));
        }
        for (key, value) in &span.metadata {
            self.add(format!("langsmith.metadata.{key}"), plain(value));
        }
        if !span.metadata.is_empty() {
            let json = serde_json::to_string(&span.metadata).unwrap_or_default();
            self.add("metadata", json);
        }
    }

    fn content(&mut self, span: &Span) {
        for (keys, text) in [
            (["input.value", "gen_ai.prompt"], &span.input),
            (["output.value", "gen_ai.completion"], &span.output),
        ] {
            let Some(text) = text else { continue };
            self.add(keys[0], text.clone());
            if span.kind == Kind::Model {
                self.add(keys[1], text.clone());
            }
        }
    }
}

/// Returns OpenTelemetry's name of a provider.
fn provider_name(own: &str) -> &str {
    match own {
        "openai" | "openai-chat" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    }
}

fn plain(value: &serde_json::Value) -> Value {
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
