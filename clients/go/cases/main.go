// Plays clients/cases.json against the server at $GRISTMILL_SERVER, and prints what came of each step, one a line.
//
//	go run ./cases ../cases.json TENANT      # $GRISTMILL_FAULTY is a proxy that fails pushes
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	gristmill "github.com/gristmill/gristmill/clients/go"
)

type client interface {
	Push(context.Context, string, any, ...gristmill.Option) (gristmill.Pushed, error)
	PushMany(context.Context, string, []any, ...gristmill.Option) ([]gristmill.Pushed, error)
	Wait(context.Context, string, time.Duration) (gristmill.End, error)
	Cancel(context.Context, string) (string, error)
	Events(context.Context, gristmill.Filter) (iter.Seq2[gristmill.Event, error], error)
	Work(context.Context, string, gristmill.Run, gristmill.Working) error
}

type step struct {
	Do, Client, Topic, As, Job, Function string
	Bytes                                []byte
	Body                                 any
	Bodies                               []any
	Until, Count                         int
	Lease                                int64 `json:"lease_ms"`
	Timeout                              int64 `json:"timeout_ms"`
	Options                              struct {
		ID, Key, Unique, Traceparent, Priority string
		Attempts                               int
		After                                  []string
		DelayMS                                int64 `json:"delay_ms"`
		KeepMS                                 int64 `json:"keep_result_ms"`
		AtInMS                                 int64 `json:"at_in_ms"`
	}
}

type line = map[string]any

var (
	ctx     = context.Background()
	tenant  = os.Args[2]
	fake    = gristmill.NewFake()
	clients = map[string]client{
		"":         gristmill.New(gristmill.Settings{Tenant: tenant}),
		"faulty":   gristmill.New(gristmill.Settings{Tenant: tenant, Server: os.Getenv("GRISTMILL_FAULTY")}),
		"moved":    gristmill.New(gristmill.Settings{Tenant: tenant, Server: os.Getenv("GRISTMILL_FAULTY") + "/moved"}),
		"stranger": gristmill.New(gristmill.Settings{Tenant: tenant, Token: "gm_wrong"}),
		"nowhere":  gristmill.New(gristmill.Settings{Tenant: tenant, Server: "http://127.0.0.1:1", Tries: 2}),
		"fake":     fake,
	}
	address = regexp.MustCompile(`http://[\d.:]*\d`)
	names   []string
	jobs    = map[string]string{}
	streams = map[string]iter.Seq2[gristmill.Event, error]{}
)

func ms(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }

func options(s step) (some []gristmill.Option) {
	given := s.Options
	add := func(isGiven bool, option gristmill.Option) {
		if isGiven {
			some = append(some, option)
		}
	}
	add(given.DelayMS > 0, gristmill.Delay(ms(given.DelayMS)))
	add(given.KeepMS > 0, gristmill.KeepResult(ms(given.KeepMS)))
	add(given.AtInMS > 0, gristmill.At(time.Now().Add(ms(given.AtInMS))))
	add(given.ID != "", gristmill.ID(given.ID))
	add(given.Key != "", gristmill.Key(given.Key))
	add(given.Unique != "", gristmill.Unique(given.Unique))
	add(given.Priority != "", gristmill.Priority(given.Priority))
	add(given.Traceparent != "", gristmill.Traceparent(given.Traceparent))
	add(given.Attempts > 0, gristmill.Attempts(given.Attempts))
	for index, name := range given.After {
		given.After[index] = jobs[name]
	}
	add(given.After != nil, gristmill.After(given.After...))
	return some
}

