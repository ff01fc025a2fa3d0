package gristmill

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Failure is an error that says whether another attempt is worth it.
type Failure struct {
	// Code is stable and for machines, such as "upstream-timeout".
	Code string
	// Rejected sends the job to the dead letters at once.
	Rejected bool
	// Wait is how long until the next attempt; nil for the topic's backoff. Means nothing to a rejected job.
	Wait *time.Duration
	// Context is kept with the attempt, such as an upstream's answer.
	Context *Payload

	cause error
}

// Retry is transient: the job is tried again until its attempts are used up. Format and args are those of
// [fmt.Errorf], %w included.
func Retry(code, format string, args ...any) *Failure {
	return &Failure{Code: code, cause: fmt.Errorf(format, args...)}
}

// Reject is permanent: another attempt would end the same.
func Reject(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Rejected: true, cause: fmt.Errorf(format, args...)}
}

// After waits this long instead of the topic's backoff.
func (f *Failure) After(wait time.Duration) *Failure {
	f.Wait = &wait
	return f
}

func (f *Failure) Error() string { return f.cause.Error() }
func (f *Failure) Unwrap() error { return errors.Unwrap(f.cause) }

// handler is the one that [Handle] was given.
var handler Handler = func(*Job) (any, error) {
	return nil, Reject("no-handler", "the component never called gristmill.Handle in an init function")
}

// Handle says which function does the jobs. Call it once, in an init function.
func Handle(h Handler) { handler = h }

// ending is how an attempt ended: a failure, a wait, or else complete.
type ending struct {
	result  *Payload
	snooze  *Snooze
	failure *Failure
	message string // the failure's, with what was wrapped around it
}

// attempt runs h and turns all it may do into an ending.
func attempt(h Handler, job *Job) (end ending) {
	defer func() {
		if cause := recover(); cause != nil {
			slog.Error("panic", "cause", cause, "stack", string(debug.Stack()))
			end = failed(Retry("panic", "%v", cause))
		}
	}()
	value, err := h(job)
	if err != nil {
		return failed(err)
	}
	if wait, ok := value.(Snooze); ok {
		return ending{snooze: &wait}
	}
	result, err := encode(value)
	if err != nil {
		return failed(err)
	}
	return ending{result: result}
}

func failed(err error) ending {
	failure, ok := errors.AsType[*Failure](err)
	if !ok {
		failure = Retry("error", "%w", err)
	}
	return ending{failure: failure, message: err.Error()}
}
