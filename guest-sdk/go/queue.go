package gristmill

import (
	"errors"
	"time"
)

// Priority says which of a topic's ready jobs come first. Low ones wait longer, but not for ever.
type Priority uint8

// The numbers are the contract's, moved so that the zero value is Normal.
const (
	Normal Priority = iota
	High
	Low
)

// NewJob is a follow-up job. Only Topic is needed.
type NewJob struct {
	Topic string
	// Body is encoded as a handler's result is: a Payload, string or []byte as it is, anything else as JSON.
	Body     any
	Metadata []Pair
	// Key is empty for none. Jobs of the topic with the same key run one at a time and in order.
	Key string
	// NotBefore is when the job becomes due; at once if it is zero.
	NotBefore time.Time
	// Unique allows one job per topic and value: until it is done, or for UniqueWindow. Empty for no such rule.
	Unique   string
	Priority Priority
	// UniqueWindow is how long Unique is held from the acknowledgement on, whatever becomes of the job; 0: until done.
	UniqueWindow time.Duration
	// AfterJobs are IDs of jobs that have to end before this one starts, such as that of the job that runs, or what an earlier
	// Enqueue returned.
	AfterJobs []string
	// RunAfterFailed runs the job even if one of AfterJobs was not done; otherwise it is dead, too.
	RunAfterFailed bool
	// Batch is the ID of a job that waits, and waits for this one, too. Empty for none.
	Batch string
	// Open makes the job wait until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their Batch have ended.
	Open bool
}

// Why the runner refused a follow-up job, or a checkpoint; for [errors.Is].
var (
	ErrDenied       = errors.New("this topic may not enqueue to that one; name it in the manifest's `enqueue` grant")
	ErrUnknownTopic = errors.New("there is no such topic; name it under `topics` in the manifest")
	ErrTooLarge     = errors.New("larger than the limit")
	ErrTooMany      = errors.New("more jobs than one attempt may enqueue")
	ErrInvalidLinks = errors.New("the job has invalid links")
	ErrUnavailable  = errors.New("the store cannot take it now")
)

// Enqueue hands a follow-up job to the runner and returns the id that it will have.
//
// Nothing is visible to anyone until the handler returns without an error: acknowledgement and follow-up jobs are one
// step in the store. A refused job leaves the others as they are; return the error, and nothing is enqueued.
//
// The error is a [Failure] with the code enqueue-failed: it rejects the job, since another try would end the same; it retries the job
// only for [ErrUnknownTopic].
func Enqueue(job NewJob) (id string, err error) {
	body, err := encode(job.Body)
	if err != nil {
		return "", err
	}
	if body == nil {
		body = &Payload{}
	}
	if id, err = hostEnqueue(&job, body); err != nil {
		return "", refused(errors.Is(err, ErrUnknownTopic), "enqueue-failed", "cannot enqueue to %q: %w", job.Topic, err)
	}
	return id, nil
}
