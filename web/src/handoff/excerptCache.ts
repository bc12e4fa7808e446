// A cache of message excerpts for references.
import { api } from "../api/endpoints";
import { excerptOf, type MessageExcerpt } from "./excerpt";

/** The maximum number of cached excerpts. They never become stale, because entries do not change. */
const EXCERPTS_MAX = 200;

const cache = new Map<string, Promise<MessageExcerpt | null>>();

/** Returns the excerpt of a message, or null if it does not exist. */
export function loadExcerpt(thread: string, seq: number): Promise<MessageExcerpt | null> {
  const key = `${thread}:${seq}`;
  const cached = cache.get(key);
  if (cached) return cached;
  const request = api
    .history(thread, { after_seq: seq - 1, limit: 1, superseded: true })
    .then(({ entries: [entry] }) => (entry?.seq === seq ? excerptOf(entry) : null));
  // Failed requests are not cached.
  request.catch(() => cache.delete(key));
  cache.set(key, request);
  const oldest = cache.keys().next().value;
  if (cache.size > EXCERPTS_MAX && oldest !== undefined) cache.delete(oldest);
  return request;
}
