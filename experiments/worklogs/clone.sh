#!/bin/sh
# Brings the two repositories of kernels.csv into the folder $1. Both state the MIT license; nothing of them is part of this package.
set -eu
folder=${1:?folder}
here=$(cd "$(dirname "$0")" && pwd)
grep -v '^#' "$here/kernels.csv" | tail -n +2 | cut -d, -f2,3 | sort -u | while IFS=, read -r repository commit; do
    copy="$folder/$(echo "$repository" | tr / +)"
    [ -d "$copy" ] || git clone --quiet "https://github.com/$repository" "$copy"
    git -C "$copy" checkout --quiet "$commit"
done
