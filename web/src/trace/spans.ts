// What happened in a run, as stretches of time: made from the run's events and nothing else. Pure; how it is drawn is
// Waterfall's.
//
// The journal holds what is done, not what begins. A model call therefore begins where the event before it is, a tool
// call where it was allowed or called, unless the entry says how long it took.
import type { JournalEvent, JsonObject, Usage } from "../api/types";
import { counted } from "../ui/format";
import { noteOf } from "./notes";
import {
  argumentOf,
  beginning,
  blocksOf,
  modelName,
  NO_USAGE,
  number,
  object,
  plus,
  text,
  textOf,
  usageOf,
} from "./read";

export type SpanKind = "queue" | "human" | "model" | "tool" | "internal" | "compaction" | "question" | "note";
/** `waiting`: a person has to answer; `lost`: the run ended before it did. */
export type SpanState = "done" | "working" | "waiting" | "failed" | "lost";

/** A stretch of a run, or a moment of it. */
export interface Span {
  id: string;
  kind: SpanKind;
  /** What it is: a model, a tool, what happened. */
  label: string;
  /** What tells it from its like: an argument, a reason, the first words. */
  detail: string;
  /** 1 for what the run did, 2 for what belongs to the span above. */
  depth: 1 | 2;
  /** Milliseconds since the epoch; both the same for a moment. */
  start: number;
  end: number;
  state: SpanState;
  usage: Usage | null;
  /** The message to look at, if it is one. */
  message: number | null;
  /** The thread of a sub-agent, or the child of a handoff. */
  thread: string | null;
  handoff: string | null;
  /** The call, of a tool's span. */
  call: { id: string; name: string; args: JsonObject | null } | null;
  /** What it was made from, in order. */
  events: JournalEvent[];
}

export interface Totals {
  /** The answers of the run. */
  model: Usage;
  /** Summaries, drafts, titles. */
  internal: Usage;
  subagents: Usage;
  all: Usage;
}

/** How a run stands; `asked` when it stopped for a person. */
export type RunState = "pending" | "running" | "asked" | "success" | "error" | "cancelled" | "timeout";

export interface Trace {
  state: RunState;
  /** Why it failed. */
  error: string | null;
  start: number;
  end: number;
  spans: Span[];
  totals: Totals;
}

/** What is known of a run beside its events. */
export interface RunFacts {
  status: string;
  created_at: string;
}

/** Milliseconds in line below which nothing is said of it. */
const QUEUE_MS_MIN = 100;
/** Turns the events of a run, in any order, into what is drawn. `now` is where what goes on ends for the moment. */
export function trace(events: readonly JournalEvent[], run: RunFacts, now: number): Trace {
  return new Folding(run, now).fold(events.toSorted((a, b) => a.seq - b.seq));
}

class Folding {
  private readonly spans: Span[] = [];
  private readonly tools = new Map<string, Span>();
  /** Events that are shown with the span that comes next: what was read for an answer, what was asked of the drafts. */
  private beside: JournalEvent[] = [];
  /** Internal calls whose compaction has not come yet: one transaction stores both. */
  private internal: Span[] = [];
  private before = 0;
  private created = 0;
  private hasBegun = false;
  private state: RunState = "pending";
  private error: string | null = null;

  constructor(
    private readonly run: RunFacts,
    private readonly now: number,
  ) {}

  fold(events: JournalEvent[]): Trace {
    const [first] = events;
    this.created = Math.min(Date.parse(this.run.created_at), first ? Date.parse(first.created_at) : Infinity);
    this.before = this.created;
    for (const event of events) this.take(event, Date.parse(event.created_at));
    this.close();
    const start = this.spans.reduce((least, span) => Math.min(least, span.start), this.created);
    const end = this.spans.reduce((most, span) => Math.max(most, span.end), this.before);
    const { state, error, spans } = this;
    return { state, error, start, end, spans, totals: totalsOf(spans) };
  }

