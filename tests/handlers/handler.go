// What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends.
package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
	_ "github.com/gristmill/gristmill/guest-sdk/go/nethttp"
)

func init() { gristmill.Handle(handle) }
func main() {}

func handle(job *gristmill.Job) (any, error) {
	body := string(job.Body.Data)
	switch method, url, isRequest := strings.Cut(body, " "); {
	case method == "net/http":
		return byLibrary(url)
	case isRequest:
		return send(method, url)
	}
	switch body {
	case "fan", "gather", "wrong", "bad", "good":
		return link(job, body)
	}
	return count(job, body)
}

func link(job *gristmill.Job, body string) (any, error) {
	switch body {
	case "fan":
		first := gristmill.NewJob{Topic: job.Topic, Body: "gather", AfterJobs: []string{job.ID}, RunAfterFailed: true, Open: true}
		batch, err := gristmill.Enqueue(first)
		if err != nil {
			return nil, err
		}
		bad, err := gristmill.Enqueue(gristmill.NewJob{Topic: job.Topic, Body: "bad", Batch: batch})
		if err != nil {
			return nil, err
		}
		_, err = gristmill.Enqueue(gristmill.NewJob{Topic: job.Topic, Body: "good", AfterJobs: []string{bad}, Batch: batch})
		return batch, err
	case "gather":
		found, _ := job.Meta("predecessors")
		return found, nil
	case "wrong":
		return gristmill.Enqueue(gristmill.NewJob{Topic: job.Topic, Batch: "no id!"})
	}
	return nil, gristmill.Reject("bad", "as requested")
}

// Sends the request that the body names, such as `GET http://…`; the result is what came back.
func send(method, url string) (any, error) {
	request := gristmill.Request{Method: method, URL: url, Redirects: 1}
	if method == "POST" {
		request.Headers = []gristmill.Pair{{Name: "x-kept", Value: "1"}, {Name: "x-kept", Value: "2"}}
		request.Body = []byte("hello")
		request.Timeout = 20 * time.Second
	}
	if method == "SLOW" {
		request.Method, request.Timeout = "GET", 50*time.Millisecond
	}
	answer, err := gristmill.Send(request)
	if err != nil {
		return nil, err
	}
	return fmt.Sprintf("%d %s %s", answer.Status, answer.Header("X-A"), answer.Body), nil
}

// The same with Go's own library.
func byLibrary(url string) (any, error) {
	request, err := http.NewRequest("POST", url, strings.NewReader("hello"))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Kept", "1")
	client := http.Client{Timeout: 20 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s %s", answer.StatusCode, answer.Header.Get("X-A"), body), err
}

var everything [][]byte

func deep(calls int) int { return deep(calls+1) + 1 }

// Counts the jobs of a key in its state.
func count(job *gristmill.Job, body string) (any, error) {
	switch body {
	case "progress":
		gristmill.Progress(5000, "half")
		return nil, nil
	case "crash":
		panic("on purpose")
	case "deep":
		return strconv.Itoa(deep(0)), nil
	case "hoard":
		for {
			everything = append(everything, make([]byte, 1<<20))
		}
	case "large":
		if err := gristmill.Checkpoint(make([]byte, 2000)); err != nil {
			return nil, err
		}
	}
	var seen int
	if _, err := gristmill.StateJSON(&seen); err != nil {
		return nil, err
	}
	seen++
	if err := gristmill.SetStateJSON(seen); err != nil {
		return nil, err
	}
	if body == "fail" && job.Attempt == 1 {
		return nil, gristmill.Retry("later", "after the state was set")
	}
	return strconv.Itoa(seen), nil
}
