import { beforeEach, expect, test, vi } from "vitest";
import type { HistoryQuery } from "../api/endpoints";
import type { HistoryPage } from "../api/types";
import { HistoryFeed } from "./historyFeed.svelte";

/** The positions in the fake journal. */
let journal: number[] = [];
let queries: HistoryQuery[] = [];

vi.mock("../app/notices.svelte", () => ({ notifyError: () => undefined }));
vi.mock("../api/client", () => ({ ApiError: class extends Error {} }));
vi.mock("../api/endpoints", () => ({
  api: {
    history: (_thread: string, query: HistoryQuery) => {
      queries.push(query);
      return Promise.resolve(page(query));
    },
  },
}));

function page({ before_seq: before = Infinity, after_seq: after, limit = 0 }: HistoryQuery): HistoryPage {
  const matching = journal.filter((seq) => seq < before && seq > (after ?? 0));
  const selected = after === undefined ? matching.slice(-limit) : matching.slice(0, limit);
  return {
    thread_id: "t",
    source: "journal",
    entries: selected.map((seq) => ({
      id: `m${seq}`,
      seq,
      run_id: null,
      created_at: "2026-01-01T00:00:00Z",
      type: "human",
      content: [],
    })),
    has_more: false,
    has_more_before: selected.length > 0 && selected[0] !== journal[0],
    has_more_after: selected.length > 0 && selected.at(-1) !== journal.at(-1),
    first_seq: selected[0] ?? null,
    last_seq: selected.at(-1) ?? null,
  };
}

const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1);
const seqs = (feed: HistoryFeed) => feed.window.entries.map(({ seq }) => seq);

async function openFeed(last: number): Promise<HistoryFeed> {
  journal = upTo(last);
  const feed = new HistoryFeed("t");
  await feed.open(null);
  queries = [];
  return feed;
}

beforeEach(() => {
  queries = [];
});

test("b3_sync_loads_several_pages_to_the_end", async () => {
  const feed = await openFeed(20);
  journal = upTo(90);
  await feed.sync();
  expect(seqs(feed)).toEqual(upTo(90));
  expect(feed.atEnd).toBe(true);
  journal = upTo(91);
  await feed.sync();
  expect(seqs(feed).at(-1)).toBe(91);
});

test("b3_a_pinned_feed_jumps_to_the_newest_entries_if_too_many_are_new", async () => {
  const feed = await openFeed(20);
  journal = upTo(900);
  await feed.sync();
  expect(queries).toHaveLength(5);
  expect(seqs(feed)).toEqual(upTo(900).slice(-50));
  expect(feed.atEnd).toBe(true);
});

test("b3_an_unpinned_feed_keeps_its_position", async () => {
  const feed = await openFeed(20);
  feed.isPinned = () => false;
  journal = upTo(900);
  await feed.sync();
  expect(seqs(feed)).toEqual(upTo(140));
  expect(feed.atEnd).toBe(false);
  await feed.sync();
  expect(seqs(feed)).toEqual(upTo(140));
});

test("b3_a_rewind_before_the_window_shows_the_remaining_end", async () => {
  const feed = await openFeed(200);
  journal = upTo(100);
  await feed.reread();
  expect(seqs(feed)).toEqual(upTo(100).slice(-50));
  journal = [...upTo(100), 203];
  await feed.sync();
  expect(seqs(feed).at(-1)).toBe(203);
});

test("b3_after_a_rewind_new_entries_are_loaded_to_the_end", async () => {
  const feed = await openFeed(20);
  journal = [...upTo(10), ...upTo(150).filter((seq) => seq > 21)];
  await feed.reread();
  expect(seqs(feed)).toEqual(journal);
  expect(feed.atEnd).toBe(true);
});

test("the newest of two jumps wins, and the feed is opening until both have ended", async () => {
  const feed = await openFeed(200);
  const jumps = [feed.open(150), feed.open(20)];
  expect(feed.isOpening).toBe(true);
  await Promise.all(jumps);
  expect(feed.isOpening).toBe(false);
  expect(feed.has(20)).toBe(true);
  expect(feed.has(150)).toBe(false);
});
