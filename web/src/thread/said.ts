// What is told of a running turn and not stored yet: the answer that is being said, the calls that are being worked on, a
// compaction that has begun. Pure: events of the stream in, a picture of the moment out. What is stored is not its business.
import type { Json, JsonObject } from "../api/types";
import type { Saying, Working } from "./items";

/** An event of a thread's stream. */
export interface StreamEvent {
  /** Begins with the id of the run, or with nothing where it is of none. */
  event_id: string;
  /** The place in the stream; `positionOf` says where in the journal that is. */
  seq: number;
  method: string;
  params: { namespace: string[]; timestamp: number; data: JsonObject };
}

/** A compaction that has begun and not come to its end. What came of it is stored, and read like everything that is. */
export interface Compacting {
  trigger: string;
  /** How many messages it condenses. */
  count: number | null;
  /** How large the next request would have been. */
  tokens: number | null;
}

/** How a run stands, as the stream tells it. */
export interface Running {
  id: string;
  since: number;
  /** The tool that it works with, or nothing while the model is asked. */
  tool: string | null;
  does: "turn" | "handoff";
}

/** What the events that were taken mean for what is read from the server. */
export interface News {
  /** Something was stored that is shown: there is more to read. */
  stored: boolean;
  /** How the thread stands may have changed. */
  state: boolean;
  /** Something that was there may be gone: everything is to be read anew. */
  rewritten: boolean;
  /** A run of the thread itself has ended. */
  ended: boolean;
  /** A handoff went on. */
  handoff: boolean;
  /** Something was condensed, or taken back. */
  markers: boolean;
}

/** 2^27: an event's number divided by it is its position in the journal. */
const PLACES_PER_POSITION = 134_217_728;
/** The most characters of a tool's live output that are kept; the rest is read when it is stored. */
const OUTPUT_CHARS = 16_000;

/** What is stored and changes how a thread stands without being shown in its history. */
const STATE_EVENTS = new Set(["thread_renamed", "thread_rewound", "compaction_undone", "run_interrupted"]);

const MARKER_EVENTS = new Set(["middleware:summarize", "compaction_undone", "thread_rewound"]);

/** The tool whose result changes the list of tasks. */
const TASKS_TOOL = "write_todos";

/** The journal's position at which an event was told. */
export function positionOf(seq: number): number {
  return Math.floor(seq / PLACES_PER_POSITION);
}

interface Message extends Saying {
  /** What was stored when it began: it is shown when that is, so that an answer never stands before its question. */
  behind: number;
  /** The position at which it was said to the end; it is stored there. */
  ended: number | null;
}
interface Work extends Working {
  name: string;
  ended: number | null;
}

/** The picture, drawn on from event to event. */
export class Said {
  /** The newest place that was told on this connection. */
  seq = 0;
  /** The newest position of the journal that was told. */
  position = 0;
  run: Running | null = null;
  compacting: Compacting | null = null;
  notice: string | null = null;
  failure: string | null = null;
  private messages = new Map<string, Message>();
  private current: Message | null = null;
  private works = new Map<string, Work>();
  private shown: ReadonlyMap<string, Working> | null = null;
  private news: News = quiet();
  /** The position of the newest thing that was stored and is shown. */
  private newest = 0;
  /** The position up to which the journal was read. */
  private read = 0;

  /** Takes an event in. One that was taken before is not taken again. */
  take(event: StreamEvent): void {
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    const position = positionOf(event.seq);
    this.position = Math.max(this.position, position);
    const { namespace, data, timestamp } = event.params;
    if (namespace.length > 0) return this.within(namespace, event.method, data);
    if (event.method === "messages") this.said(data, position);
    else if (event.method === "tools") this.worked(data, position, timestamp);
    else if (event.method === "lifecycle") this.lived(data, timestamp, event.event_id.split(":", 1)[0] ?? "");
    else if (event.method === "custom") this.told(text(data.name), object(data.payload));
    else if (event.method === "input.requested") this.news.state = true;
    else if (event.method === "history") this.stored(data);
  }

  /** What the events since the last question mean. */
  takeNews(): News {
    const { news } = this;
    this.news = quiet();
    return news;
  }

  /** Forgets what is stored up to there: it is read from the journal. */
  settle(readUpTo: number): void {
    this.read = Math.max(this.read, readUpTo);
    const isStored = (thing: { ended: number | null }) => thing.ended !== null && thing.ended <= readUpTo;
    for (const [id, message] of this.messages) if (isStored(message)) this.messages.delete(id);
    for (const [id, work] of this.works) if (isStored(work)) this.works.delete(id);
    this.shown = null;
    if (this.current && !this.messages.has(this.current.id)) this.current = null;
  }

  /** Forgets what is not stored: it is told again from its beginning. What a server has said that is gone, its successor says anew, at
   *  the same places. */
  again(): void {
    this.seq = 0;
    this.over();
  }

  /** Forgets everything of a run that is over. */
  over(): void {
    this.run = null;
    this.current = null;
    this.messages.clear();
    this.works.clear();
    this.shown = null;
    this.compacting = null;
  }

  /** The answers that are being said, in the order in which they began. */
  saying(): Saying[] {
    return [...this.messages.values()]
      .filter(({ text: said, thinking, behind }) => (said !== "" || thinking !== "") && behind <= this.read)
      .map(({ id, thinking, text: said }) => ({ id, thinking, text: said }));
  }

