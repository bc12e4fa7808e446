import { expect, test } from "vitest";
import { ApiError, isNotFound } from "./client";

test("only the status 404 says that something does not exist", () => {
  expect(isNotFound(new ApiError(404, "not_found", "no thread"))).toBe(true);
  expect(isNotFound(new ApiError(0, "unreachable", "Server unreachable."))).toBe(false);
  expect(isNotFound(new Error("404"))).toBe(false);
});
