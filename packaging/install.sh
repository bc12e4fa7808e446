#!/bin/sh
# Installs Segue @VERSION@ for the current user, without root. Downloads the archive for this machine, verifies its SHA-256
# checksum and copies the program to ~/.local/bin.
#
#   SEGUE_INSTALL_DIR   folder of the program instead of ~/.local/bin
#   SEGUE_DOWNLOAD_URL  folder of the archive and of SHA256SUMS, such as a mirror
#
# A release contains this file with its version and repository filled in.
set -eu

fail() {
  echo "segue: failed to install: $1" >&2
  exit 1
}

# Prints the target of this machine. The musl program runs on every Linux.
target() {
  case $(uname -m) in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "there is no package for $(uname -m); build it from source" ;;
  esac
  case $(uname -s) in
    Linux) echo "$arch-unknown-linux-musl" ;;
    Darwin) echo "$arch-apple-darwin" ;;
    *) fail "there is no package for $(uname -s); build it from source" ;;
  esac
}

# Downloads the URL $1 to the file $2.
download() {
  if command -v curl > /dev/null; then
    curl --fail --silent --show-error --location --output "$2" "$1"
  elif command -v wget > /dev/null; then
    wget --quiet --output-document="$2" "$1"
  else
    fail "curl or wget is needed"
  fi || fail "$1 cannot be downloaded"
}

# Compares the file $1 with its line in SHA256SUMS.
verify() {
  awk -v name="$1" '$2 == name' SHA256SUMS > expected
  [ -s expected ] || fail "SHA256SUMS does not contain $1"
  if command -v sha256sum > /dev/null; then
    sha256sum -c expected > /dev/null
  elif command -v shasum > /dev/null; then
    shasum -a 256 -c expected > /dev/null
  else
    fail "sha256sum or shasum is needed"
  fi || fail "the checksum of $1 is wrong"
}

# The shell reads the whole function before it runs it, so an incomplete download of this file does nothing.
main() {
  version=@VERSION@
  target=$(target)
  name=segue-$version-$target
  url=${SEGUE_DOWNLOAD_URL:-https://github.com/@REPOSITORY@/releases/download/v$version}
  folder=${SEGUE_INSTALL_DIR:-$HOME/.local/bin}
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  cd "$work"
  download "$url/SHA256SUMS" SHA256SUMS
  download "$url/$name.tar.gz" "$name.tar.gz"
  verify "$name.tar.gz"
  tar -xzf "$name.tar.gz"

  # The rename replaces a running program without changing its file.
  cp "$name/segue" "$folder/.segue.new"
  chmod 755 "$folder/.segue.new"
  # A program for another system or with a missing library does not replace one that works.
  installed=$("$folder/.segue.new" --version) || {
    rm -f "$folder/.segue.new"
    fail "the program does not run on this machine"
  }
  mv -f "$folder/.segue.new" "$folder/segue"
  echo "Installed $installed in $folder/segue"
  case :$PATH: in
    *:"$folder":*) ;;
    *) echo "Add $folder to your PATH." ;;
  esac
}

main
