#!/usr/bin/env bash
# Kills the primary of a Sentinel group again and again under load, and looks for every push that was acknowledged.
#
#   scripts/failovers.sh         20 failovers, some minutes
#   scripts/failovers.sh 100     as many as you like
set -euo pipefail
cd "$(dirname "$0")/.."

GRISTMILL_FAILOVERS=${1:-20} cargo test --package gristmill-store --lib -- --nocapture a_failover_under_load_loses_no_acknowledged_push
