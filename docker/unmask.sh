#!/bin/sh
# Started by root in a container: uncover /proc, then become nobody in particular and run the command.
# NVIDIA's runtime mounts over /proc/driver/nvidia, and no process may mount a /proc of its own, as the sandbox does,
# where parts of the one that it sees are covered.
set -eu

awk '$5 ~ "^/proc/." { print $5 }' /proc/self/mountinfo | sort -r | while read -r covered; do
    umount "$covered"
done
exec setpriv --reuid="${RUN_AS:-kernelmill}" --regid="${RUN_AS:-kernelmill}" --clear-groups \
    --inh-caps=-all --bounding-set=-all --no-new-privs -- "$@"
