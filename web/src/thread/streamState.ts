// The state of a run that is not stored yet: streamed answers, running calls and a running compaction. Pure:
// it folds stream events into the current state. Stored entries are not its concern.
import type { Json, JsonObject } from "../api/types";
import type { StreamingMessage, CallProgress } from "./items";

/** An event of a thread's stream. */
export interface StreamEvent {
  /** Starts with the run id, or is empty before the colon for events outside of runs. */
  event_id: string;
  /** The stream position; `positionOf` converts it to a journal position. */
  seq: number;
  method: string;
  params: { namespace: string[]; timestamp: number; data: JsonObject };
}

/** A running compaction. Its result is stored and loaded like any entry. */
export interface CompactionProgress {
  trigger: string;
  /** The number of messages that are compacted. */
  count: number | null;
  /** The estimated tokens of the next request. */
  tokens: number | null;
}

/** A running run. */
export interface RunProgress {
  id: string;
  since: number;
  /** The tool that is running, or null while the model is called. */
  tool: string | null;
  kind: "turn" | "handoff";
}

/** The effects of the received events on the loaded data. */
export interface StreamUpdate {
  /** Entries were stored: there is more to load. */
  hasStored: boolean;
  /** The state of the thread may have changed. */
  state: boolean;
  /** Entries may have been removed: everything must be reloaded. */
  historyChanged: boolean;
  /** A run of this thread has ended. */
  ended: boolean;
  /** A handoff has changed. */
  handoff: boolean;
  /** A compaction was stored or undone. */
  markers: boolean;
}

/** 2^27: an event's number divided by it is the journal position. */
const SEQS_PER_POSITION = 134_217_728;
/** The maximum number of characters of live output; the rest is loaded when it is stored. */
const OUTPUT_CHARS = 16_000;

/** Stored events that change the state of a thread without a history entry. */
const STATE_EVENTS = new Set(["thread_renamed", "thread_rewound", "compaction_undone", "run_interrupted"]);

const MARKER_EVENTS = new Set(["middleware:summarize", "compaction_undone", "thread_rewound"]);

/** The tool that changes the task list. */
const TASKS_TOOL = "write_todos";

/** Returns the journal position of an event. */
export function positionOf(seq: number): number {
  return Math.floor(seq / SEQS_PER_POSITION);
}

interface BufferedMessage extends StreamingMessage {
  /**
   * The newest stored entry when the message started. The message is hidden until that entry is loaded, so an
   * answer never appears above its question.
   */
  afterPosition: number;
  /** The position at which the message ended. It is stored there. */
  ended: number | null;
}
interface BufferedCall extends CallProgress {
  name: string;
  ended: number | null;
}

/** Folds stream events into the current state. */
export class StreamState {
  /** The newest stream position of this connection. */
  seq = 0;
  /** The newest journal position that was received. */
  position = 0;
  run: RunProgress | null = null;
  compaction: CompactionProgress | null = null;
  notice: string | null = null;
  failure: string | null = null;
  #messages = new Map<string, BufferedMessage>();
  #currentMessage: BufferedMessage | null = null;
  #calls = new Map<string, BufferedCall>();
  #progressCache: ReadonlyMap<string, CallProgress> | null = null;
  #update: StreamUpdate = emptyUpdate();
  /** The position of the newest stored entry that has been announced. */
  #newestPosition = 0;
  /** The position up to which the journal was loaded. */
  #readPosition = 0;

  /** Applies an event. An event that was already applied is ignored. */
  applyEvent(event: StreamEvent): void {
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    const position = positionOf(event.seq);
    this.position = Math.max(this.position, position);
    const { namespace, data, timestamp } = event.params;
    if (namespace.length > 0) return this.#applySubagent(namespace, event.method, data);
    if (event.method === "messages") this.#applyMessage(data, position);
    else if (event.method === "tools") this.#applyTool(data, position, timestamp);
    else if (event.method === "lifecycle")
      this.#applyLifecycle(data, timestamp, event.event_id.split(":", 1)[0] ?? "");
    else if (event.method === "custom") this.#applyCustom(asText(data.name), asObject(data.payload));
    else if (event.method === "input.requested") this.#update.state = true;
    else if (event.method === "history") this.#applyHistory(data);
  }

