//go:build !wasip1

package gristmill

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Fake stands for the runner in tests. Its zero value grants no settings, lets a job enqueue to any topic, and its clock
// stands still at 2026-01-01.
type Fake struct {
	Config  map[string]string
	Secrets map[string][]byte
	// Now is the store's clock.
	Now       time.Time
	Cancelled bool
	// Denied are topics that may not be enqueued to.
	Denied []string
	// NoCheckpoints makes checkpoints fail, as if the store could not take them.
	NoCheckpoints bool
	// State is that of the job's key; a test gives the next run what the last one left, in [Run.State].
	State []byte
	// StateLimit is the most bytes that a state may have; 0 is taken for 64 KiB.
	StateLimit int
	// Answer answers requests; without it, none is granted.
	Answer func(*Request) (*Response, error)
}

// Run is what one attempt did. It completed if Failure and Snoozed are nil.
type Run struct {
	Result  *Payload
	Snoozed *time.Duration
	Failure *Failure
	// Message is the failure's, with what was wrapped around it.
	Message    string
	Enqueued   []Enqueued
	Requests   []Request
	Logs       []LogLine
	Checkpoint []byte
	Progress   []uint32
	// State is what the key has after the attempt: what was set counts only if the attempt completed.
	State []byte

	hasKey bool
}

// Enqueued is a follow-up job as the runner got it.
type Enqueued struct {
	NewJob
	Payload Payload
}

// LogLine is one line of the job's log.
type LogLine struct {
	Level   slog.Level
	Message string
	Fields  []Pair
}

// Of makes a job to test with: the first of five attempts, with this body, at the topic "test".
func Of(body string) *Job {
	return &Job{
		ID: "01K00000000000000000000000", Tenant: "default", Topic: "test", Body: Payload{Data: []byte(body)},
		Attempt: 1, MaxAttempts: 5, EnqueuedAt: fakeNow, DueAt: fakeNow, Deadline: fakeNow.Add(30 * time.Second),
	}
}

var fakeNow = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// The host functions belong to the process: one run at a time.
var (
	running sync.Mutex
	fake    Fake
	run     *Run
)

// Run does one attempt, as the runner would.
func (f Fake) Run(h Handler, job *Job) *Run {
	running.Lock()
	defer running.Unlock()
	if f.Now.IsZero() {
		f.Now = fakeNow
	}
	fake, run = f, &Run{State: f.State, hasKey: job.Key != ""}
	end := attempt(h, job)
	if end.failure != nil || end.snooze != nil {
		run.State = f.State
	}
	run.Result, run.Snoozed = end.result, (*time.Duration)(end.snooze)
	run.Failure, run.Message = end.failure, end.message
	return run
}

func contextNow() time.Time        { return fromMillis(toMillis(fake.Now)) }
func contextFuelRemaining() uint64 { return 1_000_000_000_000 }
func contextIsCancelled() bool     { return fake.Cancelled }

func hostCheckpoint(state []byte) error {
	if fake.NoCheckpoints {
		return fmt.Errorf("%w: the fake was told to refuse", ErrUnavailable)
	}
	run.Checkpoint = slices.Clone(state)
	return nil
}

func contextProgress(basisPoints uint32, _ string) { run.Progress = append(run.Progress, basisPoints) }

func configGet(name string) (string, bool) {
	value, ok := fake.Config[name]
	return value, ok
}

func configSecret(name string) ([]byte, bool) {
	secret, ok := fake.Secrets[name]
	return secret, ok
}

func hostEnqueue(job *NewJob, body *Payload) (string, error) {
	if slices.Contains(fake.Denied, job.Topic) {
		return "", ErrDenied
	}
	run.Enqueued = append(run.Enqueued, Enqueued{*job, *body})
	return fmt.Sprintf("01K1%022d", len(run.Enqueued)), nil
}

func hostState() ([]byte, error) {
	if !run.hasKey {
		return nil, noKey()
	}
	return run.State, nil
}

func hostSetState(state []byte) error {
	limit := fake.StateLimit
	if limit == 0 {
		limit = 64 << 10
	}
	switch {
	case !run.hasKey:
		return noKey()
	case len(state) > limit:
		return stateTooLarge(uint64(limit))
	}
	run.State = slices.Clone(state)
	return nil
}

func hostSend(request *Request) (*Response, error) {
	run.Requests = append(run.Requests, *request)
	if fake.Answer == nil {
		return nil, httpDenied("the fake answers no requests")
	}
	return fake.Answer(request)
}

func hostLog(level slog.Level, message string, fields []Pair) {
	run.Logs = append(run.Logs, LogLine{level, message, fields})
}

func hostLogEnabled(slog.Level) bool { return true }
