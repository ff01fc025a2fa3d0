// Sends the request that its body names, such as `net/http http://…`, with Go's own library; the result is what came back.
package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
	_ "github.com/gristmill/gristmill/guest-sdk/go/nethttp"
)

func init() { gristmill.Handle(handle) }

func main() {}

func handle(job *gristmill.Job) (any, error) {
	_, url, _ := strings.Cut(string(job.Body.Data), " ")
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
