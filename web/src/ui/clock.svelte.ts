// A reactive clock for relative times. It stops while nothing uses it.
import { createSubscriber } from "svelte/reactivity";

/** Milliseconds between two updates. */
const TICK_MS = 20_000;

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, TICK_MS);
  document.addEventListener("visibilitychange", update);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", update);
  };
});

/** Returns the current time in milliseconds since 1970. Effects that read it run again as time passes. */
export function now(): number {
  subscribe();
  return Date.now();
}
