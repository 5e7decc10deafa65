#!/bin/sh
# Brings the reports of the three lists into the folder $1, one folder for each repository. Most of the repositories
# state no license: read the reports there, and copy nothing of them.
set -eu
folder=${1:?folder}
here=$(cd "$(dirname "$0")" && pwd)
cat "$here"/*.csv | grep -v "^repository," | cut -d, -f1,2 | sort -u | while IFS=, read -r repository commit; do
    copy="$folder/$(echo "$repository" | tr / +)"
    [ -d "$copy/git" ] || git clone --quiet --bare "https://github.com/$repository" "$copy/git"
    grep -h "^$repository,$commit," "$here"/*.csv | cut -d, -f3 | while IFS= read -r path; do
        to="$copy/$(echo "$commit" | cut -c1-8)/$path"
        mkdir -p "$(dirname "$to")"
        git -C "$copy/git" cat-file blob "$commit:$path" > "$to"
    done
done
