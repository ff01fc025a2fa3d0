package gristmill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// If the server asks for more patience, the caller gets its error.
const mostWait = time.Minute

// Error is what the server refused, by its problem document. Status is 0 without an answer; then Code is "unreachable" or "wait-timeout".
type Error struct {
	Code, Title, Detail string
	Status              int
	// RetryAfter is how long the server asks to wait.
	RetryAfter time.Duration `json:"-"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Temporary tells whether another try may go better.
func (e *Error) Temporary() bool {
	return e.Status == 429 || e.Status >= 502 && e.Status <= 504 || e.Code == "unreachable"
}

// direct follows no redirect: it would make a GET of a push.
var direct = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

type server struct {
	url, token string
}

// call sends a request until it is answered, and decodes the answer. It returns how many tries that took.
func (s *server) call(ctx context.Context, method, path string, document, answer any, headers map[string]string, tries int) (int, error) {
	for tried := 1; ; tried++ {
		err := s.once(ctx, method, path, document, answer, headers)
		refused, ok := err.(*Error)
		if !ok {
			return tried, err
		}
		wait := max(100*time.Millisecond<<tried/2+rand.N(100*time.Millisecond<<tried/2), refused.RetryAfter)
		if tried >= tries || !refused.Temporary() || wait > mostWait || ctx.Err() != nil {
			return tried, err
		}
		sleep(ctx, wait)
	}
}

func (s *server) once(ctx context.Context, method, path string, document, answer any, headers map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	body, err := s.open(ctx, method, path, document, headers)
	if err != nil {
		return err
	}
	defer body.Close()
	if err = json.NewDecoder(body).Decode(answer); err != nil {
		err = s.unreachable(err)
	}
	return err
}

// open sends a request and returns the body of its answer.
func (s *server) open(ctx context.Context, method, path string, document any, headers map[string]string) (io.ReadCloser, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	} else if document == nil {
		text = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := direct.Do(request)
	if err != nil {
		return nil, s.unreachable(err)
	}
	if answer.StatusCode < 300 {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	text, _ = io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	refused := Error{Code: "no-problem-document", Title: answer.Status, Detail: string(text)} // of a proxy
	if answer.StatusCode < 400 {
		refused.Detail = fmt.Sprintf("the server redirects to %s: name that address", answer.Header.Get("Location"))
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") {
		_ = json.Unmarshal(text, &refused)
	}
	refused.Status, refused.RetryAfter = answer.StatusCode, time.Duration(seconds)*time.Second
	return nil, &refused
}

// withoutUser leaves the user and the password of an address out, which are nobody's business in a log.
func withoutUser(url string) string {
	return url[strings.LastIndex(url, "@")+1:]
}

func (s *server) unreachable(err error) error {
	detail := fmt.Sprintf("failed to get an answer of the server at %s: %v; does it run there, with that scheme?", withoutUser(s.url), err)
	return &Error{Code: "unreachable", Title: "No answer", Detail: detail}
}

func sleep(ctx context.Context, wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}
