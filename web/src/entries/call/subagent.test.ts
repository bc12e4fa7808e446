import { expect, test, vi } from "vitest";
import type { HistoryQuery } from "../../api/endpoints";
import { since } from "./subagent";

/** Entries that the sub-agent's thread has. */
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

test("b3_what_a_sub_agent_did_since_is_read_to_its_end", async () => {
  expect((await since("t", 10)).map(({ seq }) => seq)).toEqual(
    Array.from({ length: LAST - 10 }, (_, at) => at + 11),
  );
  expect(await since("t", LAST)).toEqual([]);
});
