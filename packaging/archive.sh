#!/bin/sh
# Usage: packaging/archive.sh TARGET PROGRAM
# Packs a program that was built for TARGET, with its manual pages, completions and licences, into
# target/dist/segue-VERSION-TARGET.tar.gz. The generated files stay in target/package, where `cargo deb` reads them.
set -eu
cd "$(dirname "$0")/.."
target=$1 program=$2

version=$("$program" --version)
name=segue-${version#segue }-$target
rm -rf target/package
mkdir -p target/package/man target/package/completions target/dist
"$program" man target/package/man
"$program" completions bash > target/package/completions/segue.bash
"$program" completions fish > target/package/completions/segue.fish
"$program" completions zsh > target/package/completions/_segue

folder=target/package/$name
mkdir "$folder"
cp "$program" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder"
cp -R target/package/man target/package/completions "$folder"
tar -czf "target/dist/$name.tar.gz" -C target/package "$name"
