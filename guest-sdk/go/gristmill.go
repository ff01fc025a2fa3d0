// Package gristmill is what a handler of Gristmill, the job runner, is written with.
//
// A handler is one function. Name it in an init function; a handler's main never runs.
//
//	func init() { gristmill.Handle(handle) }
//	func main() {}
//
//	func handle(job *gristmill.Job) (any, error) {
//		var order Order
//		if err := job.JSON(&order); err != nil {
//			return nil, err // rejected: it would not parse next time either
//		}
//		slog.Info("order", "id", order.ID)
//		return order, nil // the job's result, as JSON
//	}
//
// In a component the functions of this package call the runner; in a plain `go test` they speak to a [Fake].
package gristmill

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"math"
	"time"
)

// Handler does one attempt at a job. What it returns ends the attempt:
//
//   - nil completes the job without a result; a [Payload], string or []byte is the result as it is; any other value is
//     the result as JSON;
//   - a [Snooze] runs the job again later, and the attempt does not count;
//   - an error retries the job after its topic's backoff, with the code "error", unless it is or wraps a [Failure];
//   - a panic retries the job with the code "panic"; its stack is in the log, and kept with the attempt.
type Handler func(*Job) (any, error)

// Snooze is a result: neither finished nor failed, run this job again after so long. Whole milliseconds.
type Snooze time.Duration

// Payload is bytes and the format they are in.
type Payload struct {
	Data []byte
	// ContentType is a media type such as "application/json"; empty means opaque octets.
	ContentType string
}

// Text is the payload as text; of a result that is not there it is empty.
func (p *Payload) Text() string {
	if p == nil {
		return ""
	}
	return string(p.Data)
}

// JSON decodes the payload into what `into` points at.
func (p *Payload) JSON(into any) error {
	if p == nil {
		return errors.New("there is no result")
	}
	return json.Unmarshal(p.Data, into)
}

// Pair is one entry of a job's metadata.
type Pair struct{ Name, Value string }

// Job is all that a handler may observe about its input.
type Job struct {
	// ID is a ULID, 26 characters. The same on every attempt.
	ID     string
	Tenant string
	Topic  string
	Body   Payload
	// Metadata is in order; names may repeat.
	Metadata []Pair
	// Key is empty if there is none. Jobs of the topic with the same key run one at a time and in order.
	Key string
	// Attempt is 1 on the first delivery.
	Attempt     uint32
	MaxAttempts uint32
	// EnqueuedAt, DueAt and Deadline are by the store's clock. Deadline is the hard limit of this attempt.
	EnqueuedAt, DueAt, Deadline time.Time
	// Checkpoint is what an earlier attempt saved with [Checkpoint]; nil if none did.
	Checkpoint []byte
}

// JSON decodes the body into value, whatever its content type says. Names are matched with their case, and of a name
// that is there twice the last one counts.
//
// The error is a [Failure] that rejects the job with the code "bad-payload". So does a body nested more than 128 deep:
// the decoder recurses, and a sandbox's stack is small.
func (job *Job) JSON(value any) error {
	if nestedDeeper(job.Body.Data, 128) {
		return Reject("bad-payload", "the body is JSON nested more than 128 deep")
	}
	if err := json.Unmarshal(job.Body.Data, value, jsontext.AllowDuplicateNames(true)); err != nil {
		return Reject("bad-payload", "the body is not the expected JSON: %w", err)
	}
	return nil
}

func nestedDeeper(data []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == '[' || c == '{'):
			depth++
		case !quoted && (c == ']' || c == '}'):
			depth--
		}
		if depth > limit {
			return true
		}
	}
	return false
}

// Meta returns the first value of this name in the metadata, and whether there is one.
func (job *Job) Meta(name string) (string, bool) {
	for _, pair := range job.Metadata {
		if pair.Name == name {
			return pair.Value, true
		}
	}
	return "", false
}

// Now is the time by the store's clock. Prefer it to [time.Now]: it needs no grant of a clock.
func Now() time.Time { return contextNow() }

// FuelRemaining is what this attempt may still spend; about one unit an instruction.
func FuelRemaining() uint64 { return contextFuelRemaining() }

// Cancelled says whether the job was cancelled or the runner is ending. Who never asks is stopped at the deadline.
func Cancelled() bool { return contextIsCancelled() }

// Checkpoint saves state durably: the next attempt finds it in [Job.Checkpoint].
//
// The error is a [Failure] with the code checkpoint-failed: it rejects the job if the state is larger than the topic allows
// ([ErrTooLarge]), and retries it if the store cannot take it now ([ErrUnavailable]).
func Checkpoint(state []byte) error {
	if err := hostCheckpoint(state); err != nil {
		return refused(errors.Is(err, ErrUnavailable), "checkpoint-failed", "cannot save the checkpoint: %w", err)
	}
	return nil
}

// Progress is for people who watch: 0 to 10000 (basis points) and a short note, which may be empty.
func Progress(basisPoints uint32, note string) { contextProgress(basisPoints, note) }

// Config returns a setting that the manifest grants this topic, and whether it does.
func Config(name string) (string, bool) { return configGet(name) }

// Secret returns a secret that the manifest grants this topic; nil if it does not.
func Secret(name string) []byte {
	secret, _ := configSecret(name)
	return secret
}

// encode makes a payload of what a handler returns or enqueues; nil of nil.
func encode(value any) (*Payload, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case Payload:
		return &value, nil
	case *Payload:
		return value, nil
	case []byte:
		return &Payload{Data: value}, nil
	case string:
		return &Payload{Data: []byte(value), ContentType: "text/plain; charset=utf-8"}, nil
	}
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return nil, Reject("unserializable", "the value cannot be written as JSON: %w", err)
	}
	return &Payload{Data: data, ContentType: "application/json"}, nil
}

func fromMillis(millis uint64) time.Time {
	return time.UnixMilli(int64(min(millis, math.MaxInt64))).UTC()
}

// toMillis takes a time before 1970 for 1970.
func toMillis(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) }

// wholeMillis takes a wait into the past for none.
func wholeMillis(wait time.Duration) uint64 { return uint64(max(wait.Milliseconds(), 0)) }
