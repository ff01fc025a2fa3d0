package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
)

const ada = `{"email":"ada@example.org","name":"Ada"}`

func TestSignupIsGreeted(t *testing.T) {
	run := gristmill.Fake{}.Run(handle, gristmill.Of(`{"email":" Ada@Example.ORG\n","name":"\tAda  King ","plan":"pro","x":1}`))
	want(t, run, `{"email":"ada@example.org","name":"Ada King","plan":"pro","greeting":"Welcome, Ada King!"}`)
	if run.Result.ContentType != "application/json" {
		t.Errorf("content type is %q", run.Result.ContentType)
	}
}

func TestTextStaysAsItIs(t *testing.T) {
	run := gristmill.Fake{}.Run(handle, gristmill.Of(`{"email":"Ä@É.Org","name":"<Žofie>\u2028\u00a0\"&\u0001"}`))
	want(t, run, `{"email":"Ä@É.org","name":"<Žofie>`+"\u2028\u00a0"+`\"&\u0001","plan":"free",`+
		`"greeting":"Welcome, <Žofie>`+"\u2028\u00a0"+`\"&\u0001!"}`)
}

func TestReminderIsAskedFor(t *testing.T) {
	now := time.UnixMilli(1_000).UTC()
	run := gristmill.Fake{Now: now}.Run(handle, gristmill.Of(ada))
	if len(run.Enqueued) != 1 {
		t.Fatalf("enqueued %d jobs", len(run.Enqueued))
	}
	job := run.Enqueued[0]
	if body := string(job.Payload.Data); body != `{"email":"ada@example.org","name":"Ada","plan":"free","reminder":true}` {
		t.Errorf("body is %s", body)
	}
	if job.Topic != "test" || job.Unique != "reminder:ada@example.org" || job.Priority != gristmill.Low {
		t.Errorf("job is %+v", job)
	}
	if wait := job.NotBefore.Sub(now); wait != 72*time.Hour {
		t.Errorf("due in %v", wait)
	}
}

func TestReminderAsksForNone(t *testing.T) {
	run := gristmill.Fake{}.Run(handle, gristmill.Of(`{"email":"ada@example.org","name":"Ada","reminder":true}`))
	want(t, run, `{"email":"ada@example.org","name":"Ada","plan":"free","greeting":"Still there, Ada?"}`)
	if len(run.Enqueued) != 0 {
		t.Errorf("enqueued %+v", run.Enqueued)
	}
	if run.Logs[0].Message != "reminder" {
		t.Errorf("logged %+v", run.Logs)
	}
}

func TestRefusedReminderIsRejected(t *testing.T) {
	run := gristmill.Fake{Denied: []string{"test"}}.Run(handle, gristmill.Of(ada))
	if run.Failure == nil || run.Failure.Code != "enqueue-failed" || !run.Failure.Rejected || !errors.Is(run.Failure, gristmill.ErrDenied) {
		t.Errorf("failure is %+v", run.Failure)
	}
}

func TestLogKeepsTheAddressOut(t *testing.T) {
	run := gristmill.Fake{}.Run(handle, gristmill.Of(ada))
	if len(run.Logs) != 1 {
		t.Fatalf("logged %+v", run.Logs)
	}
	fields := run.Logs[0].Fields
	if len(fields) != 2 || fields[0] != (gristmill.Pair{Name: "domain", Value: "example.org"}) ||
		fields[1] != (gristmill.Pair{Name: "plan", Value: "free"}) {
		t.Errorf("fields are %+v", fields)
	}
}

func TestGreylistedDomainIsTakenAtTheSecondTry(t *testing.T) {
	fake := gristmill.Fake{Config: map[string]string{"greylist": "example.net, example.org ,"}}
	job := gristmill.Of(ada)
	run := fake.Run(handle, job)
	if run.Failure == nil || run.Failure.Code != "greylisted" || run.Failure.Rejected || *run.Failure.Wait != 30*time.Second {
		t.Fatalf("failure is %+v", run.Failure)
	}
	if run.Message != "example.org takes new senders at the second try" {
		t.Errorf("message is %q", run.Message)
	}
	job.Attempt = 2
	want(t, fake.Run(handle, job), `{"email":"ada@example.org","name":"Ada","plan":"free","greeting":"Welcome, Ada!"}`)
}

func TestBadSignupIsRejected(t *testing.T) {
	signup := func(field string) string { return `{"email":"ada@example.org","name":"Ada",` + field + `}` }
	for body, code := range map[string]string{
		``:                                     "bad-payload",
		`null`:                                 "bad-payload",
		`[]`:                                   "bad-payload",
		ada + ada:                              "bad-payload",
		"{\"email\":\"\xff\"}":                 "bad-payload",
		signup(`"x":"\ud800"`):                 "bad-payload",
		strings.Repeat("[", 100_000):           "bad-payload",
		signup(`"reminder":null`):              "bad-payload",
		signup(`"reminder":"true"`):            "bad-payload",
		`{}`:                                   "invalid-email",
		`{"email":1,"name":"","plan":1}`:       "invalid-email",
		signup(`"email":"ada"`):                "invalid-email",
		signup(`"email":"@example.org"`):       "invalid-email",
		signup(`"email":"a@b@example.org"`):    "invalid-email",
		signup(`"email":"a@org"`):              "invalid-email",
		signup(`"email":"a@.org"`):             "invalid-email",
		signup(`"email":"a@example."`):         "invalid-email",
		signup(`"name":[]`):                    "invalid-name",
		signup(`"name":" \t","plan":1`):        "invalid-name",
		signup(`"plan":null`):                  "invalid-plan",
		signup(`"plan":"Free","reminder":"x"`): "invalid-plan",
	} {
		run := gristmill.Fake{}.Run(handle, gristmill.Of(body))
		if run.Failure == nil || run.Failure.Code != code || !run.Failure.Rejected {
			t.Errorf("%.80s: failure is %+v, not %s", body, run.Failure, code)
		}
		if len(run.Enqueued)+len(run.Logs) > 0 {
			t.Errorf("%.80s: enqueued or logged something", body)
		}
	}
}

