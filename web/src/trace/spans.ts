// Derives the spans of a run from its events. Pure; `Waterfall.svelte` renders them.
//
// The journal stores completed work without start events. A model call is therefore assumed to start at the
// previous event, and a tool call when it was approved or proposed, unless an event has a duration.
import type { JournalEvent, JsonObject, TokenUsage } from "../api/types";
import { formatCount } from "../ui/format";
import { noteOf } from "./notes";
import {
  argumentOf,
  firstLine,
  blocksOf,
  modelName,
  NO_USAGE,
  asNumber,
  asObject,
  addUsage,
  asText,
  textOf,
  usageOf,
} from "./eventFields";

export type SpanKind = "queue" | "human" | "model" | "tool" | "internal" | "compaction" | "question" | "note";
/** `waiting`: a person must answer; `lost`: the run ended first. */
export type SpanState = "done" | "working" | "waiting" | "failed" | "lost";

/** A span of a run, or an instant. */
export interface Span {
  id: string;
  kind: SpanKind;
  /** The name: a model, a tool, or an event. */
  label: string;
  /** The detail that distinguishes similar spans: an argument, a reason, or the first line of text. */
  detail: string;
  /** 1 for spans of the run, 2 for children of the span above. */
  depth: 1 | 2;
  /** Milliseconds since the epoch; equal for an instant. */
  start: number;
  end: number;
  state: SpanState;
  usage: TokenUsage | null;
  /** The position of the message, if the span belongs to one. */
  message: number | null;
  /** The thread of a sub-agent, or the child of a handoff. */
  thread: string | null;
  handoff: string | null;
  /** The call of a tool span. */
  call: { id: string; name: string; args: JsonObject | null } | null;
  /** The events of the span, in order. */
  events: JournalEvent[];
}

export interface UsageTotals {
  /** Answers of the agent. */
  model: TokenUsage;
  /** Summaries, drafts and titles. */
  internal: TokenUsage;
  subagents: TokenUsage;
  all: TokenUsage;
}

/** The state of a run; `asked` if it was interrupted for a question. */
export type RunState = "pending" | "running" | "asked" | "success" | "error" | "cancelled" | "timeout";

export interface Trace {
  state: RunState;
  /** The failure. */
  error: string | null;
  start: number;
  end: number;
  spans: Span[];
  totals: UsageTotals;
}

/** The properties of a run that its events do not contain. */
export interface RunSummary {
  status: string;
  created_at: string;
}

/** The minimum queue time in milliseconds that is shown. */
const QUEUE_SPAN_MS_MIN = 100;
/** Builds the trace from the events of a run, in any order. `now` is the provisional end of open spans. */
export function buildTrace(events: readonly JournalEvent[], run: RunSummary, now: number): Trace {
  return new TraceBuilder(run, now).build(events.toSorted((a, b) => a.seq - b.seq));
}

class TraceBuilder {
  readonly #spans: Span[] = [];
  readonly #tools = new Map<string, Span>();
  /** Events to show with the next span, such as the memory read for an answer. */
  #pendingEvents: JournalEvent[] = [];
  /** Internal calls of a compaction whose own event follows in the same transaction. */
  #pendingCalls: Span[] = [];
  #lastTime = 0;
  #created = 0;
  #hasStarted = false;
  #state: RunState = "pending";
  #error: string | null = null;

  constructor(
    private readonly run: RunSummary,
    private readonly now: number,
  ) {}

  build(events: JournalEvent[]): Trace {
    const [first] = events;
    this.#created = Math.min(
      Date.parse(this.run.created_at),
      first ? Date.parse(first.created_at) : Infinity,
    );
    this.#lastTime = this.#created;
    for (const event of events) this.#addEvent(event, Date.parse(event.created_at));
    this.#closeOpenSpans();
    const start = this.#spans.reduce((least, span) => Math.min(least, span.start), this.#created);
    const end = this.#spans.reduce((most, span) => Math.max(most, span.end), this.#lastTime);
    return {
      state: this.#state,
      error: this.#error,
      start,
      end,
      spans: this.#spans,
      totals: totalsOf(this.#spans),
    };
  }