  /** The calls that are being worked on: the same map until something of it changes. */
  get working(): ReadonlyMap<string, Working> {
    this.shown ??= new Map(
      [...this.works].map(([id, { since, output, doing, thread }]) => [id, { since, output, doing, thread }]),
    );
    return this.shown;
  }

  private said(data: JsonObject, position: number): void {
    const { current } = this;
    switch (data.event) {
      case "message-start":
        if (data.role !== "ai") return;
        this.current = { id: text(data.id), thinking: "", text: "", behind: this.newest, ended: null };
        this.messages.set(this.current.id, this.current);
        return;
      case "content-block-delta": {
        if (!current) return;
        const delta = object(data.delta);
        if (delta.type === "text-delta") current.text += text(delta.text);
        else if (delta.type === "reasoning-delta") current.thinking += text(delta.reasoning);
        return;
      }
      case "content-block-start": {
        // Two stretches of the same sort are two paragraphs.
        const sort = object(data.content).type;
        if (sort === "text" && current?.text) current.text += "\n\n";
        if (sort === "reasoning" && current?.thinking) current.thinking += "\n\n";
        return;
      }
      case "message-finish":
      case "message-error":
        if (current) current.ended = position;
        this.current = null;
    }
  }

  private worked(data: JsonObject, position: number, at: number): void {
    const id = text(data.tool_call_id);
    this.shown = null;
    if (data.event === "tool-started") {
      const name = text(data.tool_name);
      this.works.set(id, { name, since: at, output: "", doing: null, thread: null, ended: null });
    } else {
      const work = this.works.get(id);
      if (work) work.ended = position;
    }
    const open = [...this.works.values()].filter((work) => work.ended === null);
    if (this.run) this.run = { ...this.run, tool: open.at(-1)?.name ?? null };
  }

  private lived(data: JsonObject, at: number, id: string): void {
    this.news.state = true;
    this.news.stored = true;
    if (data.event === "running") {
      this.failure = null;
      this.compacting = null;
      this.run = { id, since: at, tool: null, does: "turn" };
      return;
    }
    if (data.event === "failed") this.failure = text(data.error) || this.failure || "It failed.";
    this.news.ended = true;
    this.run = null;
    this.notice = null;
    // An answer that was cut off is stored as far as it came; what is not stored by now will not be.
    for (const thing of [...this.messages.values(), ...this.works.values()]) thing.ended ??= this.position;
    this.current = null;
    this.compacting = null;
  }

  private told(name: string, payload: JsonObject): void {
    if (name === "tool_output") {
      const work = this.works.get(text(payload.tool_call_id));
      this.shown = null;
      if (work) work.output = (work.output + text(payload.text)).slice(-OUTPUT_CHARS);
    } else if (name === "compacting") {
      this.compacted(payload);
    } else if (name === "notice") {
      this.notice = text(payload.text) || null;
    } else if (name === "progress") {
      const [what, done, total] = [text(payload.what), Number(payload.done), Number(payload.total)];
      this.notice = total > 0 ? `${what} ${done} of ${total}` : what;
    }
  }

  private compacted(payload: JsonObject): void {
    const [count, tokens] = [number(payload.replaced_count), number(payload.tokens_before)];
    this.compacting = payload.state === "began" ? { trigger: text(payload.trigger), count, tokens } : null;
    this.news.stored = true;
    this.news.state = true;
  }

  /** What a sub-agent does is told below the call that began it; the page says in a word what that is at the moment. */
  private within(namespace: string[], method: string, data: JsonObject): void {
    const work = this.works.get(namespace[0]?.replace(/^tools:/, "") ?? "");
    if (!work) return;
    this.shown = null;
    if (method === "tools" && data.event === "tool-started") work.doing = text(data.tool_name);
    else if (method === "messages" && data.event === "message-start" && data.role === "ai")
      work.doing = "thinking";
    else if (method === "lifecycle" && typeof data.thread_id === "string") work.thread = data.thread_id;
  }

  private stored(data: JsonObject): void {
    // What has no entry is not shown in the history, so there is nothing to read.
    if (data.entry !== null) {
      this.news.stored = true;
      this.newest = this.position;
    }
    // The list of tasks is part of how a thread stands.
    if (TASKS_TOOL === nameOf(object(data.entry))) this.news.state = true;
    const [type, content] = [text(data.event_type), object(data.content)];
    if (data.event === "missed" || type === "thread_rewound") this.news.rewritten = true;
    if (type.startsWith("handoff_")) this.news.handoff = true;
    if (MARKER_EVENTS.has(type) || data.event === "missed") this.news.markers = true;
    if (type === "handoff_requested" && this.run) this.run = { ...this.run, does: "handoff" };
    if (type === "run_failed") this.failure = text(content.message) || null;
    if (STATE_EVENTS.has(type) || type.startsWith("handoff_")) this.news.state = true;
  }
}

/** News of nothing. */
export function quiet(): News {
  return { stored: false, state: false, rewritten: false, ended: false, handoff: false, markers: false };
}

/** The tool whose result an entry is. */
function nameOf(entry: JsonObject): string {
  return entry.type === "tool" ? text(entry.name) || text(object(entry.call).name) : "";
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function number(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}

function object(value: Json | undefined): JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}
