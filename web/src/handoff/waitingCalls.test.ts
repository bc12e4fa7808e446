import { expect, test } from "vitest";
import type { Proposal } from "../api/types";
import { waitingCalls, waitingCallsLabel, withWaitingCalls } from "./waitingCalls";

test("an accept says what becomes of the calls that wait for approval", () => {
  expect(withWaitingCalls({ type: "approve", summary_sha256: "ab" }, "transfer")).toEqual({
    type: "approve",
    summary_sha256: "ab",
    args: { pending_approvals: "transfer" },
  });
  expect(
    withWaitingCalls({ type: "approve", summary_sha256: "ab", args: { package_md: "x" } }, "cancel"),
  ).toEqual({
    type: "approve",
    summary_sha256: "ab",
    args: { package_md: "x", pending_approvals: "cancel" },
  });
  const edited_action = { name: "handoff_summary", args: { summary_json: {}, summary_sha256: "ab" } };
  expect(withWaitingCalls({ type: "edit", edited_action }, "leave")).toEqual({
    type: "edit",
    edited_action: {
      name: "handoff_summary",
      args: { ...edited_action.args, pending_approvals: "leave" },
    },
  });
  expect(withWaitingCalls({ type: "preview" }, "leave")).toEqual({ type: "preview" });
});

test("the choice is offered for the calls that the text lists", () => {
  const proposal = (carried: object) => ({ summary_json: { carried } }) as unknown as Proposal;
  expect(waitingCalls(proposal({}))).toEqual([]);
  expect(waitingCalls(proposal({ pending_approvals: ["execute: {}"] }))).toEqual(["execute: {}"]);
  expect(waitingCallsLabel(1)).toBe("1 call waits for approval:");
  expect(waitingCallsLabel(2)).toBe("2 calls wait for approval:");
});
