package gristmill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
)

// Fake is a Client that keeps jobs in memory, for tests. Time stands still: jobs wait until Work, whatever their delays.
type Fake struct {
	*Client
	jobs   []*fakeJob
	inline map[string]Run
	events []Event
}

type fakeJob struct {
	fields map[string]any
	view   jobView
}

// NewFake makes a fake without jobs.
func NewFake() *Fake {
	fake := &Fake{inline: map[string]Run{}}
	fake.Client = &Client{http: fake}
	return fake
}

// Pushed lists what was pushed, as the documents of the API, each with its "topic"; of all topics if topic is "".
func (f *Fake) Pushed(topic string) (pushed []map[string]any) {
	for _, job := range f.jobs {
		if topic == "" || job.fields["topic"] == topic {
			pushed = append(pushed, job.fields)
		}
	}
	return pushed
}

// Inline has the function do each job of the topic when it is pushed.
func (f *Fake) Inline(topic string, run Run) { f.inline[topic] = run }

// Work does what waits in the topic, and returns.
func (f *Fake) Work(ctx context.Context, topic string, run Run, _ Working) error {
	for _, job := range f.waiting(topic) {
		f.run(ctx, job, run)
	}
	return nil
}

// Events has what has happened so far.
func (f *Fake) Events(_ context.Context, by Filter) (iter.Seq2[Event, error], error) {
	return func(yield func(Event, error) bool) {
		for _, it := range f.events {
			fits := (by.Topic == "" || by.Topic == it.Topic) && (by.Job == "" || by.Job == it.Job)
			if fits && (by.Kinds == nil || slices.Contains(by.Kinds, it.Kind)) && !yield(it, nil) {
				return
			}
		}
	}, nil
}

func (f *Fake) waiting(topic string) (some []*fakeJob) {
	for _, job := range f.jobs {
		if job.view.State == "ready" && job.fields["topic"] == topic {
			some = append(some, job)
		}
	}
	return some
}

func (f *Fake) open(context.Context, string, string, any, map[string]string) (io.ReadCloser, error) {
	return nil, &Error{Code: "unreachable"}
}

func (f *Fake) call(ctx context.Context, method, path string, document, answer any, _ map[string]string, _ int) (int, error) {
	path, _, _ = strings.Cut(path, "?")
	name, _ := url.PathUnescape(strings.Split(path, "/")[2])
	if method == "POST" {
		text, err := json.Marshal(document)
		if err != nil {
			return 1, err
		}
		var many struct{ Jobs []map[string]any }
		if _ = json.Unmarshal(text, &many); many.Jobs == nil {
			var one map[string]any
			_ = json.Unmarshal(text, &one)
			answer.(*pushedOne).Pushed = f.push(ctx, name, one)
			return 1, nil
		}
		all := answer.(*pushedMany)
		for _, job := range many.Jobs {
			pushed := f.push(ctx, name, job)
			all.Jobs = append(all.Jobs, &pushed)
		}
		return 1, nil
	}
	at := slices.IndexFunc(f.jobs, func(job *fakeJob) bool { return job.view.ID == name })
	if at < 0 {
		return 1, &Error{Code: "job-unknown", Title: "Not Found", Detail: "job " + name + " was not pushed", Status: 404}
	}
	job := f.jobs[at]
	if method == "GET" {
		*answer.(*jobView) = job.view
	} else if job.view.State != "ready" {
		return 1, &Error{Code: "too-late", Title: "Conflict", Detail: "job " + name + " is over", Status: 409}
	} else {
		job.view.State, job.view.Result.Outcome = "finished", "cancelled"
		f.say(job, "job-cancelled")
		answer.(*struct{ Status string }).Status = "gone"
	}
	return 1, nil
}

func (f *Fake) push(ctx context.Context, topic string, fields map[string]any) Pushed {
	for _, other := range f.waiting(topic) {
		if fields["unique"] != nil && fmt.Sprint(fields["unique"]) == fmt.Sprint(other.fields["unique"]) {
			return Pushed{ID: other.view.ID, Status: "duplicate"}
		}
	}
	fields["topic"] = topic
	id, ok := fields["id"].(string)
	if !ok {
		id = fmt.Sprintf("fake-%d", len(f.jobs)+1)
	}
	job := &fakeJob{fields, jobView{ID: id, State: "ready"}}
	f.jobs = append(f.jobs, job)
	f.say(job, "job-pushed")
	if run := f.inline[topic]; run != nil {
		f.run(ctx, job, run)
	}
	return Pushed{ID: id, Status: "stored"}
}

// run makes one attempt, and further ones at once as long as the option Attempts allows them.
func (f *Fake) run(ctx context.Context, job *fakeJob, run Run) {
	most := 1
	if given, ok := job.fields["attempts_max"].(float64); ok {
		most = int(given)
	}
	for attempt := 1; attempt <= most; attempt++ {
		text, _ := json.Marshal(settlement(ctx, job.claim(attempt, most), run))
		var end struct {
			Ack         *struct{ Result *payload }
			Bury, Retry *struct{ Error Failure }
		}
		_ = json.Unmarshal(text, &end)
		switch {
		case end.Ack != nil:
			job.view.State, job.view.Result.Outcome, job.view.Result.Output = "finished", "complete", end.Ack.Result
			f.say(job, "job-completed")
			return
		case end.Bury != nil:
			end.Bury.Error.Reason = "rejected"
			job.view.LastFailure = &end.Bury.Error
		case end.Retry == nil:
			f.say(job, "job-snoozed")
			return
		case attempt < most:
			continue
		default:
			end.Retry.Error.Reason = "failed"
			job.view.LastFailure = &end.Retry.Error
		}
		job.view.State = "dead"
		f.say(job, "job-dead")
		return
	}
}

func (f *Fake) say(job *fakeJob, kind string) {
	f.events = append(f.events, Event{Kind: kind, Topic: job.fields["topic"].(string), Job: job.view.ID})
}

// claim is what a worker would get.
func (j *fakeJob) claim(attempt, most int) claim {
	claim := claim{Attempt: attempt, AttemptsMax: most}
	claim.Job.Spec = spec{ID: j.view.ID, Topic: j.fields["topic"].(string)}
	claim.Job.Spec.Key, _ = j.fields["key"].(string)
	text, _ := json.Marshal(j.fields["body"])
	body := string(text)
	claim.Job.Spec.Body = payload{Text: &body}
	if encoded, ok := j.fields["body_base64"]; ok {
		text, _ := json.Marshal(map[string]any{"base64": encoded})
		claim.Job.Spec.Body = payload{}
		_ = json.Unmarshal(text, &claim.Job.Spec.Body)
	}
	metadata, _ := j.fields["metadata"].(map[string]any)
	for name, value := range metadata {
		claim.Job.Spec.Metadata = append(claim.Job.Spec.Metadata, [2]string{name, value.(string)})
	}
	claim.Traceparent, _ = metadata["traceparent"].(string)
	return claim
}