func TestPanicIsRetried(t *testing.T) {
	run := gristmill.Fake{}.Run(func(*gristmill.Job) (any, error) { panic("oh no") }, gristmill.Of(ada))
	if run.Failure == nil || run.Failure.Code != "panic" || run.Failure.Rejected || !strings.HasPrefix(run.Message, "oh no (handler_test.go:") {
		t.Fatalf("failure is %+v: %s", run.Failure, run.Message)
	}
	stack := string(run.Failure.Context.Data)
	if !strings.Contains(stack, "TestPanicIsRetried") || strings.Contains(stack, "attempt") {
		t.Errorf("the stack is %s", stack)
	}
	if len(run.Logs) != 1 || run.Logs[0].Fields[1].Value != stack {
		t.Errorf("the log lacks the stack: %+v", run.Logs)
	}
}

func TestACompletedJobLeavesAStateToTheNextOneOfItsKey(t *testing.T) {
	count := func(job *gristmill.Job) (any, error) {
		var seen int
		if _, err := gristmill.StateJSON(&seen); err != nil {
			return nil, err
		}
		if err := gristmill.SetStateJSON(seen + 1); err != nil {
			return nil, err
		}
		if string(job.Body.Data) == "fail" {
			return nil, errors.New("after the fact")
		}
		return nil, nil
	}
	of := func(body, key string) *gristmill.Job {
		job := gristmill.Of(body)
		job.Key = key
		return job
	}
	fake := gristmill.Fake{StateLimit: 1}
	for _, step := range []struct{ body, left string }{{"", "1"}, {"fail", "1"}, {"", "2"}} {
		fake.State = fake.Run(count, of(step.body, "k")).State
		if string(fake.State) != step.left {
			t.Errorf("state is %q, want %q", fake.State, step.left)
		}
	}
	fake.State = []byte("9")
	for key, code := range map[string]string{"": "no-key", "k": "state-too-large"} {
		run := fake.Run(count, of("", key))
		if run.Failure == nil || run.Failure.Code != code || !run.Failure.Rejected || string(run.State) != "9" {
			t.Errorf("failure is %+v, state %q", run.Failure, run.State)
		}
	}
}

func TestAFollowUpWaitsForTheJobThatRunsAndIsABatchOfOthers(t *testing.T) {
	fanOut := func(job *gristmill.Job) (any, error) {
		report, err := gristmill.Enqueue(gristmill.NewJob{Topic: "report", AfterJobs: []string{job.ID}, RunAfterFailed: true})
		if err != nil {
			return nil, err
		}
		return gristmill.Enqueue(gristmill.NewJob{Topic: "row", Batch: report})
	}
	job := gristmill.Of("")
	run := gristmill.Fake{}.Run(fanOut, job)
	if len(run.Enqueued) != 2 {
		t.Fatalf("enqueued %+v", run.Enqueued)
	}
	report, row := run.Enqueued[0], run.Enqueued[1]
	if len(report.AfterJobs) != 1 || report.AfterJobs[0] != job.ID || !report.RunAfterFailed || report.Batch != "" {
		t.Errorf("report is %+v", report)
	}
	if row.Batch != "01K1"+strings.Repeat("0", 21)+"1" || len(row.AfterJobs) > 0 || row.Open {
		t.Errorf("row is %+v", row)
	}
}

func TestRequestsAreAnswered(t *testing.T) {
	ask := func(*gristmill.Job) (any, error) {
		answer, err := gristmill.Send(gristmill.Request{URL: "https://api.example.org"})
		if err != nil {
			return nil, err
		}
		return string(answer.Body) + answer.Header("X-Kept"), nil
	}
	answer := &gristmill.Response{Status: 200, Body: []byte("fine"), Headers: []gristmill.Pair{{Name: "x-kept", Value: "!"}}}
	fake := gristmill.Fake{Answer: func(*gristmill.Request) (*gristmill.Response, error) { return answer, nil }}
	run := fake.Run(ask, gristmill.Of(""))
	want(t, run, "fine!")
	if len(run.Requests) != 1 || run.Requests[0].Method != "GET" {
		t.Errorf("requests are %+v", run.Requests)
	}
	run = gristmill.Fake{}.Run(ask, gristmill.Of(""))
	if run.Failure == nil || run.Failure.Code != "http-denied" || !run.Failure.Rejected {
		t.Errorf("failure is %+v", run.Failure)
	}
}

func want(t *testing.T, run *gristmill.Run, result string) {
	t.Helper()
	if run.Failure != nil {
		t.Fatalf("failed: %s: %s", run.Failure.Code, run.Message)
	}
	if got := string(run.Result.Data); got != result {
		t.Errorf("result is\n%s, not\n%s", got, result)
	}
}
