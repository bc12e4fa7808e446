import { expect, test } from "vitest";
import type { Proposal } from "../api/types";
import { begin, type Edit } from "./edit";
import { keepEdit, kept } from "./kept";

const proposal = {
  summary_sha256: "abc",
  summary_md: "**Kettle**\n",
  summary_json: { title: "Kettle", tldr: "", body: [] },
} as unknown as Proposal;

test("what was written stays while the drafts are not known yet, and goes when nothing is left of it", () => {
  const edit = { ...begin(proposal), title: "Lid" };
  keepEdit("h", edit, [proposal]);
  expect(kept<Edit>("h", "edit")?.title).toBe("Lid");
  keepEdit("h", edit, null);
  expect(kept<Edit>("h", "edit")?.title).toBe("Lid");
  keepEdit("h", { ...edit, title: "Kettle" }, [proposal]);
  expect(kept<Edit>("h", "edit")).toBeNull();
});
