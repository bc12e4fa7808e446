import { expect, test } from "vitest";
import type { AiEntry, Entry, HistoryPage } from "../api/types";
import { items, merge } from "./items";
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

/** Numbers that look random and are the same each time. */
function numbers(seed: number): (below: number) => number {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

function entry(seq: number): Entry {
  const base = { id: `m${seq}`, seq, run_id: `r${seq >> 3}`, created_at: "2026-01-01T00:00:00Z" };
  if (seq % 5 === 0) return { ...base, type: "human", content: [{ type: "text", text: `${seq}` }] };
  return { ...base, type: "ai", content: [{ type: "text", text: `${seq}` }] };
}

/** A journal as the server has it, some of whose positions are not shown. */
class Journal {
  entries: Entry[] = [];
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

const seqs = (entries: readonly Entry[]) => entries.map(({ seq }) => seq);

test("b3_pages_snapshots_and_live_entries_give_one_order_however_they_come", () => {
  for (let round = 0; round < 10_000; round += 1) {
    const random = numbers(round);
    const journal = new Journal();
    for (let count = random(30); count > 0; count -= 1) journal.grow(random);
    let window: Window = EMPTY;
    // What was asked for and has not been answered yet: answers come in any order, once or twice.
    const answers: ((now: Window) => Window)[] = [];
    let place = 0;
    for (let step = 0; step < 24; step += 1) {
      const limit = 1 + random(8);
      const [first, last, asked] = [firstSeq(window), lastSeq(window), place];
      const here = (put: (now: Window) => Window) =>
        answers.push((now) => (asked === place ? put(now) : now));
      switch (random(9)) {
        case 0:
          journal.grow(random);
          break;
        case 1:
          place += 1;
          window = opened(journal.page({ limit }));
          break;
        case 2: {
          place += 1;
          const at = 1 + random(60);
          window = around(journal.page({ before: at, limit }), journal.page({ after: at - 1, limit }));
          break;
        }
        case 3: {
          const page = journal.page({ before: first, limit });
          here((now) => older(now, first, page));
          break;
        }
        case 4: {
          const page = journal.page({ after: last, limit });
          here((now) => newer(now, last, page));
          break;
        }
        case 5: {
          const page = journal.page({ after: Math.max(0, first - 1), limit: window.entries.length + limit });
          here((now) => reread(now, Math.max(0, first - 1), page));
          break;
        }
        case 6:
          window = random(2) ? withoutOldest(window, limit) : withoutNewest(window, limit);
          break;
        default: {
          const at = random(answers.length || 1);
          const answer = random(4) ? answers.splice(at, 1)[0] : answers[at];
          if (answer) window = answer(window);
        }
      }
      const shown = seqs(window.entries);
      const [from, until] = [shown[0] ?? 0, shown.at(-1) ?? 0];
      const whole = seqs(journal.entries).filter((seq) => seq >= from && seq <= until);
      const isWhole = shown.length === 0 || shown.join() === whole.join();
      const knowsBefore = shown.length === 0 || window.hasBefore || from === journal.entries[0]?.seq;
      if (!isWhole || !knowsBefore) expect.fail(`round ${round}, step ${step}: ${shown} of ${whole}`);
    }
  }
}, 60_000);

test("b3_the_same_entries_in_any_order_are_drawn_the_same", () => {
  const random = numbers(7);
  const all = Array.from({ length: 40 }, (_, at) => entry(at + 1));
  for (let round = 0; round < 200; round += 1) {
    let known: Entry[] = [];
    const left = [...all, ...all.slice(0, random(40))];
    while (left.length) known = merge(known, left.splice(random(left.length), 1 + random(3)));
    expect(items(known)).toEqual(items(all));
  }
});

test("d7_only_the_last_answer_of_a_run_can_be_rated_whenever_it_was_read", () => {
  const answer = (seq: number): AiEntry => ({
    id: `m${seq}`,
    seq,
    run_id: "r",
    created_at: "2026-01-01T00:00:00Z",
    type: "ai",
    content: [],
    feedback: null,
  });
  const page = (entries: Entry[]) => ({ ...new Journal().page({ limit: 1 }), entries });
  let window = opened(page([answer(1)]));
  window = newer(window, 1, page([answer(2)]));
  expect(window.entries.map((entry) => "feedback" in entry)).toEqual([false, true]);
  const drawn = items(window.entries, new Map(), [], { undone: new Set(), active: "r" });
  expect(drawn.some((item) => item.kind === "ai" && "feedback" in item.entry)).toBe(false);
});
