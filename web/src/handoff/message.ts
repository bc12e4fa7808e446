// The beginning of one message, for whoever wants to know what a number stands for without going there.
import { api } from "../api/endpoints";
import { beginning, type Beginning } from "./beginning";

/** Messages that are remembered; they never change. */
const KEPT_MAX = 200;

const kept = new Map<string, Promise<Beginning | null>>();

/** Returns how a message begins; `null` when it is not there. */
export function beginningOf(thread: string, seq: number): Promise<Beginning | null> {
  const key = `${thread}:${seq}`;
  const known = kept.get(key);
  if (known) return known;
  const asked = api
    .history(thread, { after_seq: seq - 1, limit: 1, superseded: true })
    .then(({ entries: [entry] }) => (entry?.seq === seq ? beginning(entry) : null));
  // What failed is asked again the next time.
  asked.catch(() => kept.delete(key));
  kept.set(key, asked);
  const oldest = kept.keys().next().value;
  if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
  return asked;
}