  /** Returns the effects of the events since the last call. */
  takeUpdate(): StreamUpdate {
    const update = this.#update;
    this.#update = emptyUpdate();
    return update;
  }

  /** Discards content that is stored up to the given position, because it is loaded from the journal. */
  discardStored(readUpTo: number): void {
    this.#readPosition = Math.max(this.#readPosition, readUpTo);
    const isStored = (item: { ended: number | null }) => item.ended !== null && item.ended <= readUpTo;
    for (const [id, message] of this.#messages) if (isStored(message)) this.#messages.delete(id);
    for (const [id, call] of this.#calls) if (isStored(call)) this.#calls.delete(id);
    this.#progressCache = null;
    if (this.#currentMessage && !this.#messages.has(this.#currentMessage.id)) this.#currentMessage = null;
  }

  /**
   * Resets the state for a new connection, which replays all content that is not stored. After a restart, the
   * server reuses the same stream positions for new content.
   */
  reset(): void {
    this.seq = 0;
    this.endRun();
  }

  /** Discards the state of a finished run. */
  endRun(): void {
    this.run = null;
    this.#currentMessage = null;
    this.#messages.clear();
    this.#calls.clear();
    this.#progressCache = null;
    this.compaction = null;
  }

  /** Returns the streamed answers in the order in which they started. */
  streamingMessages(): StreamingMessage[] {
    return [...this.#messages.values()]
      .filter(
        ({ text, thinking, afterPosition }) =>
          (text !== "" || thinking !== "") && afterPosition <= this.#readPosition,
      )
      .map(({ id, thinking, text }) => ({ id, thinking, text }));
  }

  /** The running calls. Returns the same map until something changes. */
  get progress(): ReadonlyMap<string, CallProgress> {
    this.#progressCache ??= new Map(
      [...this.#calls].map(([id, { since, output, currentTool, thread }]) => [
        id,
        { since, output, currentTool, thread },
      ]),
    );
    return this.#progressCache;
  }

  #applyMessage(data: JsonObject, position: number): void {
    const currentMessage = this.#currentMessage;
    switch (data.event) {
      case "message-start":
        if (data.role !== "ai") return;
        this.#currentMessage = {
          id: asText(data.id),
          thinking: "",
          text: "",
          afterPosition: this.#newestPosition,
          ended: null,
        };
        this.#messages.set(this.#currentMessage.id, this.#currentMessage);
        return;
      case "content-block-delta": {
        if (!currentMessage) return;
        const delta = asObject(data.delta);
        if (delta.type === "text-delta") currentMessage.text += asText(delta.text);
        else if (delta.type === "reasoning-delta") currentMessage.thinking += asText(delta.reasoning);
        return;
      }
      case "content-block-start": {
        // Consecutive blocks of the same type are separate paragraphs.
        const sort = asObject(data.content).type;
        if (sort === "text" && currentMessage?.text) currentMessage.text += "\n\n";
        if (sort === "reasoning" && currentMessage?.thinking) currentMessage.thinking += "\n\n";
        return;
      }
      case "message-finish":
      case "message-error":
        if (currentMessage) currentMessage.ended = position;
        this.#currentMessage = null;
    }
  }

  #applyTool(data: JsonObject, position: number, at: number): void {
    const id = asText(data.tool_call_id);
    this.#progressCache = null;
    if (data.event === "tool-started") {
      const name = asText(data.tool_name);
      this.#calls.set(id, { name, since: at, output: "", currentTool: null, thread: null, ended: null });
    } else {
      const call = this.#calls.get(id);
      if (call) call.ended = position;
    }
    const open = [...this.#calls.values()].filter((call) => call.ended === null);
    if (this.run) this.run = { ...this.run, tool: open.at(-1)?.name ?? null };
  }

