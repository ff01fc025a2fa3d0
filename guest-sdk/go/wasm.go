//go:build wasip1

package gristmill

import (
	"fmt"
	"log/slog"
	"time"
)

// handlerHandle is what the runner calls for an attempt.
func handlerHandle(job Job) (wireOutcome, *wireFailure) {
	end := attempt(handler, &job)
	switch {
	case end.failure != nil:
		return wireOutcome{}, end.lowered()
	case end.snooze != nil:
		return wireOutcome{Kind: wireOutcomeSnooze, Snooze: wholeMillis(time.Duration(*end.snooze))}, nil
	}
	return wireOutcome{Complete: end.result}, nil
}

func (end ending) lowered() *wireFailure {
	detail := wireFailureDetail{end.failure.Code, end.message, end.failure.Context}
	if end.failure.Rejected {
		return &wireFailure{Kind: wireFailureReject, Reject: detail}
	}
	retry := wireFailureRetryValue{Value0: detail}
	if wait := end.failure.Wait; wait != nil {
		retry.Value1 = new(wholeMillis(*wait))
	}
	return &wireFailure{Retry: retry}
}

// selfTestCheck is called once before a version serves: without a handler, it must not.
func selfTestCheck() *string {
	if handler != nil {
		return nil
	}
	return new("no handler: call gristmill.Handle in an init function")
}

func hostEnqueue(job *NewJob, body *Payload) (string, error) {
	wire := wireNewJob{
		Topic:        job.Topic,
		Body:         *body,
		Metadata:     job.Metadata,
		Key:          job.Key,
		Unique:       job.Unique,
		Priority:     [...]wirePriority{Normal: wirePriorityNormal, High: wirePriorityHigh, Low: wirePriorityLow}[job.Priority],
		UniqueWindow: millisUnless0(job.UniqueWindow),
	}
	if !job.NotBefore.IsZero() {
		wire.NotBefore = &job.NotBefore
	}
	links := wireLinks{After: job.AfterJobs, Batch: job.Batch, Open: job.Open}
	if job.RunAfterFailed {
		links.AfterFailed = wireAfterFailedRun
	}
	id, err := queueEnqueueLinked(wire, links)
	if err == nil {
		return id, nil
	}
	switch err.Kind {
	case wireLinkedErrorDenied:
		return "", ErrDenied
	case wireLinkedErrorTooLarge:
		return "", fmt.Errorf("%w of %d bytes", ErrTooLarge, err.TooLarge)
	case wireLinkedErrorTooMany:
		return "", fmt.Errorf("%w, which is %d", ErrTooMany, err.TooMany)
	case wireLinkedErrorUnknownTopic:
		return "", ErrUnknownTopic
	}
	return "", fmt.Errorf("%w: %s", ErrInvalidLinks, err.InvalidLinks)
}

// millisUnless0 takes no time for none.
func millisUnless0(wait time.Duration) *uint64 {
	if wait <= 0 {
		return nil
	}
	return new(wholeMillis(wait))
}

func hostCheckpoint(state []byte) error {
	err := contextCheckpoint(state)
	switch {
	case err == nil:
		return nil
	case err.Kind == wireCheckpointErrorUnavailable:
		return fmt.Errorf("%w: %s", ErrUnavailable, err.Unavailable)
	}
	return fmt.Errorf("%w of %d bytes", ErrTooLarge, err.TooLarge)
}

func hostState() ([]byte, error) {
	state, err := stateGet()
	return state, stateError(err)
}

func hostSetState(state []byte) error { return stateError(stateSet(state)) }

func stateError(err *wireStateError) error {
	switch {
	case err == nil:
		return nil
	case err.Kind == wireStateErrorNoKey:
		return noKey()
	case err.Kind == wireStateErrorTooLarge:
		return stateTooLarge(err.TooLarge)
	}
	return Retry("state-unavailable", "the state cannot be read now: %s", err.Unavailable)
}

func hostSend(request *Request) (*Response, error) {
	response, err := httpSend(wireRequest{
		Method:    request.Method,
		URL:       request.URL,
		Headers:   request.Headers,
		Body:      request.Body,
		Timeout:   millisUnless0(request.Timeout),
		Redirects: request.Redirects,
	})
	if err == nil {
		return &response, nil
	}
	switch err.Kind {
	case wireHttpErrorDenied:
		return nil, httpDenied(err.Denied)
	case wireHttpErrorInvalid:
		return nil, Reject("http-invalid", "the request cannot be sent: %s", err.Invalid)
	case wireHttpErrorTimeout:
		return nil, Retry("http-timeout", "no answer in time")
	case wireHttpErrorTooLarge:
		return nil, Reject("http-too-large", "the request or its answer is larger than %d bytes", err.TooLarge)
	case wireHttpErrorTooMany:
		return nil, Reject("http-too-many", "one attempt may send no more than %d requests", err.TooMany)
	}
	return nil, Retry("http-unreachable", "nothing answers: %s", err.Unreachable)
}

func hostLog(level slog.Level, message string, fields []Pair) {
	logEmit(wireLevelOf(level), message, fields)
}

func hostLogEnabled(level slog.Level) bool { return logEnabled(wireLevelOf(level)) }

func wireLevelOf(level slog.Level) wireLevel {
	switch {
	case level < slog.LevelDebug:
		return wireLevelTrace
	case level < slog.LevelInfo:
		return wireLevelDebug
	case level < slog.LevelWarn:
		return wireLevelInfo
	case level < slog.LevelError:
		return wireLevelWarn
	}
	return wireLevelError
}
