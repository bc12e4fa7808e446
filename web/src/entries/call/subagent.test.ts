import { expect, test, vi } from "vitest";
import type { HistoryQuery } from "../../api/endpoints";
import { entriesAfter } from "./subagent";

/** The number of entries in the sub-agent's thread. */
const LAST = 120;

vi.mock("../../api/endpoints", () => ({
  api: {
    history: (_thread: string, { after_seq: after = 0, limit = 0 }: HistoryQuery) => {
      const until = Math.min(LAST, after + limit);
      const entries = Array.from({ length: until - after }, (_, at) => ({ seq: after + at + 1 }));
      return Promise.resolve({ entries, has_more_after: until < LAST });
    },
  },
}));

test("b3_new_entries_of_a_sub_agent_are_loaded_to_the_end", async () => {
  expect((await entriesAfter("t", 10)).map(({ seq }) => seq)).toEqual(
    Array.from({ length: LAST - 10 }, (_, at) => at + 11),
  );
  expect(await entriesAfter("t", LAST)).toEqual([]);
});
