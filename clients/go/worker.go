package gristmill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

type payload struct {
	Text        *string `json:"text,omitempty"`
	Base64      []byte  `json:"base64,omitempty"`
	ContentType string  `json:"content_type,omitempty"`
}

func (p *payload) bytes() []byte {
	if p == nil {
		return nil
	} else if p.Text != nil {
		return []byte(*p.Text)
	}
	return p.Base64
}

type claim struct {
	Lease, Traceparent, Previous string
	Attempt                      int
	AttemptsMax                  int `json:"attempts_max"`
	Job                          struct{ Spec spec }
}

type spec struct {
	ID, Topic, Key string
	Body           payload
	Metadata       [][2]string
}

// Job is a claimed job.
type Job struct {
	ID, Topic, Key       string
	Body                 []byte
	Metadata             map[string]string
	Attempt, AttemptsMax int
	// Previous says why the last attempt failed.
	Previous    string
	Traceparent string
}

// Decode decodes the body, which is JSON.
func (j *Job) Decode(value any) error { return json.Unmarshal(j.Body, value) }

type snooze struct{ after time.Duration }
type failed struct {
	code, message string
	after         *time.Duration
	isFinal       bool
}

func (s snooze) Error() string  { return fmt.Sprintf("again in %v", s.after) }
func (f *failed) Error() string { return f.message }

// Snooze runs the job again after this time, with no attempt used.
func Snooze(after time.Duration) error { return snooze{after} }

// Reject says that the job can never succeed: it is dead at once.
func Reject(code, message string) error { return &failed{code: code, message: message, isFinal: true} }

// Retry says that the attempt failed, and when the next one comes. Of any other error the topic's backoff says that.
func Retry(code, message string, after time.Duration) error {
	return &failed{code: code, message: message, after: &after}
}

// Run does a job. What it returns is the result: bytes, or JSON. Its context ends when there is no point in going on: the job was cancelled,
// or another worker has it.
type Run func(ctx context.Context, job *Job) (any, error)

// settlement runs the function, and says how the attempt ended.
func settlement(ctx context.Context, it claim, run Run) (end map[string]any) {
	spec := it.Job.Spec
	job := &Job{spec.ID, spec.Topic, spec.Key, spec.Body.bytes(), map[string]string{}, it.Attempt, it.AttemptsMax, it.Previous, it.Traceparent}
	for _, pair := range spec.Metadata {
		job.Metadata[pair[0]] = pair[1]
	}
	value, err := func() (value any, err error) {
		defer func() {
			if panicked := recover(); panicked != nil {
				err = &failed{code: "panic", message: fmt.Sprint(panicked)}
			}
		}()
		return run(ctx, job)
	}()
	var result payload
	if bytes, ok := value.([]byte); ok {
		result = payload{Base64: bytes, ContentType: "application/octet-stream"}
	} else if text, wrong := json.Marshal(value); err == nil {
		written := string(text)
		result, err = payload{Text: &written, ContentType: "application/json"}, wrong
	}
	var later snooze
	wish := &failed{}
	switch isFailed := errors.As(err, &wish); {
	case err == nil && value == nil:
		return map[string]any{"ack": map[string]any{}}
	case err == nil:
		return map[string]any{"ack": map[string]any{"result": result}}
	case errors.As(err, &later):
		return map[string]any{"snooze_ms": later.after.Milliseconds()}
	case ctx.Err() != nil && !wish.isFinal:
		return map[string]any{"release": map[string]any{}}
	case !isFailed:
		wish = &failed{code: strings.TrimLeft(fmt.Sprintf("%T", err), "*"), message: err.Error()}
	}
	failure, how := map[string]any{"error": map[string]any{"code": wish.code, "message": err.Error()}}, "retry"
	if wish.after != nil {
		failure["after_ms"] = wish.after.Milliseconds()
	} else if wish.isFinal {
		how = "bury"
	}
	return map[string]any{how: failure}
}

