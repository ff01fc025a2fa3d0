// Package nethttp has net/http, and every library that uses it, send through the runner. Import it for that, once:
//
//	import _ "github.com/gristmill/gristmill/guest-sdk/go/nethttp"
//
// It is a package of its own because net/http adds 7 MB to a component, and because what imports it runs only in topics that grant requests.
package nethttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
)

func init() { http.DefaultTransport = Transport{} }

// Transport is an [http.RoundTripper] over [gristmill.Send]; it becomes [http.DefaultTransport]. Its errors are or wrap a
// [gristmill.Failure]: return them, and a request that the runner refused rejects the job. In tests the [gristmill.Fake] answers.
type Transport struct{}

// ofConnection are the headers that the runner sets.
var ofConnection = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// RoundTrip sends one request; the client follows redirects, each of which is checked like any request.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	if request.Host != "" && request.Host != request.URL.Host {
		return nil, gristmill.Reject("http-invalid", "the request cannot be sent: its Host is %q and its URL has %q", request.Host, request.URL.Host)
	}
	url := *request.URL
	url.User, url.Fragment = nil, ""
	asked := gristmill.Request{Method: request.Method, URL: url.String(), Body: body}
	for name, values := range request.Header {
		for _, value := range values {
			if !slices.Contains(ofConnection, name) {
				asked.Headers = append(asked.Headers, gristmill.Pair{Name: name, Value: value})
			}
		}
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	if deadline, ok := request.Context().Deadline(); ok {
		asked.Timeout = max(time.Until(deadline), time.Millisecond)
	}
	answer, err := gristmill.Send(asked)
	if err != nil {
		return nil, err
	}
	return responseOf(answer, request), nil
}

func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	return body, errors.Join(err, request.Body.Close())
}

func responseOf(answer *gristmill.Response, request *http.Request) *http.Response {
	response := &http.Response{
		Status:     fmt.Sprintf("%d %s", answer.Status, http.StatusText(int(answer.Status))),
		StatusCode: int(answer.Status),
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{},
		Body:       io.NopCloser(bytes.NewReader(answer.Body)),
		Request:    request,

		ContentLength: int64(len(answer.Body)),
	}
	for _, pair := range answer.Headers {
		response.Header.Add(pair.Name, pair.Value)
	}
	return response
}
