package gristmill

import (
	"strings"
	"time"
)

// Request is one request over HTTP, to a host that the manifest grants this topic. Only URL is needed.
type Request struct {
	// Method is GET if it is empty.
	Method string
	// URL is absolute, without user, password and fragment.
	URL string
	// Headers may repeat names. host, content-length, connection and their like are the runner's to set.
	Headers []Pair
	// Body is sent unless it is nil.
	Body []byte
	// Timeout is for all of it, redirects included; 0, or more than the topic is granted: what it is granted.
	Timeout time.Duration
	// Redirects to follow, 20 at most. Otherwise a redirect is an answer like any other.
	Redirects uint32
}

// Response is a whole answer, whatever its status.
type Response struct {
	Status uint16
	// Headers has names in lower case, in order; they may repeat.
	Headers []Pair
	Body    []byte
	// URL is where the answer came from.
	URL string
}

// Header returns the first value of this name, in whatever case it is asked for; empty if there is none.
func (r *Response) Header(name string) string {
	for _, pair := range r.Headers {
		if strings.EqualFold(pair.Name, name) {
			return pair.Value
		}
	}
	return ""
}

// Send sends a request and waits for the whole answer.
//
// The error is a [Failure], to be returned by the handler: it rejects the job if another try would end the same
// (http-denied, http-invalid, http-too-large, http-too-many), and else retries it (http-timeout, http-unreachable).
//
// A component that calls this imports gristmill:job/http, and runs only in topics that grant requests.
func Send(request Request) (*Response, error) {
	if request.Method == "" {
		request.Method = "GET"
	}
	return hostSend(&request)
}

func httpDenied(why string) *Failure {
	return Reject("http-denied", "the request is not granted: %s", why)
}