// Working says how Work works: how many jobs at once (1), how long a job is held without a heartbeat (a minute), and the worker's name.
type Working struct {
	Concurrency int
	Lease       time.Duration
	Name        string
}

type worker struct {
	*Client
	run     Run
	lease   time.Duration
	running sync.Map // lease to what cancels its context
}

// Work works the jobs of a topic with `handler = "external"` until ctx ends: jobs that run are ended and settled, and none is claimed any more.
// signal.NotifyContext makes a context that ends with SIGTERM.
func (c *Client) Work(ctx context.Context, topic string, run Run, how Working) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &worker{Client: c, run: run, lease: cmp.Or(how.Lease, time.Minute)}
	asked := map[string]any{"lease_ms": w.lease.Milliseconds(), "wait_ms": 30_000, "worker": cmp.Or(how.Name, fmt.Sprint("go-", os.Getpid()))}
	var loops sync.WaitGroup
	for range max(1, how.Concurrency) {
		loops.Go(func() { stop(w.loop(ctx, c.tenant+"/topics/"+url.PathEscape(topic)+"/claim", asked)) })
	}
	beating, end := context.WithCancel(context.WithoutCancel(ctx))
	go w.beat(beating)
	loops.Wait()
	end()
	if refused := (*Error)(nil); errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return nil
}

// loop claims and works until ctx ends, or a claim is refused for good.
func (w *worker) loop(ctx context.Context, path string, asked any) error {
	for ctx.Err() == nil {
		var claimed struct{ Claims []claim }
		_, err := w.http.call(ctx, "POST", path, asked, &claimed, nil, 1)
		refused := &Error{}
		if errors.As(err, &refused) && ctx.Err() == nil {
			if !refused.Temporary() && refused.Status < 500 {
				return refused
			}
			log.Printf("gristmill: no claim: %v", err)
			sleep(ctx, max(time.Second, refused.RetryAfter))
		}
		for _, claim := range claimed.Claims {
			w.do(ctx, claim)
		}
	}
	return nil
}

func (w *worker) do(ctx context.Context, claim claim) {
	end := map[string]any{"release": map[string]any{}}
	if ctx.Err() == nil {
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		w.running.Store(claim.Lease, cancel)
		end = settlement(running, claim, w.run)
		w.running.Delete(claim.Lease)
		cancel()
	}
	if err := w.settle(claim, end); err != nil {
		log.Printf("gristmill: job %s is not settled: %v", claim.Job.Spec.ID, err)
		if refused := (*Error)(nil); errors.As(err, &refused) { // such as a result that is too large
			failure := map[string]any{"code": refused.Code, "message": refused.Detail}
			_ = w.settle(claim, map[string]any{"retry": map[string]any{"error": failure}})
		}
	}
}

func (w *worker) settle(claim claim, end map[string]any) error {
	end["lease"] = claim.Lease
	path, document := w.tenant+"/leases/settle", map[string]any{"settlements": []any{end}}
	_, err := w.http.call(context.Background(), "POST", path, document, &struct{}{}, nil, w.tries)
	return err
}

// beat extends the leases of the jobs that run.
func (w *worker) beat(ctx context.Context) {
	for sleep(ctx, w.lease/3); ctx.Err() == nil; sleep(ctx, w.lease/3) {
		var leases []any
		w.running.Range(func(lease, _ any) bool { leases = append(leases, lease); return true })
		if len(leases) == 0 {
			continue
		}
		var answer struct{ Extended []string }
		asked := map[string]any{"leases": leases, "lease_ms": w.lease.Milliseconds()}
		_, _ = w.http.call(ctx, "POST", w.tenant+"/leases/extend", asked, &answer, nil, 1)
		for index, word := range answer.Extended {
			if cancel, ok := w.running.Load(leases[index]); ok && word != "extended" {
				cancel.(context.CancelFunc)()
			}
		}
	}
}
