// All that the page of one thread knows: what the journal has, what is being said, how the thread stands, and what can be
// done with it. What waits for the server is done here; what it looks like is the components'.
import { failed, notify } from "../app/notices.svelte";
import { look as lookAtHandoffs } from "../app/session.svelte";
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import type { Context, Entry, Run, ThreadDetail, ThreadState } from "../api/types";
import { Feed } from "./feed.svelte";
import { Live } from "./live.svelte";
import type { News } from "./said";
import { sendMessage, type Problem } from "./sending";

/** Milliseconds between looks at how the thread stands, in case that nothing told of a change. */
const LOOK_MS = 4_000;
/** Milliseconds after a change before the context is measured. */
const MEASURE_MS = 250;
/** Markers and runs that are looked at: more than fit on any screen. */
const MARKERS_MAX = 500;
const RUNS_MAX = 50;

/** A message that waits in line. */
export interface Queued {
  run: string;
  text: string;
}

export class Thread {
  readonly feed: Feed;
  readonly live: Live;
  detail = $state.raw<ThreadDetail | null>(null);
  context = $state.raw<Context | null>(null);
  queue = $state.raw<Queued[]>([]);
  /** Every marker and every undoing of one, wherever in the thread. */
  markers = $state.raw<Entry[]>([]);
  stopping = $state(false);
  compactionAsked = $state(false);

