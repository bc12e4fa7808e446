// Loads, adds and removes the pins of the shown thread. Adding and removing show their errors.
import { api } from "../api/endpoints";
import type { Pin, PinRequest } from "../api/types";
import { notify, notifyError } from "../app/notices.svelte";
import { formatCount } from "../ui/format";
import { shownPins } from "./pins.svelte";

/** The number of changes. A load that another change has overtaken is dropped. */
let changeCount = 0;

function showPins(thread: string, pins: Pin[]): void {
  changeCount++;
  shownPins.thread = thread;
  shownPins.pins = pins;
}

/** Loads the pins of a thread. A failure keeps the loaded ones; other requests report an unreachable server. */
export async function loadPins(thread: string): Promise<void> {
  if (shownPins.thread !== thread) showPins(thread, []);
  const change = ++changeCount;
  const loaded = await api.pins(thread).catch(() => null);
  if (loaded && change === changeCount) showPins(thread, loaded.pins);
}

/** Pins a text or a message. Returns true on success. */
export async function addPin(thread: string, request: PinRequest): Promise<boolean> {
  try {
    const { was_pinned, withheld, pins } = await api.pin(thread, request);
    if (shownPins.thread === thread) showPins(thread, pins);
    notify(was_pinned ? "Pinned already" : "Pinned", {
      hint: withheld > 0 ? `${formatCount(withheld, "secret")} redacted.` : null,
    });
    return true;
  } catch (error) {
    notifyError("Could not pin this", error);
    return false;
  }
}

/** Removes a pin; the notice can undo it. */
export async function removePin(thread: string, { number, message_seq }: Pin): Promise<void> {
  try {
    const { pin, pins } = await api.unpin(thread, number);
    if (shownPins.thread === thread) showPins(thread, pins);
    const request = message_seq === null ? { text: pin.text } : { message_seq };
    notify("Unpinned", { action: { label: "Undo", run: () => void addPin(thread, request) } });
  } catch (error) {
    notifyError("Could not unpin this", error);
    void loadPins(thread);
  }
}