func put(to line, name string, value []byte) line {
	var decoded any
	if value != nil && json.Unmarshal(value, &decoded) == nil {
		to[name] = decoded
	} else if value != nil {
		to["bytes"] = value
	}
	return to
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// function is what a worker does with a job: kind says how it ends. stop is called after until jobs.
func function(kind string, worked *[]line, until int, stop func(), c client) gristmill.Run {
	return func(running context.Context, job *gristmill.Job) (any, error) {
		*worked = append(*worked, put(line{"attempt": job.Attempt, "key": orNil(job.Key), "traceparent": orNil(job.Traceparent)}, "body", job.Body))
		if len(*worked) == until {
			stop()
		}
		first := len(*worked) == 1
		switch {
		case kind == "retry" && first:
			return nil, gristmill.Retry("retry", "once more", 0)
		case kind == "snooze" && first:
			return nil, gristmill.Snooze(100 * time.Millisecond)
		case kind == "reject":
			return nil, gristmill.Reject("no-address", "there is no address")
		case kind == "fail":
			return nil, errors.New("broken")
		case kind == "large":
			return strings.Repeat("x", 1<<20), nil
		case kind == "bytes":
			return job.Body, nil
		case kind == "cancelled":
			_, _ = c.Cancel(ctx, job.ID)
			select {
			case <-running.Done():
				return nil, errors.New("cancelled")
			case <-time.After(time.Minute):
				return nil, errors.New("no heartbeat")
			}
		case kind == "sigterm":
			heard := make(chan os.Signal, 1)
			signal.Notify(heard, syscall.SIGTERM)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-heard
		}
		return json.RawMessage(job.Body), nil
	}
}

func play(s step) (line, error) {
	c := clients[s.Client]
	switch s.Do {
	case "push":
		body := s.Body
		if s.Bytes != nil {
			body = s.Bytes
		}
		pushed, err := c.Push(ctx, s.Topic, body, options(s)...)
		said := line{"status": pushed.Status}
		if same := slices.IndexFunc(names, func(name string) bool { return jobs[name] == pushed.ID }); same >= 0 && err == nil {
			said["is"] = names[same]
		}
		names, jobs[s.As] = append(names, s.As), pushed.ID
		return said, err
	case "push_many":
		pushed, err := c.PushMany(ctx, s.Topic, s.Bodies, options(s)...)
		var statuses []string
		for index, job := range pushed {
			jobs[fmt.Sprint(s.As, index)], statuses = job.ID, append(statuses, job.Status)
		}
		return line{"statuses": statuses}, err
	case "wait":
		id, ok := jobs[s.Job]
		if !ok {
			id = s.Job
		}
		timeout := time.Minute
		if s.Timeout > 0 || s.Client == "fake" {
			timeout = ms(s.Timeout)
		}
		end, err := c.Wait(ctx, id, timeout)
		said := put(line{"outcome": end.Outcome}, "result", end.Result)
		if end.Failure != nil {
			said["failure"] = line{"reason": end.Failure.Reason, "code": end.Failure.Code, "message": end.Failure.Message}
		}
		return said, err
	case "cancel":
		word, err := c.Cancel(ctx, jobs[s.Job])
		return line{"cancelled": word}, err
	case "work":
		until, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
		worked := []line{}
		err := c.Work(until, s.Topic, function(s.Function, &worked, s.Until, stop, c), gristmill.Working{Lease: ms(s.Lease)})
		return line{"worked": worked}, err
	case "listen":
		events, err := c.Events(ctx, gristmill.Filter{Topic: s.Topic})
		streams[s.Client] = events
		return line{"listening": true}, err
	case "hear":
		var kinds []string
		for event, err := range streams[s.Client] {
			if err != nil {
				return nil, err
			}
			if event.Job == jobs[s.Job] {
				kinds = append(kinds, event.Kind)
			}
			if len(kinds) == s.Count {
				break
			}
		}
		slices.Sort(kinds)
		return line{"kinds": kinds}, nil
	case "pushed":
		return line{"pushed": fake.Pushed(s.Topic)}, nil
	case "inline":
		fake.Inline(s.Topic, function(s.Function, &[]line{}, 0, nil, c))
		return line{"inline": true}, nil
	}
	return nil, fmt.Errorf("there is no step %q", s.Do)
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	var list struct{ Cases []struct{ Steps []step } }
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		panic(err)
	}
	for _, one := range list.Cases {
		names = nil
		clear(jobs)
		for _, step := range one.Steps {
			said, err := play(step)
			if refused := (*gristmill.Error)(nil); errors.As(err, &refused) {
				said = line{"error": refused.Code, "status": refused.Status}
				if named := address.FindString(refused.Detail); named != "" {
					said["address"] = named
				}
			} else if err != nil {
				panic(err)
			}
			text, _ := json.Marshal(said)
			fmt.Println(string(text))
		}
	}
}
