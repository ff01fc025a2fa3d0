package gristmill

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
)

// State returns what earlier jobs of this job's key left; nil if there is nothing. After [SetState], what that said.
//
// Of the jobs of a key one runs at a time. What is set is stored in the step that completes this job, or not at all: not if it fails or
// snoozes. A component that uses it imports gristmill:job/state, and runs only in topics with state = true.
//
// The error is a [Failure], to be returned by the handler: it rejects a job without a key (no-key), and retries if the store does not
// answer (state-unavailable).
func State() ([]byte, error) { return hostState() }

// SetState has the state be these bytes once the job has completed; nil deletes it. The last call counts.
//
// Besides the errors of [State] there is the code state-too-large, which rejects the job.
func SetState(state []byte) error { return hostSetState(state) }

// StateJSON decodes the state into value, and returns whether there is one.
func StateJSON(value any) (bool, error) {
	state, err := State()
	if err != nil || state == nil {
		return false, err
	}
	if err := json.Unmarshal(state, value, jsontext.AllowDuplicateNames(true)); err != nil {
		return false, Reject("bad-state", "the state is not the expected JSON: %w", err)
	}
	return true, nil
}

// SetStateJSON is [SetState] with value as JSON.
func SetStateJSON(value any) error {
	state, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return Reject("bad-state", "the state cannot be written as JSON: %w", err)
	}
	return SetState(state)
}

func noKey() *Failure {
	return Reject("no-key", "the job has no key, so it has no state: push it with one")
}

func stateTooLarge(limit uint64) *Failure {
	return Reject("state-too-large", "the state is larger than %d bytes", limit)
}
