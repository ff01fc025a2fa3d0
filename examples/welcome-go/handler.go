// The handler of signups: checks one, greets, and sees to a reminder three days later.
package main

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"log/slog"
	"strings"
	"time"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
)

const (
	greylistDelay = 30 * time.Second
	reminderDelay = 3 * 24 * time.Hour
)

func init() { gristmill.Handle(handle) }

func main() {}

// signup is what the body says, checked.
type signup struct {
	email, domain, name, plan string
	reminder                  bool
}

// followUp is the body of the reminder.
type followUp struct {
	Email    string `json:"email"`
	Name     string `json:"name"`
	Plan     string `json:"plan"`
	Reminder bool   `json:"reminder"`
}

// welcome is the job's result.
type welcome struct {
	Email    string `json:"email"`
	Name     string `json:"name"`
	Plan     string `json:"plan"`
	Greeting string `json:"greeting"`
}

func handle(job *gristmill.Job) (any, error) {
	s, err := parse(job)
	if err != nil {
		return nil, err
	}
	if job.Attempt == 1 && greylisted(s.domain) {
		return nil, gristmill.Retry("greylisted", "%s takes new senders at the second try", s.domain).After(greylistDelay)
	}
	if s.reminder {
		slog.Info("reminder", "domain", s.domain, "plan", s.plan)
		return welcome{s.email, s.name, s.plan, "Still there, " + s.name + "?"}, nil
	}
	slog.Info("signup", "domain", s.domain, "plan", s.plan)
	if err := remind(job.Topic, s); err != nil {
		return nil, err
	}
	return welcome{s.email, s.name, s.plan, "Welcome, " + s.name + "!"}, nil
}

func parse(job *gristmill.Job) (s signup, err error) {
	var fields map[string]jsontext.Value
	if err := job.JSON(&fields); err != nil {
		return s, err
	}
	if fields == nil {
		return s, gristmill.Reject("bad-payload", "the body is null, not a JSON object")
	}
	if s.email, s.domain, err = email(fields["email"]); err != nil {
		return s, err
	}
	if s.name, err = name(fields["name"]); err != nil {
		return s, err
	}
	if s.plan, err = plan(fields["plan"]); err != nil {
		return s, err
	}
	s.reminder, err = reminder(fields["reminder"])
	return s, err
}

func email(field jsontext.Value) (email, domain string, err error) {
	text, ok := text(field)
	if !ok {
		return "", "", gristmill.Reject("invalid-email", "email is not a string")
	}
	email = strings.Map(asciiLower, strings.Trim(text, whitespace))
	local, domain, _ := strings.Cut(email, "@")
	if local == "" || strings.Contains(domain, "@") || !dotInside(domain) {
		return "", "", gristmill.Reject("invalid-email", "email is not of the form name@domain.tld")
	}
	return email, domain, nil
}

func name(field jsontext.Value) (string, error) {
	text, ok := text(field)
	if !ok {
		return "", gristmill.Reject("invalid-name", "name is not a string")
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(whitespace, r) })
	if len(words) == 0 {
		return "", gristmill.Reject("invalid-name", "name is empty")
	}
	return strings.Join(words, " "), nil
}

func plan(field jsontext.Value) (string, error) {
	if field == nil {
		return "free", nil
	}
	if plan, _ := text(field); plan == "free" || plan == "pro" {
		return plan, nil
	}
	return "", gristmill.Reject("invalid-plan", "plan is neither free nor pro")
}

func reminder(field jsontext.Value) (bool, error) {
	switch string(field) {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	}
	return false, gristmill.Reject("bad-payload", "reminder is neither true nor false")
}

func greylisted(domain string) bool {
	list, _ := gristmill.Config("greylist")
	for entry := range strings.SplitSeq(list, ",") {
		if strings.Trim(entry, whitespace) == domain {
			return true
		}
	}
	return false
}

// remind asks for the reminder, once for each address.
func remind(topic string, s signup) error {
	_, err := gristmill.Enqueue(gristmill.NewJob{
		Topic:     topic,
		Body:      followUp{s.email, s.name, s.plan, true},
		NotBefore: gristmill.Now().Add(reminderDelay),
		Unique:    "reminder:" + s.email,
		Priority:  gristmill.Low,
	})
	return err
}

// whitespace is JSON's: the rules must not depend on a language's idea of it. The same goes for lower case.
const whitespace = " \t\r\n"

func asciiLower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		r += 'a' - 'A'
	}
	return r
}

// dotInside says whether a dot has something on both sides.
func dotInside(domain string) bool {
	return len(domain) > 2 && strings.Contains(domain[1:len(domain)-1], ".")
}

// text is the value of a JSON string; false if the field is another value or not there.
func text(field jsontext.Value) (text string, ok bool) {
	if field.Kind() != '"' {
		return "", false
	}
	return text, json.Unmarshal(field, &text) == nil
}
