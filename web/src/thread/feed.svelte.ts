// The entries of a thread that the page has: a window over the journal that follows where one reads. What is drawn of them
// is `items.ts`'s, how one scrolls is `Feed.svelte`'s, what is not stored yet is `live.svelte.ts`'s.
import { failed } from "../app/notices.svelte";
import { api } from "../api/endpoints";
import { ApiError } from "../api/client";
import type { HistoryPage } from "../api/types";
import {
  EMPTY,
  around,
  firstSeq,
  lastSeq,
  newer,
  older,
  opened,
  reread,
  withoutNewest,
  withoutOldest,
  type Window,
} from "./window";

/** Entries that are read at a time while one scrolls. */
export const PAGE = 30;
/** Entries that are read when the window is opened. */
const FIRST = 50;
/** The most entries that are kept where the rest is far away. */
export const KEPT = 250;
/** The most pages that are read in a row to keep up; who is at the end goes to the newest ones after that. */
const PAGES_BEHIND = 4;
/** Milliseconds after a failure within which scrolling on does not ask again. */
const REST_MS = 2_000;
/** The most entries of one request. */
const ENTRIES_MAX = 1000;

export class Feed {
  window = $state.raw<Window>(EMPTY);
  state = $state<"opening" | "open" | "missing" | "failed">("opening");
  /** Which end a page is being read for. */
  reading = $state<"none" | "older" | "newer">("none");
  /** Whether one is at the end of what is shown; who scrolls says how that is known. */
  isFollowed: () => boolean = () => true;
  /** Counts the times the window was opened elsewhere: answers to what was asked before are thrown away. */
  private place = 0;
  private restUntil = 0;
  private syncing: Promise<void> | null = null;
  private again = false;

  constructor(private readonly thread: string) {}

  get atEnd(): boolean {
    return this.state === "open" && !this.window.hasAfter;
  }

  /** Opens the window at the newest entries, or around a place. */
  async open(at: number | null): Promise<void> {
    const place = ++this.place;
    try {
      const next = at === null ? opened(await this.page({ limit: FIRST })) : await this.around(at);
      if (place !== this.place) return;
      this.window = next;
      this.state = "open";
    } catch (error) {
      if (place !== this.place) return;
      if (error instanceof ApiError && [404, 422].includes(error.status)) this.state = "missing";
      else if (this.state === "opening") this.state = "failed";
      if (this.state !== "missing") failed("The thread was not read", error);
    }
  }

  /** Whether that entry is in the window. */
  has(seq: number): boolean {
    return this.window.entries.some((entry) => entry.seq === seq);
  }

  async readOlder(): Promise<void> {
    const asked = firstSeq(this.window);
    await this.extend("older", async () => {
      const page = await this.page({ before_seq: asked });
      return () => older(this.window, asked, page);
    });
  }

  async readNewer(): Promise<void> {
    const asked = lastSeq(this.window);
    await this.extend("newer", async () => {
      const page = await this.page({ after_seq: asked });
      return () => newer(this.window, asked, page);
    });
  }

  /** Reads what was stored since, when the window is where that is. Asked for often, it reads as often as it can. */
  sync(): Promise<void> {
    if (this.syncing) {
      this.again = true;
      return this.syncing;
    }
    this.syncing = (async () => {
      do {
        this.again = false;
        await this.readNew();
      } while (this.again);
    })().finally(() => (this.syncing = null));
    return this.syncing;
  }

  /** Reads the window anew, because something of it may be gone. */
  async reread(): Promise<void> {
    if (this.state !== "open") return;
    const { place, atEnd } = this;
    const { length } = this.window.entries;
    const asked = Math.max(0, firstSeq(this.window) - 1);
    const limit = Math.min(ENTRIES_MAX, length + PAGE);
    const page = length > 0 ? await this.page({ after_seq: asked, limit }) : null;
    // Nothing is left of it: what there is, is before it.
    const newest = page?.entries.length ? null : await this.page({ limit: FIRST });
    if (place !== this.place) return;
    if (newest) {
      this.place += 1;
      this.window = opened(newest);
    } else if (page) {
      this.window = reread(this.window, asked, page);
      if (atEnd && page.has_more_after) await this.catchUp();
    }
  }

  /** Lets go of what is far away from where one reads. */
  drop(end: "oldest" | "newest"): void {
    this.window = end === "oldest" ? withoutOldest(this.window, KEPT) : withoutNewest(this.window, KEPT);
  }

  private async extend(end: "older" | "newer", read: () => Promise<() => Window>): Promise<void> {
    if (this.reading !== "none" || performance.now() < this.restUntil) return;
    const place = this.place;
    this.reading = end;
    try {
      const put = await read();
      if (place === this.place) this.window = put();
    } catch (error) {
      this.restUntil = performance.now() + REST_MS;
      failed("The messages were not read", error);
    } finally {
      this.reading = "none";
    }
  }

  private async readNew(): Promise<void> {
    // With the first of several pages the window no longer is where the newest entries are, so that is asked once.
    if (this.atEnd) await this.catchUp();
  }

  private async catchUp(): Promise<void> {
    for (let pages = 0; pages < PAGES_BEHIND; pages += 1) {
      const [place, asked] = [this.place, lastSeq(this.window)];
      const page = await this.page({ after_seq: asked });
      // It was opened elsewhere meanwhile, perhaps before the newest entries were there.
      if (place !== this.place) return this.readNew();
      this.window = newer(this.window, asked, page);
      if (!page.has_more_after) return;
    }
    if (this.isFollowed()) await this.open(null);
  }

  private async around(at: number): Promise<Window> {
    const [before, after] = await Promise.all([
      this.page({ before_seq: at, limit: FIRST / 2 }),
      this.page({ after_seq: at - 1, limit: FIRST / 2 }),
    ]);
    return around(before, after);
  }

  private page(range: { before_seq?: number; after_seq?: number; limit?: number }): Promise<HistoryPage> {
    return api.history(this.thread, { limit: PAGE, ...range });
  }
}
