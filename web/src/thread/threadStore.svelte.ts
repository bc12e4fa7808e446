// The state and the actions of one thread: loaded entries, streamed content, thread details and context
// usage. It talks to the server; the components render.
import { notifyError, notify } from "../app/notices.svelte";
import { refreshSession as lookAtHandoffs } from "../app/session.svelte";
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import type { ContextUsage, HistoryEntry, Run, ThreadDetail, ThreadState } from "../api/types";
import { HistoryFeed } from "./historyFeed.svelte";
import { LiveStream } from "./liveStream.svelte";
import type { StreamUpdate } from "./streamState";
import { sendMessage, type RequestFailure } from "./sendMessage";

/** Milliseconds between two polls of the thread, in case an event was missed. */
const POLL_MS = 4_000;
/** Milliseconds after a change before the context is measured. */
const MEASURE_MS = 250;
/** Limits of the requests for markers and runs, more than any screen can show. */
const MARKERS_MAX = 500;
const RUNS_MAX = 50;

/** A queued message. */
export interface QueuedMessage {
  run: string;
  text: string;
}

export class ThreadStore {
  readonly feed: HistoryFeed;
  readonly live: LiveStream;
  detail = $state.raw<ThreadDetail | null>(null);
  context = $state.raw<ContextUsage | null>(null);
  queue = $state.raw<QueuedMessage[]>([]);
  /** All markers and their undoing, wherever in the thread. */
  markers = $state.raw<HistoryEntry[]>([]);
  isStopping = $state(false);
  isCompactionRequested = $state(false);

  #pendingRefresh: Promise<void> | null = null;
  #needsRefresh = false;
  /** Withdrawn messages, which the server still lists for a moment. */
  #withdrawn = new Set<string>();
  #idlePolls = 0;
  /** True if the window must be reloaded, because entries may have been removed. */
  #needsReload = false;
  /** The failed run whose failure was dismissed. */
  #dismissedRun = $state<string | null>(null);
  #measureTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly id: string) {
    this.feed = new HistoryFeed(id);
    this.live = new LiveStream(id, (update) => void this.#applyUpdate(update));
  }

  /**
   * The state of the thread. The stream reports the start and the failure of a run before the server's state
   * changes.
   */
  get state(): ThreadState {
    if (this.live.run) return "running";
    if (this.live.failure) return "error";
    const state = this.detail?.state ?? "idle";
    return state === "error" && this.failure === null ? "idle" : state;
  }

