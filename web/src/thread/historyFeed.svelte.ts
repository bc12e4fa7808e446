// The loaded entries of a thread: a window over the journal that follows the scroll position. `items.ts`
// derives the items, `Conversation.svelte` scrolls, and `liveStream.svelte.ts` has the content that is not
// stored yet.
import { notifyError } from "../app/notices.svelte";
import { api } from "../api/endpoints";
import { ApiError } from "../api/client";
import type { HistoryPage } from "../api/types";
import {
  EMPTY,
  windowAround,
  firstSeq,
  lastSeq,
  appendPage,
  prependPage,
  openWindow,
  replaceEntries,
  dropNewest,
  dropOldest,
  type EntryWindow,
} from "./window";

/** The number of entries per page. */
export const PAGE_ENTRIES = 30;
/** The number of entries that are loaded first. */
const INITIAL_ENTRIES = 50;
/** The number of entries above which distant ones are dropped. */
export const KEPT_ENTRIES_MAX = 250;
/** The maximum number of pages to catch up. Beyond it, a user at the end jumps to the newest entries. */
const CATCH_UP_PAGES_MAX = 4;
/** Milliseconds after a failure before scrolling loads again. */
const RETRY_MS = 2_000;
/** The server's limit for one request. */
const ENTRIES_MAX = 1000;

export class HistoryFeed {
  window = $state.raw<EntryWindow>(EMPTY);
  state = $state<"opening" | "open" | "missing" | "failed">("opening");
  /** The end that a page is being loaded for. */
  reading = $state<"none" | "older" | "newer">("none");
  /** Returns true if the user is at the end; set by the component that scrolls. */
  isPinned: () => boolean = () => true;
  /** Incremented whenever the window is opened elsewhere. Responses of earlier generations are dropped. */
  #generation = 0;
  /** The number of requests to open the window elsewhere that are in progress. */
  #openRequests = 0;
  #retryAt = 0;
  #syncing: Promise<void> | null = null;
  #needsSync = false;

  constructor(private readonly thread: string) {}

  get atEnd(): boolean {
    return this.state === "open" && !this.window.hasAfter;
  }

  /** True while the window is being opened elsewhere, so its entries are about to be replaced. */
  get isOpening(): boolean {
    return this.#openRequests > 0;
  }

  /** Opens the window at the newest entries, or around a position. */
  async open(at: number | null): Promise<void> {
    const generation = ++this.#generation;
    this.#openRequests += 1;
    try {
      const loaded =
        at === null ? openWindow(await this.#page({ limit: INITIAL_ENTRIES })) : await this.#loadAround(at);
      if (generation !== this.#generation) return;
      this.window = loaded;
      this.state = "open";
    } catch (error) {
      if (generation !== this.#generation) return;
      if (error instanceof ApiError && [404, 422].includes(error.status)) this.state = "missing";
      else if (this.state === "opening") this.state = "failed";
      if (this.state !== "missing") notifyError("Could not load the thread", error);
    } finally {
      this.#openRequests -= 1;
    }
  }

  /** Returns true if the entry is loaded. */
  has(seq: number): boolean {
    return this.window.entries.some((entry) => entry.seq === seq);
  }

  async readOlder(): Promise<void> {
    const cursor = firstSeq(this.window);
    await this.#readPage("older", async () => {
      const fetchPage = await this.#page({ before_seq: cursor });
      return () => prependPage(this.window, cursor, fetchPage);
    });
  }

  async readNewer(): Promise<void> {
    const cursor = lastSeq(this.window);
    await this.#readPage("newer", async () => {
      const page = await this.#page({ after_seq: cursor });
      return () => appendPage(this.window, cursor, page);
    });
  }

  /** Loads new entries if the window is at the end. Calls during a request cause exactly one more. */
  sync(): Promise<void> {
    if (this.#syncing) {
      this.#needsSync = true;
      return this.#syncing;
    }
    this.#syncing = (async () => {
      do {
        this.#needsSync = false;
        await this.#syncOnce();
      } while (this.#needsSync);
    })().finally(() => (this.#syncing = null));
    return this.#syncing;
  }

  /** Reloads the window, because entries may have been removed. */
  async reread(): Promise<void> {
    if (this.state !== "open") return;
    const generation = this.#generation;
    const { atEnd } = this;
    const { length: count } = this.window.entries;
    const cursor = Math.max(0, firstSeq(this.window) - 1);
    const limit = Math.min(ENTRIES_MAX, count + PAGE_ENTRIES);
    const page = count > 0 ? await this.#page({ after_seq: cursor, limit }) : null;
    // All entries of the window were removed, so only older ones are left.
    const newest = page?.entries.length ? null : await this.#page({ limit: INITIAL_ENTRIES });
    if (generation !== this.#generation) return;
    if (newest) {
      this.#generation += 1;
      this.window = openWindow(newest);
    } else if (page) {
      this.window = replaceEntries(this.window, cursor, page);
      if (atEnd && page.has_more_after) await this.#catchUp();
    }
  }

  /** Drops entries that are far from the visible ones. */
  dropEntries(end: "oldest" | "newest"): void {
    this.window =
      end === "oldest"
        ? dropOldest(this.window, KEPT_ENTRIES_MAX)
        : dropNewest(this.window, KEPT_ENTRIES_MAX);
  }

  async #readPage(end: "older" | "newer", read: () => Promise<() => EntryWindow>): Promise<void> {
    if (this.reading !== "none" || performance.now() < this.#retryAt) return;
    const generation = this.#generation;
    this.reading = end;
    try {
      const applyPage = await read();
      if (generation === this.#generation) this.window = applyPage();
    } catch (error) {
      this.#retryAt = performance.now() + RETRY_MS;
      notifyError("Could not load messages", error);
    } finally {
      this.reading = "none";
    }
  }

  async #syncOnce(): Promise<void> {
    // Checked once, because after the first of several pages the window is no longer at the end.
    if (this.atEnd) await this.#catchUp();
  }

  async #catchUp(): Promise<void> {
    for (let pages = 0; pages < CATCH_UP_PAGES_MAX; pages += 1) {
      const [generation, cursor] = [this.#generation, lastSeq(this.window)];
      const page = await this.#page({ after_seq: cursor });
      // The window was opened elsewhere meanwhile, perhaps before the newest entries were stored.
      if (generation !== this.#generation) return this.#syncOnce();
      this.window = appendPage(this.window, cursor, page);
      if (!page.has_more_after) return;
    }
    if (this.isPinned()) await this.open(null);
  }

  async #loadAround(at: number): Promise<EntryWindow> {
    const [before, after] = await Promise.all([
      this.#page({ before_seq: at, limit: INITIAL_ENTRIES / 2 }),
      this.#page({ after_seq: at - 1, limit: INITIAL_ENTRIES / 2 }),
    ]);
    return windowAround(before, after);
  }

  #page(range: { before_seq?: number; after_seq?: number; limit?: number }): Promise<HistoryPage> {
    return api.history(this.thread, { limit: PAGE_ENTRIES, ...range });
  }
}
