// The event stream of a thread: reconnects after failures and closes while the page is hidden. It updates a
// `StreamState`, publishes it at most once per frame, and reports updates.
import { ApiError } from "../api/client";
import { readEvents, type ServerEvent } from "../api/stream";
import type { StreamingMessage, CallProgress } from "./items";
import {
  StreamState,
  emptyUpdate,
  type CompactionProgress,
  type StreamUpdate,
  type RunProgress,
  type StreamEvent,
} from "./streamState";

/** The first and the maximum delay before reconnecting, in milliseconds. */
const RETRY_MS = 500;
const RETRY_MAX_MS = 8_000;
/** Milliseconds after which a hidden page closes its connection. Browsers allow six per server. */
const HIDDEN_MAX_MS = 60_000;
/** Milliseconds after connecting before the state is published, because replayed events arrive at once. */
const SETTLE_MS = 80;
const CHANNELS = ["messages", "tools", "lifecycle", "input", "custom", "history"];

export class LiveStream {
  state = $state<"connecting" | "open" | "lost" | "paused">("connecting");
  streaming = $state.raw<StreamingMessage[]>([]);
  progress = $state.raw<ReadonlyMap<string, CallProgress>>(new Map());
  compaction = $state.raw<CompactionProgress | null>(null);
  run = $state.raw<RunProgress | null>(null);
  notice = $state<string | null>(null);
  failure = $state<string | null>(null);

  #streamState = new StreamState();
  #connection: AbortController | null = null;
  #resume: (() => void) | null = null;
  #frame = 0;
  #publishAt = 0;
  #stopped = false;

  constructor(
    private readonly thread: string,
    /** Called when there is something to load. */
    private readonly onUpdate: (update: StreamUpdate) => void,
  ) {}

  /** Follows the thread until the returned function is called. */
  start(): () => void {
    let hideTimer: ReturnType<typeof setTimeout> | undefined;
    const handleVisibility = () => {
      clearTimeout(hideTimer);
      if (document.visibilityState === "visible") this.#wake();
      else hideTimer = setTimeout(() => this.#suspend(), HIDDEN_MAX_MS);
    };
    const handleOnline = () => this.#wake();
    document.addEventListener("visibilitychange", handleVisibility);
    addEventListener("online", handleOnline);
    void this.#reconnectLoop();
    return () => {
      this.#stopped = true;
      document.removeEventListener("visibilitychange", handleVisibility);
      removeEventListener("online", handleOnline);
      clearTimeout(hideTimer);
      cancelAnimationFrame(this.#frame);
      this.#connection?.abort();
      this.#wake();
    };
  }

  /** The newest journal position that was received. */
  get position(): number {
    return this.#streamState.position;
  }

  /** Discards content that is stored up to the given position. */
  discardStored(readUpTo: number): void {
    this.#streamState.discardStored(readUpTo);
    this.#publish();
  }

  /** Ends a run whose end was not received. */
  endRun(): void {
    this.#streamState.endRun();
    this.#publish();
  }

  /** Dismisses the failure. */
  dismiss(): void {
    this.#streamState.failure = null;
    this.#publish();
  }

  async #reconnectLoop(): Promise<void> {
    let retry = RETRY_MS;
    while (!this.#stopped) {
      if (this.#isPaused()) await this.#delay(Infinity);
      if (this.#stopped) return;
      const onOpen = () => {
        this.state = "open";
        retry = RETRY_MS;
        this.#publishAt = performance.now() + SETTLE_MS;
        this.#streamState.reset();
        // Events may have been missed while disconnected, but the journal has their effects.
        this.onUpdate({ ...emptyUpdate(), hasStored: true, state: true });
      };
      const isPermanent = await this.#connect(onOpen);
      if (this.#stopped || isPermanent) return;
      if (this.#isPaused()) continue;
      this.state = "lost";
      await this.#delay(retry);
      retry = Math.min(RETRY_MAX_MS, retry * 2);
    }
  }

  /** Reads one connection to its end. Returns true if reconnecting is pointless. */
  async #connect(opened: () => void): Promise<boolean> {
    const connection = new AbortController();
    this.#connection = connection;
    const init = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ channels: CHANNELS }),
      signal: connection.signal,
    };
    try {
      await readEvents(
        `/threads/${this.thread}/stream/events`,
        init,
        (event) => this.#receive(event),
        opened,
      );
    } catch (error) {
      if (error instanceof ApiError && [401, 403, 404, 422].includes(error.status)) return true;
    } finally {
      connection.abort();
    }
    return false;
  }

  /** Waits for the delay, or until the page is visible or online again. */
  #delay(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = Number.isFinite(ms) ? setTimeout(() => this.#wake(), ms) : undefined;
      this.#resume = () => {
        clearTimeout(timer);
        this.#resume = null;
        resolve();
      };
    });
  }

  #isPaused(): boolean {
    return this.state === "paused";
  }

  #wake(): void {
    if (this.state === "paused") this.state = "connecting";
    this.#resume?.();
  }

  #suspend(): void {
    this.state = "paused";
    this.#connection?.abort();
    this.#resume?.();
  }

  #receive(event: ServerEvent): void {
    const parsedEvent = parseEvent(event.data);
    if (!parsedEvent) return;
    this.#streamState.applyEvent(parsedEvent);
    this.#frame ||= requestAnimationFrame(() => this.#scheduleDraw());
  }

  #scheduleDraw(): void {
    this.#frame = 0;
    if (performance.now() < this.#publishAt) {
      this.#frame = requestAnimationFrame(() => this.#scheduleDraw());
      return;
    }
    this.#publish();
    const news = this.#streamState.takeUpdate();
    if (Object.values(news).some(Boolean)) this.onUpdate(news);
  }

  #publish(): void {
    const streamState = this.#streamState;
    this.streaming = streamState.streamingMessages();
    this.progress = streamState.progress;
    this.compaction = streamState.compaction;
    this.run = streamState.run;
    this.notice = streamState.notice;
    this.failure = streamState.failure;
  }
}

function parseEvent(data: string): StreamEvent | null {
  try {
    const event = JSON.parse(data) as StreamEvent;
    return typeof event.seq === "number" && event.params ? event : null;
  } catch {
    return null;
  }
}