  #applyLifecycle(data: JsonObject, at: number, id: string): void {
    this.#update.state = true;
    this.#update.hasStored = true;
    if (data.event === "running") {
      this.failure = null;
      this.compaction = null;
      this.run = { id, since: at, tool: null, kind: "turn" };
      return;
    }
    if (data.event === "failed") this.failure = asText(data.error) || this.failure || "The run failed.";
    this.#update.ended = true;
    this.run = null;
    this.notice = null;
    // An interrupted answer is stored as far as it was received. Content that is not stored by now never will
    // be.
    for (const item of [...this.#messages.values(), ...this.#calls.values()]) item.ended ??= this.position;
    this.#currentMessage = null;
    this.compaction = null;
  }

  #applyCustom(name: string, payload: JsonObject): void {
    if (name === "tool_output") {
      const call = this.#calls.get(asText(payload.tool_call_id));
      this.#progressCache = null;
      if (call) call.output = (call.output + asText(payload.text)).slice(-OUTPUT_CHARS);
    } else if (name === "compacting") {
      this.#applyCompaction(payload);
    } else if (name === "notice") {
      this.notice = asText(payload.text) || null;
    } else if (name === "progress") {
      const [label, done, total] = [asText(payload.what), Number(payload.done), Number(payload.total)];
      this.notice = total > 0 ? `${label} ${done} of ${total}` : label;
    }
  }

  #applyCompaction(payload: JsonObject): void {
    const [count, tokens] = [asNumber(payload.replaced_count), asNumber(payload.tokens_before)];
    this.compaction = payload.state === "began" ? { trigger: asText(payload.trigger), count, tokens } : null;
    this.#update.hasStored = true;
    this.#update.state = true;
  }

  /** Applies an event of a sub-agent to the call that started it, as its current activity. */
  #applySubagent(namespace: string[], method: string, data: JsonObject): void {
    const call = this.#calls.get(namespace[0]?.replace(/^tools:/, "") ?? "");
    if (!call) return;
    this.#progressCache = null;
    if (method === "tools" && data.event === "tool-started") call.currentTool = asText(data.tool_name);
    else if (method === "messages" && data.event === "message-start" && data.role === "ai")
      call.currentTool = "thinking";
    else if (method === "lifecycle" && typeof data.thread_id === "string") call.thread = data.thread_id;
  }

  #applyHistory(data: JsonObject): void {
    // Events without an entry are not part of the history, so there is nothing to load.
    if (data.entry !== null) {
      this.#update.hasStored = true;
      this.#newestPosition = this.position;
    }
    // The task list is part of the thread's state.
    if (TASKS_TOOL === toolNameOf(asObject(data.entry))) this.#update.state = true;
    const [type, content] = [asText(data.event_type), asObject(data.content)];
    if (data.event === "missed" || type === "thread_rewound") this.#update.historyChanged = true;
    if (type.startsWith("handoff_")) this.#update.handoff = true;
    if (MARKER_EVENTS.has(type) || data.event === "missed") this.#update.markers = true;
    if (type === "handoff_requested" && this.run) this.run = { ...this.run, kind: "handoff" };
    if (type === "run_failed") this.failure = asText(content.message) || null;
    if (STATE_EVENTS.has(type) || type.startsWith("handoff_")) this.#update.state = true;
  }
}

/** Returns an update without effects. */
export function emptyUpdate(): StreamUpdate {
  return {
    hasStored: false,
    state: false,
    historyChanged: false,
    ended: false,
    handoff: false,
    markers: false,
  };
}

/** Returns the tool name of a result entry. */
function toolNameOf(entry: JsonObject): string {
  return entry.type === "tool" ? asText(entry.name) || asText(asObject(entry.call).name) : "";
}

function asText(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function asNumber(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}

function asObject(value: Json | undefined): JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}
