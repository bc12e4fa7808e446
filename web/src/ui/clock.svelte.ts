// The time as the page shows it: it goes on by itself, so that "now" does not stay "now". It stands still while nothing
// shows a time.
import { createSubscriber } from "svelte/reactivity";

/** Milliseconds between two looks at the clock. */
const EVERY_MS = 20_000;

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, EVERY_MS);
  document.addEventListener("visibilitychange", update);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", update);
  };
});

/** Milliseconds since 1970; what read it is drawn again as time passes. */
export function now(): number {
  subscribe();
  return Date.now();
}