  /** The failure of the last run. */
  get failure(): string | null {
    if (this.live.failure) return this.live.failure;
    const { detail } = this;
    if (detail?.state !== "error" || detail.last_run?.run_id === this.#dismissedRun) return null;
    return detail.last_run?.error ?? "The last run failed.";
  }

  /** A suggestion how to fix the failure. */
  get hint(): string | null {
    const { detail } = this;
    return this.failure !== null && detail?.state === "error" ? (detail.last_run?.hint ?? null) : null;
  }

  /** Opens and follows the thread. Returns a function that stops it. */
  start(at: number | null): () => void {
    const stopRun = this.live.start();
    void this.feed.open(at).then(() => this.#readNew());
    void this.refresh();
    void this.#fetchContext();
    void this.#readMarkers();
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void this.refresh();
    }, POLL_MS);
    return () => {
      clearInterval(timer);
      clearTimeout(this.#measureTimer);
      stopRun();
    };
  }

  /** Loads the details of the thread. */
  refresh(): Promise<void> {
    if (this.#pendingRefresh) {
      this.#needsRefresh = true;
      return this.#pendingRefresh;
    }
    this.#pendingRefresh = (async () => {
      do {
        this.#needsRefresh = false;
        await this.#fetchDetail();
      } while (this.#needsRefresh);
    })().finally(() => (this.#pendingRefresh = null));
    return this.#pendingRefresh;
  }

  /** Sends a message. Returns null if the server has accepted it, otherwise the failure. */
  async send(text: string): Promise<RequestFailure | null> {
    // Before the request: the new run can fail before the response arrives, and its failure must stay visible.
    this.dismiss();
    const problem = await sendMessage(this.id, text);
    if (problem) {
      // The composer shows the failure.
      await this.refresh();
      this.dismiss();
      return problem;
    }
    await Promise.all([this.refresh(), this.#readNew()]);
    return null;
  }

  /** Stops the run. */
  async stop(): Promise<void> {
    const run = this.live.run?.id || this.detail?.active_run?.run_id;
    if (!run || this.isStopping) return;
    this.isStopping = true;
    try {
      await api.cancel(this.id, run);
    } catch (error) {
      // The run has ended meanwhile.
      if (!(error instanceof ApiError && error.status === 409)) notifyError("Could not stop the run", error);
    }
    await this.refresh();
    this.isStopping = false;
  }

  /** Withdraws a queued message. Returns true if it was still queued. */
  async withdraw(queued: QueuedMessage): Promise<boolean> {
    try {
      await api.cancel(this.id, queued.run);
    } catch (error) {
      notifyError("Could not withdraw the message", error);
      void this.refresh();
      return false;
    }
    this.#withdrawn.add(queued.run);
    this.queue = this.queue.filter(({ run }) => run !== queued.run);
    return true;
  }

  /** Retries the failed run. */
  async retryRun(): Promise<void> {
    // Before the request, for the same reason as in `send`.
    const dismissedRun = this.#dismissedRun;
    this.dismiss();
    try {
      await api.retry(this.id);
      await this.refresh();
    } catch (error) {
      this.#dismissedRun = dismissedRun;
      notifyError("Could not retry", error);
    }
  }

  /** Compacts the context. Returns true if the request succeeded. */
  async compact(focus?: string): Promise<boolean> {
    let isDone = true;
    this.isCompactionRequested = true;
    try {
      const { outcome, reason } = await api.compact(this.id, focus ? { focus } : {});
      if (outcome === "nothing") notify("Nothing to compact", { hint: reason ?? null });
    } catch (error) {
      notifyError("Could not compact the conversation", error);
      isDone = false;
    }
    this.isCompactionRequested = false;
    await this.refreshAll();
    return isDone;
  }

  /** Undoes the newest compaction. Returns true on success. */
  async uncompact(): Promise<boolean> {
    let isDone = true;
    try {
      await api.uncompact(this.id);
      notify("Compaction undone");
    } catch (error) {
      notifyError("Could not undo the compaction", error);
      isDone = false;
    }
    await this.refreshAll();
    return isDone;
  }

  /** Refreshes everything that an action may have changed. */
  async refreshAll(): Promise<void> {
    await Promise.all([this.refresh(), this.#readNew(), this.#fetchContext(), this.#readMarkers()]);
  }

  /** Measures the context after a change that is not an update of the stream. */
  measureContext(): void {
    this.#scheduleMeasure();
  }

  /** Dismisses the failure of the last run. */
  dismiss(): void {
    this.#dismissedRun = this.detail?.last_run?.run_id ?? null;
    this.live.dismiss();
  }

  async #applyUpdate(news: StreamUpdate): Promise<void> {
    if (news.handoff) void lookAtHandoffs();
    if (news.state || news.ended) void this.refresh();
    if (news.ended || news.markers) this.#scheduleMeasure();
    this.#needsReload ||= news.historyChanged;
    await this.#reloadHistory();
    if (news.hasStored) await this.#readNew();
    if (news.markers) void this.#readMarkers();
  }

  /**
   * Reloads the window if entries may have been removed. A failed reload is retried with the next update or
   * poll.
   */
  async #reloadHistory(): Promise<void> {
    if (!this.#needsReload) return;
    this.#needsReload = false;
    try {
      await this.feed.reread();
    } catch {
      this.#needsReload = true;
    }
  }

  /** Loads new entries, then discards the streamed content they replace. */
  async #readNew(): Promise<void> {
    if (this.feed.state === "missing") return;
    const position = this.live.position;
    try {
      await this.feed.sync();
      this.live.discardStored(position);
    } catch (error) {
      // A lost connection is shown elsewhere and retried.
      if (error instanceof ApiError && error.status === 404) this.feed.state = "missing";
    }
  }

  async #fetchDetail(): Promise<void> {
    if (this.feed.state === "missing") return;
    const previous = this.detail;
    let detail: ThreadDetail;
    try {
      detail = await api.thread(this.id);
    } catch (error) {
      // The application shell shows when the server is unreachable.
      if (error instanceof ApiError && error.status === 404) this.feed.state = "missing";
      return;
    }
    this.detail = reuseInterrupts(previous, detail);
    void this.#reloadHistory();
    this.#idlePolls = detail.active_run ? 0 : this.#idlePolls + 1;
    // The end of the run was not received.
    if (this.live.run && this.#idlePolls > 1) this.live.endRun();
    if (previous && detail.last_seq > previous.last_seq) void this.#readNew();
    if (previous?.active_run && !detail.active_run) this.#scheduleMeasure();
    await this.#fetchQueue(detail);
  }

  async #fetchQueue(detail: ThreadDetail): Promise<void> {
    if (detail.pending_runs === 0) {
      this.queue = [];
      return;
    }
    const runs = await api.runs(this.id, RUNS_MAX).catch(() => [] as Run[]);
    this.queue = runs
      .filter((run) => run.status === "pending" && !this.#withdrawn.has(run.run_id))
      .map((run) => ({ run: run.run_id, text: messageTextOf(run) }))
      .filter(({ text }) => text !== "")
      .reverse();
  }

  /** Measures once for several events of the same change. */
  #scheduleMeasure(): void {
    clearTimeout(this.#measureTimer);
    this.#measureTimer = setTimeout(() => void this.#fetchContext(), MEASURE_MS);
  }

  async #fetchContext(): Promise<void> {
    this.context = await api.context(this.id).catch(() => this.context);
  }

  async #readMarkers(): Promise<void> {
    const page = await api.history(this.id, { shown: "markers", limit: MARKERS_MAX }).catch(() => null);
    if (page) this.markers = page.entries;
  }
}

/**
 * Returns the new details with unchanged questions reused, so that an answer in progress is not re-rendered.
 */
function reuseInterrupts(previous: ThreadDetail | null, next: ThreadDetail): ThreadDetail {
  if (!previous) return next;
  if (JSON.stringify(previous) === JSON.stringify(next)) return previous;
  const known = new Map(previous.interrupts.map((interrupt) => [interrupt.id, interrupt]));
  return { ...next, interrupts: next.interrupts.map((interrupt) => known.get(interrupt.id) ?? interrupt) };
}

function messageTextOf(run: Run): string {
  const content = run.kwargs?.input?.messages?.at(-1)?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((block) => (block && typeof block === "object" && "text" in block ? String(block.text) : ""))
    .join("\n");
}