  #addEvent(event: JournalEvent, at: number): void {
    const { content } = event;
    switch (event.event_type) {
      case "human_message":
        this.#addInstant(event, at, { kind: "human", label: "Message", detail: firstLine(textOf(event)) });
        break;
      case "run_started":
        this.#addRunStart(event, at);
        break;
      case "ai_message":
        this.#addAnswer(event, at);
        break;
      case "tool_call_decided":
        this.#addDecision(event, at);
        break;
      case "tool_message":
        this.#addToolResult(event, at);
        break;
      case "subagent_ended":
        this.#addSubagentEnd(event, at);
        break;
      case "model_called":
        this.#addInternalCall(event, at);
        break;
      case "middleware:summarize":
        this.#addCompaction(event, at);
        break;
      case "memory_read":
        // Memory is read for an answer and is not a span of its own.
        this.#pendingEvents.push(event);
        break;
      case "run_interrupted":
        this.#addInterrupt(event, at);
        break;
      case "run_failed":
        this.#state = "error";
        this.#error = asText(content.message) || asText(content.kind) || "failed";
        this.#addInstant(event, at, { kind: "note", label: "Failed", detail: this.#error, state: "failed" });
        break;
      case "run_ended":
        this.#state = runStateOf(asText(content.status));
        this.#addInstant(event, at, { kind: "note", label: "Ended", detail: asText(content.status) });
        break;
      default:
        this.#addInstant(event, at, { kind: "note", ...noteOf(event) });
    }
    this.#lastTime = Math.max(this.#lastTime, at);
  }

  #addRunStart(event: JournalEvent, at: number): void {
    if (!this.#hasStarted && at - this.#created >= QUEUE_SPAN_MS_MIN)
      this.#addSpan({ id: "queue", kind: "queue", label: "Queued", start: this.#created, end: at });
    const how = asText(event.content.how);
    const label = this.#hasStarted ? "Resumed" : "Started";
    const detail = [how === "admitted" ? "" : how, modelName(asText(event.content.model))].filter(Boolean);
    this.#addInstant(event, at, { kind: "note", label, detail: detail.join(" · ") });
    this.#hasStarted = true;
    this.#state = "running";
  }

  #addAnswer(event: JournalEvent, at: number): void {
    const { content } = event;
    const blocks = blocksOf(event);
    const calls = blocks.filter((block) => block.type === "tool_call");
    const firstText = firstLine(textOf(event));
    const isTruncated = content.incomplete === true;
    this.#addSpanOf(event, at, {
      kind: "model",
      label: modelName(asText(content.model)) || "Model",
      detail: isTruncated
        ? `cut off${firstText && `: ${firstText}`}`
        : firstText || calls.map((call) => call.name).join(", "),
      start: this.#startTime(event, at, this.#lastTime),
      state: isTruncated ? "lost" : "done",
      usage: usageOf(content.usage),
      message: event.seq,
    });
    for (const { id, name, args } of calls) {
      const span = this.#addSpan({
        id,
        kind: "tool",
        label: name,
        detail: argumentOf(args),
        depth: 2,
        start: at,
        end: at,
        state: "working",
        message: event.seq,
        call: { id, name, args },
      });
      this.#tools.set(id, span);
    }
  }

  /** Returns the span of a call. A call of an earlier run gets its span here. */
  #toolSpan(id: string, name: string, at: number): Span {
    const known = this.#tools.get(id);
    if (known) return known;
    const span = this.#addSpan({
      id,
      kind: "tool",
      label: name || "Tool",
      start: Math.min(this.#lastTime, at),
      end: at,
      state: "working",
      call: { id, name, args: null },
    });
    this.#tools.set(id, span);
    return span;
  }

  #addDecision(event: JournalEvent, at: number): void {
    const span = this.#toolSpan(asText(event.content.call_id), asText(event.content.tool), at);
    span.events.push(event);
    // The time before the approval is not the tool's.
    span.start = Math.max(span.start, at);
    span.end = Math.max(span.end, at);
  }

  #addToolResult(event: JournalEvent, at: number): void {
    const span = this.#toolSpan(asText(event.content.call_id), asText(event.content.name), at);
    span.events.push(event);
    span.message = event.seq;
    span.end = Math.max(span.start, at);
    span.start = this.#startTime(event, span.end, span.start);
    span.state = event.content.status === "error" ? "failed" : "done";
  }

  #addSubagentEnd(event: JournalEvent, at: number): void {
    const { content } = event;
    const span = this.#toolSpan(asText(content.call_id), "task", at);
    span.events.push(event);
    span.thread = asText(content.thread_id) || null;
    span.usage = usageOf(content.usage);
    if (span.state === "working") span.end = Math.max(span.end, at);
  }

  #addInternalCall(event: JournalEvent, at: number): void {
    const { content } = event;
    const problem = asText(content.problem) || asText(content.error);
    const purpose = asText(content.purpose).replaceAll("_", " ") || "internal call";
    const span = this.#addSpanOf(event, at, {
      kind: "internal",
      label: modelName(asText(content.model)) || "Model",
      detail: problem ? `${purpose}: ${problem}` : purpose,
      start: this.#startTime(event, at, this.#lastTime),
      state: problem ? "failed" : "done",
      usage: usageOf(content.usage),
      handoff: asText(content.handoff_id) || null,
    });
    if (asText(content.purpose) === "compaction") this.#pendingCalls.push(span);
  }

  #addCompaction(event: JournalEvent, at: number): void {
    const { content } = event;
    const sizes = [content.tokens_before, content.tokens_after].map((tokens) =>
      asNumber(tokens).toLocaleString("en"),
    );
    // A compaction event has the time of its start.
    const end = at + asNumber(content.duration_ms);
    const span = this.#addSpanOf(event, end, {
      kind: "compaction",
      label: `${formatCount(asNumber(content.replaced_count), "message")} compacted`,
      detail: `${asText(content.trigger)} · ${sizes.join(" → ")} tokens`,
      start: at,
      message: event.seq,
    });
    this.#lastTime = Math.max(this.#lastTime, end);
    // The compaction's model calls become its children; their tokens are counted there.
    const calls = this.#pendingCalls.splice(0);
    for (const call of calls) Object.assign(call, { depth: 2, start: at, end });
    const [first] = calls;
    if (!first) return;
    this.#spans.splice(this.#spans.indexOf(span), 1);
    this.#spans.splice(this.#spans.indexOf(first), 0, span);
  }

  #addInterrupt(event: JournalEvent, at: number): void {
    const { actions } = event.content;
    this.#state = "asked";
    this.#addInstant(event, at, {
      kind: "question",
      label: "Question",
      detail: Array.isArray(actions) ? actions.map(asText).join(", ") : "",
      state: "waiting",
    });
  }

  /** Open spans end with the run, or now. */
  #closeOpenSpans(): void {
    const isOver = this.#resolveState();
    const end = isOver ? this.#lastTime : Math.max(this.#lastTime, this.now);
    for (const span of this.#tools.values()) {
      if (span.state !== "working") continue;
      span.end = Math.max(span.start, end);
      if (this.#state === "asked") span.state = "waiting";
      else if (isOver) span.state = "lost";
    }
    const isAnswering = ![...this.#tools.values()].some((span) => span.state === "working");
    if (isOver || !this.#hasStarted || !isAnswering) return;
    this.#addSpan({ id: "now", kind: "model", label: "Model", start: this.#lastTime, end, state: "working" });
  }

  /**
   * Resolves the state from the events or, if they do not tell, from the server. Returns true if the run has
   * ended.
   */
  #resolveState(): boolean {
    if (this.#state === "running" || this.#state === "pending") {
      if (this.run.status === "pending" || this.run.status === "running") return false;
      this.#state = runStateOf(this.run.status);
    }
    return true;
  }

  /** Returns the start time: `duration_ms` before the end if the event has it. */
  #startTime(event: JournalEvent, end: number, fallback: number): number {
    const durationMs = event.content.duration_ms ?? asObject(event.metadata ?? {}).duration_ms;
    return typeof durationMs === "number" ? end - durationMs : Math.min(fallback, end);
  }

  #addSpanOf(event: JournalEvent, end: number, span: Partial<Span> & Pick<Span, "kind" | "label" | "start">) {
    const events = [...this.#pendingEvents, event];
    this.#pendingEvents = [];
    return this.#addSpan({ id: event.event_id, end, events, ...span });
  }

  #addInstant(event: JournalEvent, at: number, span: Partial<Span> & Pick<Span, "kind" | "label">): void {
    const message = event.category === "message" ? event.seq : null;
    this.#addSpan({ id: event.event_id, start: at, end: at, events: [event], message, ...span });
  }

  #addSpan(span: Partial<Span> & Pick<Span, "id" | "kind" | "label" | "start" | "end">): Span {
    const whole: Span = {
      detail: "",
      depth: 1,
      state: "done",
      usage: null,
      message: null,
      thread: null,
      handoff: null,
      call: null,
      events: [],
      ...span,
    };
    this.#spans.push(whole);
    return whole;
  }
}

function runStateOf(status: string): RunState {
  const known: RunState[] = ["success", "error", "cancelled", "timeout"];
  // The Agent Server API calls a stopped run `interrupted`.
  return known.find((state) => state === status) ?? (status === "interrupted" ? "cancelled" : "success");
}

function totalsOf(spans: Span[]): UsageTotals {
  const sum = (kind: SpanKind) =>
    spans.filter((span) => span.kind === kind).reduce((total, span) => addUsage(total, span.usage), NO_USAGE);
  const [model, internal, subagents] = [sum("model"), sum("internal"), sum("tool")];
  return { model, internal, subagents, all: addUsage(addUsage(model, internal), subagents) };
}
