#!/usr/bin/env bash
# Kills or stops the primary of a Sentinel group and that of a cluster's tenant again and again under load, moves the tenant's slot from server to
# server, and looks for every push that was acknowledged. Prints how many those were, and the longest times without one.
#
#   scripts/failovers.sh         20 of each, some minutes
#   scripts/failovers.sh 100     as many as you like
set -euo pipefail
cd "$(dirname "$0")/.."

GRISTMILL_FAILOVERS=${1:-20} cargo test --package gristmill-store --lib -- --nocapture \
    a_failover_under_load_loses_no_acknowledged_push a_replica_that_takes_over_in_a_cluster slots_that_move_under_load
