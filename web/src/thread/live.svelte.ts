// The connection over which a thread is followed: opened again when it is lost, closed while nobody looks. It draws the
// picture of `said.ts` on, at most once a frame, and says when there is something to read.
import { ApiError } from "../api/client";
import { follow, type ServerEvent } from "../api/stream";
import type { Saying, Working } from "./items";
import { Said, quiet, type Compacting, type News, type Running, type StreamEvent } from "./said";

/** Milliseconds before a lost connection is tried again: the first time, and at most. */
const RETRY_MS = 500;
const RETRY_MAX_MS = 8_000;
/** Milliseconds after which a page that nobody looks at lets go of its connection. A browser has six for a server. */
const HIDDEN_MS = 60_000;
/** Milliseconds for which a new connection is listened to before anything is drawn: what is told again comes at once. */
const SETTLE_MS = 80;
const CHANNELS = ["messages", "tools", "lifecycle", "input", "custom", "history"];

export class Live {
  state = $state<"connecting" | "open" | "lost" | "resting">("connecting");
  saying = $state.raw<Saying[]>([]);
  working = $state.raw<ReadonlyMap<string, Working>>(new Map());
  compacting = $state.raw<Compacting | null>(null);
  run = $state.raw<Running | null>(null);
  notice = $state<string | null>(null);
  failure = $state<string | null>(null);

  private said = new Said();
  private connection: AbortController | null = null;
  private waiting: (() => void) | null = null;
  private frame = 0;
  private drawFrom = 0;
  private stopped = false;

  constructor(
    private readonly thread: string,
    /** Is told when there is something to read. */
    private readonly heard: (news: News) => void,
  ) {}

  /** Follows the thread until the returned function is called. */
  start(): () => void {
    let hiding: ReturnType<typeof setTimeout> | undefined;
    const looked = () => {
      clearTimeout(hiding);
      if (document.visibilityState === "visible") this.wake();
      else hiding = setTimeout(() => this.rest(), HIDDEN_MS);
    };
    const online = () => this.wake();
    document.addEventListener("visibilitychange", looked);
    addEventListener("online", online);
    void this.keepFollowing();
    return () => {
      this.stopped = true;
      document.removeEventListener("visibilitychange", looked);
      removeEventListener("online", online);
      clearTimeout(hiding);
      cancelAnimationFrame(this.frame);
      this.connection?.abort();
      this.wake();
    };
  }

  /** The newest position of the journal that was told. */
  get position(): number {
    return this.said.position;
  }

  /** Forgets what is stored up to there. */
  settle(readUpTo: number): void {
    this.said.settle(readUpTo);
    this.draw();
  }

  /** Forgets a run that is known to be over though nothing told of its end. */
  over(): void {
    this.said.over();
    this.draw();
  }

  /** Takes the note away that something failed. */
  dismiss(): void {
    this.said.failure = null;
    this.draw();
  }

  private async keepFollowing(): Promise<void> {
    let retry = RETRY_MS;
    while (!this.stopped) {
      if (this.isResting()) await this.pause(Infinity);
      if (this.stopped) return;
      const opened = () => {
        this.state = "open";
        retry = RETRY_MS;
        this.drawFrom = performance.now() + SETTLE_MS;
        this.said.again();
        // Whatever happened while nobody listened is in the journal.
        this.heard({ ...quiet(), stored: true, state: true });
      };
      const isGone = await this.connect(opened);
      if (this.stopped || isGone) return;
      if (this.isResting()) continue;
      this.state = "lost";
      await this.pause(retry);
      retry = Math.min(RETRY_MAX_MS, retry * 2);
    }
  }

  /** Reads one connection to its end. Returns whether there is no sense in another one. */
  private async connect(opened: () => void): Promise<boolean> {
    const connection = new AbortController();
    this.connection = connection;
    const init = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ channels: CHANNELS }),
      signal: connection.signal,
    };
    try {
      await follow(`/threads/${this.thread}/stream/events`, init, (event) => this.take(event), opened);
    } catch (error) {
      if (error instanceof ApiError && [401, 403, 404, 422].includes(error.status)) return true;
    } finally {
      connection.abort();
    }
    return false;
  }

  /** Waits until it is time to try again, or somebody comes back. */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = Number.isFinite(ms) ? setTimeout(() => this.wake(), ms) : undefined;
      this.waiting = () => {
        clearTimeout(timer);
        this.waiting = null;
        resolve();
      };
    });
  }

  private isResting(): boolean {
    return this.state === "resting";
  }

  private wake(): void {
    if (this.state === "resting") this.state = "connecting";
    this.waiting?.();
  }

  private rest(): void {
    this.state = "resting";
    this.connection?.abort();
    this.waiting?.();
  }

  private take(event: ServerEvent): void {
    const told = parsed(event.data);
    if (!told) return;
    this.said.take(told);
    this.frame ||= requestAnimationFrame(() => this.drawSoon());
  }

  private drawSoon(): void {
    this.frame = 0;
    if (performance.now() < this.drawFrom) {
      this.frame = requestAnimationFrame(() => this.drawSoon());
      return;
    }
    this.draw();
    const news = this.said.takeNews();
    if (Object.values(news).some(Boolean)) this.heard(news);
  }

  private draw(): void {
    const { said } = this;
    this.saying = said.saying();
    this.working = said.working;
    this.compacting = said.compacting;
    this.run = said.run;
    this.notice = said.notice;
    this.failure = said.failure;
  }
}

function parsed(data: string): StreamEvent | null {
  try {
    const told = JSON.parse(data) as StreamEvent;
    return typeof told.seq === "number" && told.params ? told : null;
  } catch {
    return null;
  }
}
