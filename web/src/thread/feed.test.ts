import { beforeEach, expect, test, vi } from "vitest";
import type { HistoryQuery } from "../api/endpoints";
import type { HistoryPage } from "../api/types";
import { Feed } from "./feed.svelte";

/** The positions that the journal has. */
let journal: number[] = [];
let asked: HistoryQuery[] = [];

vi.mock("../app/notices.svelte", () => ({ failed: () => undefined }));
vi.mock("../api/client", () => ({ ApiError: class extends Error {} }));
vi.mock("../api/endpoints", () => ({
  api: {
    history: (_thread: string, query: HistoryQuery) => {
      asked.push(query);
      return Promise.resolve(page(query));
    },
  },
}));

function page({ before_seq: before = Infinity, after_seq: after, limit = 0 }: HistoryQuery): HistoryPage {
  const within = journal.filter((seq) => seq < before && seq > (after ?? 0));
  const shown = after === undefined ? within.slice(-limit) : within.slice(0, limit);
  return {
    thread_id: "t",
    source: "journal",
    entries: shown.map((seq) => ({
      id: `m${seq}`,
      seq,
      run_id: null,
      created_at: "2026-01-01T00:00:00Z",
      type: "human",
      content: [],
    })),
    has_more: false,
    has_more_before: shown.length > 0 && shown[0] !== journal[0],
    has_more_after: shown.length > 0 && shown.at(-1) !== journal.at(-1),
    first_seq: shown[0] ?? null,
    last_seq: shown.at(-1) ?? null,
  };
}

const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1);
const seqs = (feed: Feed) => feed.window.entries.map(({ seq }) => seq);

async function openedAt(last: number): Promise<Feed> {
  journal = upTo(last);
  const feed = new Feed("t");
  await feed.open(null);
  asked = [];
  return feed;
}

beforeEach(() => {
  asked = [];
});

test("b3_more_than_a_page_that_was_stored_meanwhile_is_read_to_its_end", async () => {
  const feed = await openedAt(20);
  journal = upTo(90);
  await feed.sync();
  expect(seqs(feed)).toEqual(upTo(90));
  expect(feed.atEnd).toBe(true);
  journal = upTo(91);
  await feed.sync();
  expect(seqs(feed).at(-1)).toBe(91);
});

test("b3_who_is_at_the_end_goes_to_the_newest_when_too_much_was_stored", async () => {
  const feed = await openedAt(20);
  journal = upTo(900);
  await feed.sync();
  expect(asked).toHaveLength(5);
  expect(seqs(feed)).toEqual(upTo(900).slice(-50));
  expect(feed.atEnd).toBe(true);
});

test("b3_who_reads_above_the_end_stays_there_however_much_was_stored", async () => {
  const feed = await openedAt(20);
  feed.isFollowed = () => false;
  journal = upTo(900);
  await feed.sync();
  expect(seqs(feed)).toEqual(upTo(140));
  expect(feed.atEnd).toBe(false);
  await feed.sync();
  expect(seqs(feed)).toEqual(upTo(140));
});

test("b3_a_rewind_to_before_what_is_read_shows_the_end_of_what_is_left", async () => {
  const feed = await openedAt(200);
  journal = upTo(100);
  await feed.reread();
  expect(seqs(feed)).toEqual(upTo(100).slice(-50));
  journal = [...upTo(100), 203];
  await feed.sync();
  expect(seqs(feed).at(-1)).toBe(203);
});

test("b3_after_a_rewind_what_was_said_since_is_read_to_its_end", async () => {
  const feed = await openedAt(20);
  journal = [...upTo(10), ...upTo(150).filter((seq) => seq > 21)];
  await feed.reread();
  expect(seqs(feed)).toEqual(journal);
  expect(feed.atEnd).toBe(true);
});
