// Sends the request that its body names, such as `GET http://…`; the result is what came back.
package main

import (
	"fmt"
	"strings"
	"time"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
)

func init() { gristmill.Handle(handle) }

func main() {}

func handle(job *gristmill.Job) (any, error) {
	method, url, _ := strings.Cut(string(job.Body.Data), " ")
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