  private take(event: JournalEvent, at: number): void {
    const { content } = event;
    switch (event.event_type) {
      case "human_message":
        this.moment(event, at, { kind: "human", label: "Message", detail: beginning(textOf(event)) });
        break;
      case "run_started":
        this.begun(event, at);
        break;
      case "ai_message":
        this.answered(event, at);
        break;
      case "tool_call_decided":
        this.decided(event, at);
        break;
      case "tool_message":
        this.returned(event, at);
        break;
      case "subagent_ended":
        this.subagent(event, at);
        break;
      case "model_called":
        this.calledInternally(event, at);
        break;
      case "middleware:summarize":
        this.condensed(event, at);
        break;
      case "memory_read":
        // It says what an answer was made with, and is no work of its own.
        this.beside.push(event);
        break;
      case "run_interrupted":
        this.asked(event, at);
        break;
      case "run_failed":
        this.state = "error";
        this.error = text(content.message) || text(content.kind) || "failed";
        this.moment(event, at, { kind: "note", label: "Failed", detail: this.error, state: "failed" });
        break;
      case "run_ended":
        this.state = endOf(text(content.status));
        this.moment(event, at, { kind: "note", label: "Ended", detail: text(content.status) });
        break;
      default:
        this.moment(event, at, { kind: "note", ...noteOf(event) });
    }
    this.before = Math.max(this.before, at);
  }

  private begun(event: JournalEvent, at: number): void {
    if (!this.hasBegun && at - this.created >= QUEUE_MS_MIN)
      this.add({ id: "queue", kind: "queue", label: "Waited in line", start: this.created, end: at });
    const how = text(event.content.how);
    const label = this.hasBegun ? "Went on" : "Began";
    const detail = [how === "admitted" ? "" : how, modelName(text(event.content.model))].filter(Boolean);
    this.moment(event, at, { kind: "note", label, detail: detail.join(" · ") });
    this.hasBegun = true;
    this.state = "running";
  }

