// Pushes jobs over HTTP with nothing but Go's standard library.
//
//	go run push.go echo      # one job now, one in a minute, 2,500 at once; the server is at $GRISTMILL_SERVER,
//	                         // and $GRISTMILL_TOKEN is the token to come in with, if it wants one
package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	jobsPerRequest = 1000
	tries          = 5
)

var (
	url    = cmp.Or(os.Getenv("GRISTMILL_SERVER"), "http://127.0.0.1:7331")
	token  = os.Getenv("GRISTMILL_TOKEN")
	client = http.Client{Timeout: 30 * time.Second}
)

// errRefused means that the server understood and said no: the same push will be refused again.
var errRefused = errors.New("refused")

type unique struct {
	Value        string `json:"value"`
	WindowMillis int64  `json:"window_ms"`
}

type job struct {
	Topic       string `json:"topic"`
	ID          string `json:"id"`
	Body        any    `json:"body"`
	Unique      unique `json:"unique"`
	Priority    string `json:"priority,omitempty"`
	DelayMillis int64  `json:"delay_ms"`
}

// newJob makes a job for topic whose body is value as JSON.
//
// The id is made here, before anything is sent: a push whose answer got lost may then be repeated, and is stored once.
// The id alone says so until the job is done; as a unique value with a window it does for as long as anybody retries.
func newJob(topic string, value any, after time.Duration) job {
	id := rand.Text()
	once := unique{id, time.Hour.Milliseconds()}
	return job{Topic: topic, ID: id, Body: value, Unique: once, DelayMillis: after.Milliseconds()}
}

// push tells what became of each job: "stored", "exists" (it was there already) or "duplicate" (another has its unique value).
//
// After an error jobs that come before may be stored, so push the very same again: those that are there are answered "exists".
func push(jobs []job) ([]string, error) {
	var statuses []string
	for chunk := range slices.Chunk(jobs, jobsPerRequest) {
		pushed, err := send(chunk)
		if err != nil {
			return nil, err
		}
		for at, answer := range pushed {
			if answer.Of == chunk[at].ID {
				answer.Status = "exists"
			}
			statuses = append(statuses, answer.Status)
		}
	}
	return statuses, nil
}

type answer struct{ Status, Of string }

func send(jobs []job) ([]answer, error) {
	data, err := json.Marshal(map[string]any{"jobs": jobs})
	if err != nil {
		return nil, err
	}
	for tried := 1; ; tried++ {
		pushed, wait, err := sendOnce(data)
		if err == nil || errors.Is(err, errRefused) || tried == tries {
			return pushed, err
		}
		time.Sleep(max(wait, 100*time.Millisecond<<tried))
	}
}

// sendOnce tells how long to wait before another try, too, where the server says so.
func sendOnce(data []byte) ([]answer, time.Duration, error) {
	request, err := http.NewRequest("POST", url+"/v1/jobs", bytes.NewReader(data))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	var document struct {
		Pushed       []answer
		Code, Detail string // of a problem document, RFC 9457
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		return nil, 0, err
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	switch status := response.StatusCode; {
	case status >= 500 || status == http.StatusTooManyRequests:
		return nil, wait, fmt.Errorf("%s: %s", document.Code, document.Detail)
	case status >= 400:
		return nil, 0, fmt.Errorf("%w: %s: %s", errRefused, document.Code, document.Detail)
	}
	return document.Pushed, 0, nil
}

func run(topic string) error {
	first := newJob(topic, map[string]string{"hello": "now"}, 0)
	later := newJob(topic, map[string]string{"hello": "later"}, time.Minute)
	later.Priority = "low"
	var many []job
	for number := range 2500 {
		many = append(many, newJob(topic, map[string]int{"number": number}, 0))
	}

	for _, step := range []struct {
		name string
		jobs []job
	}{{"now", []job{first}}, {"the same again", []job{first}}, {"in a minute", []job{later}}, {"many", many}} {
		statuses, err := push(step.jobs)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d, the last one %s\n", step.name, len(statuses), statuses[len(statuses)-1])
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "name a topic: go run push.go echo")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "not pushed:", err)
		os.Exit(1)
	}
}
