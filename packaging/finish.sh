#!/bin/sh
# Usage: packaging/finish.sh VERSION OWNER/NAME FOLDER
# Completes the files of a release in FOLDER, which has the archives: adds the installer and the Homebrew formula with the
# version, the repository and the checksums, and writes SHA256SUMS.
set -eu
packaging=$(cd "$(dirname "$0")" && pwd)
version=$1 repository=$2
cd "$3"

for target in aarch64-apple-darwin x86_64-apple-darwin aarch64-unknown-linux-gnu x86_64-unknown-linux-gnu; do
  test -f "segue-$version-$target.tar.gz" || { echo "the archive for $target is missing" >&2; exit 1; }
done

checksum() {
  sha256sum "segue-$version-$1.tar.gz" | cut -d ' ' -f 1
}

sed -e "s|@VERSION@|$version|g" -e "s|@REPOSITORY@|$repository|g" "$packaging/install.sh" > install.sh
sed -e "s|@VERSION@|$version|g" -e "s|@REPOSITORY@|$repository|g" \
  -e "s|@SHA256_MACOS_ARM@|$(checksum aarch64-apple-darwin)|" \
  -e "s|@SHA256_MACOS_INTEL@|$(checksum x86_64-apple-darwin)|" \
  -e "s|@SHA256_LINUX_ARM@|$(checksum aarch64-unknown-linux-gnu)|" \
  -e "s|@SHA256_LINUX_INTEL@|$(checksum x86_64-unknown-linux-gnu)|" \
  "$packaging/homebrew/segue.rb" > segue.rb
rm -f SHA256SUMS
sha256sum -- * > ../SHA256SUMS
mv ../SHA256SUMS .
