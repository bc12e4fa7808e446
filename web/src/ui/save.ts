// Saves what the page has as a file on the reader's machine. What it is, and under which type, is the caller's.

/** Milliseconds for which a browser may read what it saves: it does so in its own time. */
const READ_MS = 60_000;

/** Saves the file under that name. */
export function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), READ_MS);
}
