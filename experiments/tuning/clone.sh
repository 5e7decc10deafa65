#!/bin/sh
# Brings two repositories into the folder $1. The first has the measured times and a kernel, under the MIT license; the second has the
# kernel that was measured on three of the GPUs, and states no license. Nothing of them is part of this package.
set -eu
folder=${1:?folder}
bring() {
    copy="$folder/$(echo "$1" | tr / +)"
    [ -d "$copy" ] || git clone --quiet "https://github.com/$1" "$copy"
    git -C "$copy" checkout --quiet "$2"
}
bring AutoTuningAssociation/benchmark_hub 8eb99e7179e6838af95d392ac6c60cebfd8c434
bring MiloLurati/AutoTuning_AMD_vs_Nvidia_GPUs 9a7dcca284d81c4f7c005268a7e9968d905f0b1a
