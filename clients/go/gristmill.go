// Package gristmill is a client of a Gristmill server: it pushes jobs, waits for their results, listens to events, and works jobs as a
// pull worker.
package gristmill

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Jobs in a request.
const batch = 1000

// The server sends a comment every 15 s, so a stream that is silent for longer is dead.
const quiet = 45 * time.Second

// Settings of a client. What is left out is $GRISTMILL_SERVER (or http://127.0.0.1:7331), $GRISTMILL_TOKEN, the tenant "default", 5 tries.
type Settings struct {
	Server, Token, Tenant string
	Tries                 int
}

// Client is a client of one tenant. Goroutines may share it.
type Client struct {
	http interface {
		call(ctx context.Context, method, path string, document, answer any, headers map[string]string, tries int) (int, error)
		open(ctx context.Context, method, path string, document any, headers map[string]string) (io.ReadCloser, error)
	}
	tenant  string
	tries   int
	repeats bool
}

// New makes a client. Nothing is sent.
func New(settings Settings) *Client {
	at := strings.TrimRight(cmp.Or(settings.Server, os.Getenv("GRISTMILL_SERVER"), "http://127.0.0.1:7331"), "/")
	http := &server{at, cmp.Or(settings.Token, os.Getenv("GRISTMILL_TOKEN"))}
	return &Client{http, "/v1/tenants/" + url.PathEscape(cmp.Or(settings.Tenant, "default")), cmp.Or(settings.Tries, 5), true}
}

// Option of a push: the fields of the API that it sets.
type Option func(fields map[string]any)

// Field sets any field of a push, such as "after_failed", "batch" or "metadata".
func Field(name string, value any) Option {
	return func(fields map[string]any) { fields[name] = value }
}

func Delay(d time.Duration) Option      { return Field("delay_ms", d.Milliseconds()) }
func At(at time.Time) Option            { return Field("at_ms", at.UnixMilli()) }
func Key(key string) Option             { return Field("key", key) }
func Unique(value string) Option        { return Field("unique", value) }
func Priority(priority string) Option   { return Field("priority", priority) }
func After(ids ...string) Option        { return Field("after", ids) }
func Attempts(most int) Option          { return Field("attempts_max", most) }
func ID(id string) Option               { return Field("id", id) }
func KeepResult(d time.Duration) Option { return Field("keep_result_ms", d.Milliseconds()) }
func TTL(d time.Duration) Option        { return Field("ttl_ms", d.Milliseconds()) }
func Traceparent(context string) Option {
	return Field("metadata", map[string]string{"traceparent": context})
}

// NewJob is a job of a PushMany that has options of its own.
type NewJob struct {
	Body    any
	Options []Option
}

// Pushed says what became of a push: Status is "stored", "exists", "duplicate" (ID is the other job's) or, of many, "refused" (Problem says why).
type Pushed struct{ ID, Status, Problem string }

// Push pushes a job whose body is body as JSON, or these bytes.
func (c *Client) Push(ctx context.Context, topic string, body any, options ...Option) (Pushed, error) {
	fields := fieldsOf(body, options)
	var answer pushedOne
	err := c.push(ctx, topic, []map[string]any{fields}, fields, &answer, func() []*Pushed { return []*Pushed{&answer.Pushed} })
	return answer.Pushed, err
}

// PushMany pushes a job for each body, or NewJob. Each request of up to 1000 jobs is stored as a whole.
func (c *Client) PushMany(ctx context.Context, topic string, bodies []any, options ...Option) ([]Pushed, error) {
	var all []Pushed
	for some := range slices.Chunk(bodies, batch) {
		var jobs []map[string]any
		for _, body := range some {
			jobs = append(jobs, fieldsOf(body, options))
		}
		var answer pushedMany
		err := c.push(ctx, topic, jobs, map[string]any{"jobs": jobs}, &answer, func() []*Pushed { return answer.Jobs })
		if err != nil {
			return all, err
		}
		for _, pushed := range answer.Jobs {
			all = append(all, *pushed)
		}
	}
	return all, nil
}

// The answers to a push of one job, and of many.
type (
	pushedOne struct {
		Pushed
		warned
	}
	pushedMany struct {
		Jobs []*Pushed
		warned
	}
)

// warned is what the server warns of in its answer to a push, such as a topic that it does not know.
type warned struct{ Warnings []string }

func (w warned) log() {
	for _, warning := range w.Warnings {
		log.Printf("gristmill: %s", warning)
	}
}

// push sends jobs. What an earlier try of them has stored is stored by this push.
func (c *Client) push(ctx context.Context, topic string, jobs []map[string]any, document any, answer interface{ log() }, pushed func() []*Pushed) error {
	headers, made := map[string]string{"Idempotency-Key": rand.Text()}, []string(nil)
	isNamed := func(job map[string]any) bool { return job["id"] != nil || job["unique"] != nil }
	if c.repeats && slices.ContainsFunc(jobs, isNamed) {
		headers = nil // That key and these exclude each other: ids tell a repeated push from another one's.
		for _, job := range jobs {
			if job["id"] == nil {
				made = append(made, rand.Text())
				job["id"] = made[len(made)-1]
			}
		}
	}
	tried, err := c.http.call(ctx, "POST", c.tenant+"/topics/"+url.PathEscape(topic)+"/jobs", document, answer, headers, c.tries)
	answer.log()
	for _, it := range pushed() {
		if tried > 1 && slices.Contains(made, it.ID) {
			it.Status = "stored"
		}
	}
	return err
}