  private answered(event: JournalEvent, at: number): void {
    const { content } = event;
    const blocks = blocksOf(event);
    const calls = blocks.filter((block) => block.type === "tool_call");
    const said = beginning(textOf(event));
    const isCut = content.incomplete === true;
    this.stretch(event, at, {
      kind: "model",
      label: modelName(text(content.model)) || "Model",
      detail: isCut ? `cut off${said && `: ${said}`}` : said || calls.map((call) => call.name).join(", "),
      start: this.startOf(event, at, this.before),
      state: isCut ? "lost" : "done",
      usage: usageOf(content.usage),
      message: event.seq,
    });
    for (const { id, name, args } of calls) {
      const span = this.add({
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
      this.tools.set(id, span);
    }
  }

  /** Returns the span of a call; one that an earlier run made is told here first. */
  private tool(id: string, name: string, at: number): Span {
    const known = this.tools.get(id);
    if (known) return known;
    const span = this.add({
      id,
      kind: "tool",
      label: name || "Tool",
      start: Math.min(this.before, at),
      end: at,
      state: "working",
      call: { id, name, args: null },
    });
    this.tools.set(id, span);
    return span;
  }

  private decided(event: JournalEvent, at: number): void {
    const span = this.tool(text(event.content.call_id), text(event.content.tool), at);
    span.events.push(event);
    // What was thought over before is no work of the tool's.
    span.start = Math.max(span.start, at);
    span.end = Math.max(span.end, at);
  }

  private returned(event: JournalEvent, at: number): void {
    const span = this.tool(text(event.content.call_id), text(event.content.name), at);
    span.events.push(event);
    span.message = event.seq;
    span.end = Math.max(span.start, at);
    span.start = this.startOf(event, span.end, span.start);
    span.state = event.content.status === "error" ? "failed" : "done";
  }

  private subagent(event: JournalEvent, at: number): void {
    const { content } = event;
    const span = this.tool(text(content.call_id), "task", at);
    span.events.push(event);
    span.thread = text(content.thread_id) || null;
    span.usage = usageOf(content.usage);
    if (span.state === "working") span.end = Math.max(span.end, at);
  }

  private calledInternally(event: JournalEvent, at: number): void {
    const { content } = event;
    const problem = text(content.problem) || text(content.error);
    const purpose = text(content.purpose).replaceAll("_", " ") || "internal call";
    const span = this.stretch(event, at, {
      kind: "internal",
      label: modelName(text(content.model)) || "Model",
      detail: problem ? `${purpose}: ${problem}` : purpose,
      start: this.startOf(event, at, this.before),
      state: problem ? "failed" : "done",
      usage: usageOf(content.usage),
      handoff: text(content.handoff_id) || null,
    });
    if (text(content.purpose) === "compaction") this.internal.push(span);
  }

  private condensed(event: JournalEvent, at: number): void {
    const { content } = event;
    const sizes = [content.tokens_before, content.tokens_after].map((tokens) =>
      number(tokens).toLocaleString("en"),
    );
    // Its events carry the moment at which it began.
    const end = at + number(content.duration_ms);
    const span = this.stretch(event, end, {
      kind: "compaction",
      label: `${counted(number(content.replaced_count), "message")} condensed`,
      detail: `${text(content.trigger)} · ${sizes.join(" → ")} tokens`,
      start: at,
      message: event.seq,
    });
    this.before = Math.max(this.before, end);
    // Its calls of the model are part of it, and their tokens are counted there.
    const calls = this.internal.splice(0);
    for (const call of calls) Object.assign(call, { depth: 2, start: at, end });
    const [first] = calls;
    if (!first) return;
    this.spans.splice(this.spans.indexOf(span), 1);
    this.spans.splice(this.spans.indexOf(first), 0, span);
  }

  private asked(event: JournalEvent, at: number): void {
    const { actions } = event.content;
    this.state = "asked";
    this.moment(event, at, {
      kind: "question",
      label: "Stopped to ask",
      detail: Array.isArray(actions) ? actions.map(text).join(", ") : "",
      state: "waiting",
    });
  }

  /** What has no end yet ends with the run, or goes on. */
  private close(): void {
    const isOver = this.settle();
    const end = isOver ? this.before : Math.max(this.before, this.now);
    for (const span of this.tools.values()) {
      if (span.state !== "working") continue;
      span.end = Math.max(span.start, end);
      if (this.state === "asked") span.state = "waiting";
      else if (isOver) span.state = "lost";
    }
    const isAnswering = ![...this.tools.values()].some((span) => span.state === "working");
    if (isOver || !this.hasBegun || !isAnswering) return;
    this.add({ id: "now", kind: "model", label: "Model", start: this.before, end, state: "working" });
  }

  /** Says whether the run is over: its events do, or the server when they do not. */
  private settle(): boolean {
    if (this.state === "running" || this.state === "pending") {
      if (this.run.status === "pending" || this.run.status === "running") return false;
      this.state = endOf(this.run.status);
    }
    return true;
  }

  /** `duration_ms` before its end, where an event has it. */
  private startOf(event: JournalEvent, end: number, otherwise: number): number {
    const took = event.content.duration_ms ?? object(event.metadata ?? {}).duration_ms;
    return typeof took === "number" ? end - took : Math.min(otherwise, end);
  }

  private stretch(
    event: JournalEvent,
    end: number,
    span: Partial<Span> & Pick<Span, "kind" | "label" | "start">,
  ) {
    const events = [...this.beside, event];
    this.beside = [];
    return this.add({ id: event.event_id, end, events, ...span });
  }

  private moment(event: JournalEvent, at: number, span: Partial<Span> & Pick<Span, "kind" | "label">): void {
    const message = event.category === "message" ? event.seq : null;
    this.add({ id: event.event_id, start: at, end: at, events: [event], message, ...span });
  }

  private add(span: Partial<Span> & Pick<Span, "id" | "kind" | "label" | "start" | "end">): Span {
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
    this.spans.push(whole);
    return whole;
  }
}

function endOf(status: string): RunState {
  const known: RunState[] = ["success", "error", "cancelled", "timeout"];
  // The Agent Server calls a run interrupted that was stopped by a person.
  return known.find((state) => state === status) ?? (status === "interrupted" ? "cancelled" : "success");
}

function totalsOf(spans: Span[]): Totals {
  const sum = (kind: SpanKind) =>
    spans.filter((span) => span.kind === kind).reduce((total, span) => plus(total, span.usage), NO_USAGE);
  const [model, internal, subagents] = [sum("model"), sum("internal"), sum("tool")];
  return { model, internal, subagents, all: plus(plus(model, internal), subagents) };
}
