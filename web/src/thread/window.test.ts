import { expect, test } from "vitest";
import type { AiEntry, HistoryEntry, HistoryPage } from "../api/types";
import { conversationItems, mergeEntries } from "./items";
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

/** Returns a seeded generator of pseudo-random numbers. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

function entry(seq: number): HistoryEntry {
  const base = { id: `m${seq}`, seq, run_id: `r${seq >> 3}`, created_at: "2026-01-01T00:00:00Z" };
  if (seq % 5 === 0) return { ...base, type: "human", content: [{ type: "text", text: `${seq}` }] };
  return { ...base, type: "ai", content: [{ type: "text", text: `${seq}` }] };
}

/** A fake journal in which some positions have no entry. */
class FakeJournal {
  entries: HistoryEntry[] = [];
  private seq = 0;
  grow(random: (below: number) => number): void {
    this.seq += 1 + random(3);
    this.entries.push(entry(this.seq));
  }
  page(range: { before?: number; after?: number; limit: number }): HistoryPage {
    const all = this.entries;
    let [from, until] = [Math.max(0, all.length - range.limit), all.length];
    if (range.before !== undefined) {
      const { before } = range;
      until = all.filter(({ seq }) => seq < before).length;
      from = Math.max(0, until - range.limit);
    } else if (range.after !== undefined) {
      const { after } = range;
      from = all.filter(({ seq }) => seq <= after).length;
      until = Math.min(all.length, from + range.limit);
    }
    const entries = all.slice(from, until);
    return {
      thread_id: "t",
      source: "journal",
      entries,
      has_more: false,
      has_more_before: from > 0,
      has_more_after: until < all.length,
      first_seq: entries[0]?.seq ?? null,
      last_seq: entries.at(-1)?.seq ?? null,
    };
  }
}

const seqs = (entries: readonly HistoryEntry[]) => entries.map(({ seq }) => seq);

test("b3_pages_and_live_entries_give_one_order_in_any_order_of_arrival", () => {
  for (let round = 0; round < 10_000; round += 1) {
    const random = randomNumbers(round);
    const journal = new FakeJournal();
    for (let count = random(30); count > 0; count -= 1) journal.grow(random);
    let window: EntryWindow = EMPTY;
    // Pending responses. They arrive in any order, once or twice.
    const pendingPages: ((current: EntryWindow) => EntryWindow)[] = [];
    let generation = 0;
    for (let step = 0; step < 24; step += 1) {
      const limit = 1 + random(8);
      const [first, last, requestGeneration] = [firstSeq(window), lastSeq(window), generation];
      const enqueue = (apply: (current: EntryWindow) => EntryWindow) =>
        pendingPages.push((current) => (requestGeneration === generation ? apply(current) : current));
      switch (random(9)) {
        case 0:
          journal.grow(random);
          break;
        case 1:
          generation += 1;
          window = openWindow(journal.page({ limit }));
          break;
        case 2: {
          generation += 1;
          const at = 1 + random(60);
          window = windowAround(journal.page({ before: at, limit }), journal.page({ after: at - 1, limit }));
          break;
        }
        case 3: {
          const page = journal.page({ before: first, limit });
          enqueue((current) => prependPage(current, first, page));
          break;
        }
        case 4: {
          const page = journal.page({ after: last, limit });
          enqueue((current) => appendPage(current, last, page));
          break;
        }
        case 5: {
          const page = journal.page({ after: Math.max(0, first - 1), limit: window.entries.length + limit });
          enqueue((current) => replaceEntries(current, Math.max(0, first - 1), page));
          break;
        }
        case 6:
          window = random(2) ? dropOldest(window, limit) : dropNewest(window, limit);
          break;
        default: {
          const at = random(pendingPages.length || 1);
          const answer = random(4) ? pendingPages.splice(at, 1)[0] : pendingPages[at];
          if (answer) window = answer(window);
        }
      }
      const shownSeqs = seqs(window.entries);
      const [from, until] = [shownSeqs[0] ?? 0, shownSeqs.at(-1) ?? 0];
      const expectedSeqs = seqs(journal.entries).filter((seq) => seq >= from && seq <= until);
      const isContiguous = shownSeqs.length === 0 || shownSeqs.join() === expectedSeqs.join();
      const isStartKnown = shownSeqs.length === 0 || window.hasBefore || from === journal.entries[0]?.seq;
      if (!isContiguous || !isStartKnown)
        expect.fail(`round ${round}, step ${step}: ${shownSeqs} of ${expectedSeqs}`);
    }
  }
}, 60_000);

test("b3_the_order_of_arrival_does_not_change_the_items", () => {
  const random = randomNumbers(7);
  const all = Array.from({ length: 40 }, (_, at) => entry(at + 1));
  for (let round = 0; round < 200; round += 1) {
    let known: HistoryEntry[] = [];
    const remaining = [...all, ...all.slice(0, random(40))];
    while (remaining.length)
      known = mergeEntries(known, remaining.splice(random(remaining.length), 1 + random(3)));
    expect(conversationItems(known)).toEqual(conversationItems(all));
  }
});

test("d7_only_the_last_answer_of_a_run_can_be_rated", () => {
  const answer = (seq: number): AiEntry => ({
    id: `m${seq}`,
    seq,
    run_id: "r",
    created_at: "2026-01-01T00:00:00Z",
    type: "ai",
    content: [],
    feedback: null,
  });
  const page = (entries: HistoryEntry[]) => ({ ...new FakeJournal().page({ limit: 1 }), entries });
  let window = openWindow(page([answer(1)]));
  window = appendPage(window, 1, page([answer(2)]));
  expect(window.entries.map((entry) => "feedback" in entry)).toEqual([false, true]);
  const drawn = conversationItems(window.entries, new Map(), [], { undone: new Set(), activeRun: "r" });
  expect(drawn.some((item) => item.kind === "ai" && "feedback" in item.entry)).toBe(false);
});