func fieldsOf(body any, options []Option) map[string]any {
	if job, ok := body.(NewJob); ok {
		return fieldsOf(job.Body, slices.Concat(options, job.Options))
	}
	fields := map[string]any{"body": body}
	if bytes, ok := body.([]byte); ok {
		fields = map[string]any{"body_base64": bytes}
	}
	for _, option := range options {
		option(fields)
	}
	return fields
}

// Failure says why an attempt failed.
type Failure struct{ Reason, Code, Message string }

// End says how a job ended: Outcome is "complete", "dead", "expired", "cancelled" or "deleted". Result is nil unless KeepResult or the topic keeps it.
type End struct {
	Outcome string
	Result  []byte
	Failure *Failure
}

// Decode decodes the result, which is JSON.
func (e End) Decode(value any) error { return json.Unmarshal(e.Result, value) }

type jobView struct {
	ID, State string
	Result    struct {
		Outcome string
		Output  *payload
		Failure *Failure
	}
	Ended       struct{ Outcome string }
	LastFailure *Failure `json:"last_failure"`
}

// Wait waits for the end of a job.
func (c *Client) Wait(ctx context.Context, id string, timeout time.Duration) (End, error) {
	for until := time.Now().Add(timeout); ; {
		left := max(0, time.Until(until))
		var view jobView
		path := fmt.Sprintf("%s/jobs/%s?wait_ms=%d", c.tenant, url.PathEscape(id), min(left, 30*time.Second).Milliseconds())
		if _, err := c.http.call(ctx, "GET", path, nil, &view, nil, c.tries); err != nil {
			return End{}, err
		}
		if view.State == "finished" || view.State == "dead" {
			return End{cmp.Or(view.Result.Outcome, view.Ended.Outcome, view.State), view.Result.Output.bytes(), cmp.Or(view.Result.Failure, view.LastFailure)}, nil
		}
		if left == 0 {
			return End{}, &Error{Code: "wait-timeout", Title: "Not over", Detail: fmt.Sprintf("job %s is %s after %v", view.ID, view.State, timeout)}
		}
	}
}

// Cancel answers "gone" if the job waited, "stopping" if it runs.
func (c *Client) Cancel(ctx context.Context, id string) (string, error) {
	var answer struct{ Status string }
	_, err := c.http.call(ctx, "DELETE", c.tenant+"/jobs/"+url.PathEscape(id), nil, &answer, nil, c.tries)
	return answer.Status, err
}

// Filter chooses events; what is left out excludes none.
type Filter struct {
	Topic, Job string
	Kinds      []string
}

// Event is an event; Kind is as docs/reference/events.md names it, or "reconnected": events between may be missing. Data is all of it.
type Event struct {
	Kind, Topic, Job string
	Data             json.RawMessage `json:"-"`
}

// Events listens to what happens from now on, until ctx ends.
func (c *Client) Events(ctx context.Context, filter Filter) (iter.Seq2[Event, error], error) {
	asked := url.Values{"topic": {filter.Topic}, "job": {filter.Job}, "kind": {strings.Join(filter.Kinds, ",")}}
	maps.DeleteFunc(asked, func(_ string, values []string) bool { return values[0] == "" })
	open := func() (io.ReadCloser, error) {
		return c.http.open(ctx, "GET", c.tenant+"/events?"+asked.Encode(), nil, nil)
	}
	body, err := open()
	return func(yield func(Event, error) bool) {
		for body != nil && listen(body, yield) {
			for body = nil; body == nil && ctx.Err() == nil; {
				sleep(ctx, time.Second)
				if body, err = open(); err != nil {
					if refused, ok := err.(*Error); !ok || !refused.Temporary() {
						yield(Event{}, err)
						return
					}
				} else if !yield(Event{Kind: "reconnected"}, nil) {
					body.Close()
					return
				}
			}
		}
	}, err
}

// listen reads a stream to its end. It returns false if the reader of the events has enough.
func listen(body io.ReadCloser, yield func(Event, error) bool) bool {
	defer body.Close()
	silence := time.AfterFunc(quiet, func() { body.Close() })
	defer silence.Stop()
	kind := ""
	for lines := bufio.NewReader(body); ; silence.Reset(quiet) {
		line, err := lines.ReadString('\n')
		if err != nil {
			return true
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if name == "event" {
			kind = value
		} else if name == "data" {
			event := Event{Data: json.RawMessage(value)}
			_ = json.Unmarshal(event.Data, &event)
			event.Kind = kind
			if !yield(event, nil) {
				return false
			}
		}
	}
}