  private looking: Promise<void> | null = null;
  private lookAgain = false;
  /** Messages that were taken back: the server says so a moment later. */
  private withdrawn = new Set<string>();
  private looksWithoutRun = 0;
  /** Whether something of the window may be gone that was not read anew yet. */
  private rewritten = false;
  /** The failed run of which one wants to hear no more. */
  private dismissed = $state<string | null>(null);
  private measuring: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly id: string) {
    this.feed = new Feed(id);
    this.live = new Live(id, (news) => void this.heard(news));
  }

  /** The thread's state as the server gives it; of a run's beginning and of its failure the stream tells earlier. */
  get state(): ThreadState {
    if (this.live.run) return "running";
    if (this.live.failure) return "error";
    const state = this.detail?.state ?? "idle";
    return state === "error" && this.failure === null ? "idle" : state;
  }

  /** Why the last run failed. */
  get failure(): string | null {
    if (this.live.failure) return this.live.failure;
    const { detail } = this;
    if (detail?.state !== "error" || detail.last_run?.run_id === this.dismissed) return null;
    return detail.last_run?.error ?? "The last run failed.";
  }

  /** What a person can do about the failure. */
  get hint(): string | null {
    const { detail } = this;
    return this.failure !== null && detail?.state === "error" ? (detail.last_run?.hint ?? null) : null;
  }

  /** Opens and follows the thread; the returned function lets go of it. */
  start(at: number | null): () => void {
    const stop = this.live.start();
    void this.feed.open(at).then(() => this.readNew());
    void this.look();
    void this.measure();
    void this.readMarkers();
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void this.look();
    }, LOOK_MS);
    return () => {
      clearInterval(timer);
      clearTimeout(this.measuring);
      stop();
    };
  }

  /** Looks at how the thread stands. */
  look(): Promise<void> {
    if (this.looking) {
      this.lookAgain = true;
      return this.looking;
    }
    this.looking = (async () => {
      do {
        this.lookAgain = false;
        await this.lookOnce();
      } while (this.lookAgain);
    })().finally(() => (this.looking = null));
    return this.looking;
  }

  /** Sends a message. Returns null when the server has it, otherwise why it does not. */
  async say(text: string): Promise<Problem | null> {
    const problem = await sendMessage(this.id, text);
    if (problem) {
      // The composer shows the problem.
      await this.look();
      this.dismiss();
      return problem;
    }
    this.dismiss();
    await Promise.all([this.look(), this.readNew()]);
    return null;
  }

  /** Stops the run. */
  async stop(): Promise<void> {
    const run = this.live.run?.id || this.detail?.active_run?.run_id;
    if (!run || this.stopping) return;
    this.stopping = true;
    try {
      await api.cancel(this.id, run);
    } catch (error) {
      // It came to its end meanwhile.
      if (!(error instanceof ApiError && error.status === 409)) failed("The run was not stopped", error);
    }
    await this.look();
    this.stopping = false;
  }

  /** Takes a message out of the line. Returns whether it was there still. */
  async withdraw(queued: Queued): Promise<boolean> {
    try {
      await api.cancel(this.id, queued.run);
    } catch (error) {
      failed("The message was not taken back", error);
      void this.look();
      return false;
    }
    this.withdrawn.add(queued.run);
    this.queue = this.queue.filter(({ run }) => run !== queued.run);
    return true;
  }

  /** Lets the run go on that failed. */
  async again(): Promise<void> {
    try {
      await api.again(this.id);
      this.dismiss();
      await this.look();
    } catch (error) {
      failed("It was not tried again", error);
    }
  }

  /** Condenses the conversation for the model. Returns whether it was asked for without a failure. */
  async compact(focus?: string): Promise<boolean> {
    let isDone = true;
    this.compactionAsked = true;
    try {
      const { outcome, reason } = await api.compact(this.id, focus ? { focus } : {});
      if (outcome === "nothing") notify("There is nothing to condense", { hint: reason ?? null });
    } catch (error) {
      failed("The conversation was not condensed", error);
      isDone = false;
    }
    this.compactionAsked = false;
    await this.changed();
    return isDone;
  }

  /** Takes the newest compaction back. Returns whether it was. */
  async uncompact(): Promise<boolean> {
    let isDone = true;
    try {
      await api.uncompact(this.id);
      notify("The model is sent the original messages again");
    } catch (error) {
      failed("The compaction was not taken back", error);
      isDone = false;
    }
    await this.changed();
    return isDone;
  }

  /** Reads what somebody's act may have changed. */
  async changed(): Promise<void> {
    await Promise.all([this.look(), this.readNew(), this.measure(), this.readMarkers()]);
  }

  /** Takes the note away that the last run failed. */
  dismiss(): void {
    this.dismissed = this.detail?.last_run?.run_id ?? null;
    this.live.dismiss();
  }

  private async heard(news: News): Promise<void> {
    if (news.handoff) void lookAtHandoffs();
    if (news.state || news.ended) void this.look();
    if (news.ended || news.markers) this.measureSoon();
    this.rewritten ||= news.rewritten;
    await this.reread();
    if (news.stored) await this.readNew();
    if (news.markers) void this.readMarkers();
  }

  /** Reads anew what may be gone; what could not be read is tried again with the next news or look. */
  private async reread(): Promise<void> {
    if (!this.rewritten) return;
    this.rewritten = false;
    try {
      await this.feed.reread();
    } catch {
      this.rewritten = true;
    }
  }

  /** Reads what was stored, then forgets what was said of it. */
  private async readNew(): Promise<void> {
    if (this.feed.state === "missing") return;
    const told = this.live.position;
    try {
      await this.feed.sync();
      this.live.settle(told);
    } catch (error) {
      // The connection is lost or the server gone; both say so, and both are tried again.
      if (error instanceof ApiError && error.status === 404) this.feed.state = "missing";
    }
  }

  private async lookOnce(): Promise<void> {
    if (this.feed.state === "missing") return;
    const before = this.detail;
    let detail: ThreadDetail;
    try {
      detail = await api.thread(this.id);
    } catch (error) {
      // Whether the server is there is said by the page as a whole.
      if (error instanceof ApiError && error.status === 404) this.feed.state = "missing";
      return;
    }
    this.detail = settled(before, detail);
    void this.reread();
    this.looksWithoutRun = detail.active_run ? 0 : this.looksWithoutRun + 1;
    // What told of the run's beginning was lost before it told of its end.
    if (this.live.run && this.looksWithoutRun > 1) this.live.over();
    if (before && detail.last_seq > before.last_seq) void this.readNew();
    if (before?.active_run && !detail.active_run) this.measureSoon();
    await this.lookInLine(detail);
  }

  private async lookInLine(detail: ThreadDetail): Promise<void> {
    if (detail.pending_runs === 0) {
      this.queue = [];
      return;
    }
    const runs = await api.runs(this.id, RUNS_MAX).catch(() => [] as Run[]);
    this.queue = runs
      .filter((run) => run.status === "pending" && !this.withdrawn.has(run.run_id))
      .map((run) => ({ run: run.run_id, text: saidIn(run) }))
      .filter(({ text }) => text !== "")
      .reverse();
  }

  /** Measures once for all that tells of the same change. */
  private measureSoon(): void {
    clearTimeout(this.measuring);
    this.measuring = setTimeout(() => void this.measure(), MEASURE_MS);
  }

  private async measure(): Promise<void> {
    this.context = await api.context(this.id).catch(() => this.context);
  }

  private async readMarkers(): Promise<void> {
    const page = await api.history(this.id, { shown: "markers", limit: MARKERS_MAX }).catch(() => null);
    if (page) this.markers = page.entries;
  }
}

/** What was looked at, with the very things of before where nothing of them changed: nobody's answer is drawn anew under their hands. */
function settled(before: ThreadDetail | null, next: ThreadDetail): ThreadDetail {
  if (!before) return next;
  if (JSON.stringify(before) === JSON.stringify(next)) return before;
  const asked = new Map(before.interrupts.map((interrupt) => [interrupt.id, interrupt]));
  return { ...next, interrupts: next.interrupts.map((interrupt) => asked.get(interrupt.id) ?? interrupt) };
}

function saidIn(run: Run): string {
  const content = run.kwargs?.input?.messages?.at(-1)?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((block) => (block && typeof block === "object" && "text" in block ? String(block.text) : ""))
    .join("\n");
}
