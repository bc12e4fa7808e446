// Downloads a blob as a file. The caller chooses the name and the type.

/** Milliseconds before the object URL is revoked. Browsers read it asynchronously. */
const READ_MS = 60_000;

/** Downloads a blob under the given name. */
export function saveFile(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), READ_MS);
}
