package gristmill

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
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

// refused is the failure for what the runner refused: a retry if that may help.
func refused(mayPass bool, code, format string, args ...any) *Failure {
	failure := Reject(code, format, args...)
	failure.Rejected = !mayPass
	return failure
}

// After waits this long instead of the topic's backoff.
func (f *Failure) After(wait time.Duration) *Failure {
	f.Wait = &wait
	return f
}

func (f *Failure) Error() string { return f.cause.Error() }
func (f *Failure) Unwrap() error { return errors.Unwrap(f.cause) }

// handler is the one that [Handle] was given; a component without it is refused before it gets jobs.
var handler Handler

// project is the folder that has the file that calls [Handle], as the compiler calls it.
var project string

// Handle says which function does the jobs. Call it once, in an init function of the handler's own module.
func Handle(h Handler) {
	handler = h
	_, file, _, _ := runtime.Caller(1)
	project = path.Dir(file) + "/"
}

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
			end = failed(panicked(cause, string(debug.Stack())))
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

// stackMax is how many bytes of a stack are kept with the attempt.
const stackMax = 4000

// panicked is the failure for a panic: its place in the message, its stack in the log and in the context.
func panicked(cause any, stack string) *Failure {
	stack, place := trace(stack)
	slog.Error("panic", "cause", cause, "stack", stack)
	message := fmt.Sprint(cause)
	if place != "" {
		message += " (" + place + ")"
	}
	failure := Retry("panic", "%s", message)
	failure.Context = &Payload{Data: []byte(stack[:min(len(stack), stackMax)]), ContentType: "text/plain; charset=utf-8"}
	return failure
}

// trace is what a stack has between the call of panic and this package's call of the handler, without offsets in the code, and the
// innermost place in it that is the author's: in the project, outside of this package.
func trace(stack string) (trimmed, place string) {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	var kept []string
	for at := 1; at+1 < len(lines); at += 2 {
		function, file := lines[at], strings.TrimSpace(lines[at+1])
		file, _, _ = strings.Cut(file, " +0x")
		switch {
		case strings.HasPrefix(function, "panic("):
			kept, place = nil, "" // what is above it is the recovery
			continue
		case strings.HasPrefix(function, ownPackage+".attempt("):
			return strings.Join(kept, "\n"), place
		}
		short := strings.TrimPrefix(file, project)
		if place == "" && short != file && !strings.HasPrefix(file, ownFolder) {
			place = short
		}
		kept = append(kept, function, "\t"+short)
	}
	return strings.Join(kept, "\n"), place
}

// ownPackage is the path of this package, and ownFolder where its files are, as the compiler calls it.
var (
	ownPackage = reflect.TypeFor[Job]().PkgPath()
	ownFolder  = func() string {
		_, file, _, _ := runtime.Caller(0)
		return path.Dir(file) + "/"
	}()
)

func failed(err error) ending {
	failure, ok := errors.AsType[*Failure](err)
	if !ok {
		failure = Retry("error", "%w", err)
	}
	return ending{failure: failure, message: err.Error()}
}
